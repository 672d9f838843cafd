"""Program of a user for a type checker: `make lint` checks this file with mypy; nothing runs it."""

from typing import assert_type

from hf_localattn import CoolForSequenceClassification, SlaBertTokenizer

assert_type(CoolForSequenceClassification.from_pretrained("folder"), CoolForSequenceClassification)
assert_type(CoolForSequenceClassification.from_backbone("tiny", num_labels=3), CoolForSequenceClassification)
assert_type(SlaBertTokenizer.from_backbone(None), SlaBertTokenizer)
