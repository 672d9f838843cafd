"""Rows of each task: their columns, their checks, and their loading from files and data sets."""
