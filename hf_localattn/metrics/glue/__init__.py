"""Metrics for GLUE."""
