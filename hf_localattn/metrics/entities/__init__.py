"""The metric of SQuAD 2.0."""
