"""The metric of word-level error detection."""
