"""Metric for SQuAD 1.1."""
