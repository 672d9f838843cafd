"""Metric for Chinese grammatical error diagnosis."""
