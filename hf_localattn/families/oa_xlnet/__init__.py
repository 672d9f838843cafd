"""Everything about one family that is not model code."""
