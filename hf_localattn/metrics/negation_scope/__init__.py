"""Metric for negation scopes."""
