"""Metric for negations in sentences."""
