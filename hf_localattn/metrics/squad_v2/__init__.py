"""Metric for SQuAD 2.0."""
