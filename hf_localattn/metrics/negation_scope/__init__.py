"""The metric of negation scopes."""
