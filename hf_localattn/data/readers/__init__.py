"""Readers for corpora and file formats."""
