"""Benchmarks of time and memory, as ratios to a peer measured in the same run. See `python -m benchmarks --help`."""
