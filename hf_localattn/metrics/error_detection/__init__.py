"""Metric for word-level error detection."""
