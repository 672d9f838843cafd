"""Limits of what a service reads from its visitors. They are defaults: programs of one's own have none."""

MOST_CHARACTERS = 10_000
"""Characters of all texts of a request."""
