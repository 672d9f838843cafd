"""Many runs: trials as plain data, the executors that run them, cross-validation and searches."""
