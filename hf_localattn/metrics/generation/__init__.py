"""The metrics of generated texts."""
