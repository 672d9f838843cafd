"""Limits of what a service reads from its visitors. They are defaults: programs of one's own have none."""

MOST_CHARACTERS = 20_000
"""Characters of all texts of a request."""

MOST_SENTENCE_CHARACTERS = 2_000
"""Characters of one sentence, in which the finder of negation looks for cues."""
