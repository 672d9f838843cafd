"""Options of the training scripts, which are declared without torch."""
