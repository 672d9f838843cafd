"""The metric of Chinese grammatical error diagnosis."""
