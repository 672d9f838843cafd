"""Labels of cues, and the cues in a sequence of labels."""

import pytest

from hf_localattn.models.negation_finder import CUE_LABELS, FoundCue, group_cues
from hf_localattn.models.pipeline_negation import affix_offsets

SHORT = {"s": "negation:single", "a": "negation:affix", "m": "negation:multi", "M": "speculation:multi", "-": "O"}


@pytest.mark.parametrize(
    ("labels", "cues"),
    [
        ("---", []),
        ("s-s", [("negation", "single", (0,)), ("negation", "single", (2,))]),
        ("ss", [("negation", "single", (0,)), ("negation", "single", (1,))]),
        ("-a", [("negation", "affix", (1,))]),
        ("mm-", [("negation", "multi", (0, 1))]),
        ("m-m-m", [("negation", "multi", (0, 2, 4))]),
        ("mm-m-m", [("negation", "multi", (0, 1)), ("negation", "multi", (3, 5))]),
        ("-m-", [("negation", "single", (1,))]),
        ("mMM", [("negation", "single", (0,)), ("speculation", "multi", (1, 2))]),
    ],
)
def test_labels_become_cues(labels, cues):
    assert group_cues([SHORT[one] for one in labels]) == [FoundCue(*cue) for cue in cues]


@pytest.mark.parametrize(
    ("word", "affix"),
    [
        *(
            ("infrequent", "in"),
            ("Unhappy", "Un"),
            ("carelessness", "less"),
            ("hopelessly", "less"),
            ("illegal", "il"),
        ),
        *(("non-smoker", "non"), ("irregular", "ir"), ("atypical", "a"), ("never", "never"), ("", "")),
    ],
)
def test_affixes(word, affix):
    start, end = affix_offsets(word)
    assert word[start:end] == affix


def test_names_of_labels():
    assert CUE_LABELS[3:] == ("speculation:affix", "speculation:single", "speculation:multi")
