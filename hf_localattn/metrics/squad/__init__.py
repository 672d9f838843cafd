"""The metric of SQuAD 1.1."""
