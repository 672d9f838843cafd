"""Benchmarks of time and memory, as ratios to a peer measured in the same run. See `python -m benchmarks --help`.

`python -m benchmarks.negation` scores predictions of negation instead.
"""
