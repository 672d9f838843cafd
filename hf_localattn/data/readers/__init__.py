"""Readers of corpora and formats."""
