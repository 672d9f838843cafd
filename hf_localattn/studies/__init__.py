"""Many runs: processes that run them, folds, seeds, searches, and comparisons of their results."""
