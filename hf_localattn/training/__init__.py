"""What the training scripts do, callable from Python."""
