"""Serving of checkpoints outside of training."""
