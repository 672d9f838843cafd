"""Model inputs made of rows, their collators, and predictions made of logits."""
