"""Conversion of rows to model inputs, their collators, and conversion of logits to predictions."""
