"""Speed and memory, always as a ratio to a named peer measured in the same run. `python -m benchmarks --help`."""
