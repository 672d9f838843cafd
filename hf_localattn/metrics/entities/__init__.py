"""Metric for named entities."""
