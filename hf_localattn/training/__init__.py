"""Training, evaluating and sharing models, as the scripts do."""
