"""Metrics for generated texts."""
