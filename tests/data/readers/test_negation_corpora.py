"""The counts that were published, on the corpora themselves.

They may not be passed on, so each test runs where an environment variable says where its corpus is; several files are
separated as in PATH.
"""

import os

import pytest
from datasets import concatenate_datasets

from hf_localattn.data.negation import load_negation

PREFIX = "HF_LOCALATTN_"
CORPORA = [
    # variable, kind, cues, empty scopes as far as they were published or counted
    ("BIOSCOPE_FULL_PAPERS", "negation", 376, 2),
    ("BIOSCOPE_FULL_PAPERS", "speculation", 668, 2),
    ("BIOSCOPE_ABSTRACTS", "negation", 1719, 28),
    ("BIOSCOPE_ABSTRACTS", "speculation", 2659, 0),
    ("SFU", "negation", 3528, 182),
    ("SFU", "speculation", 5363, 194),
    ("STARSEM_TRAIN", "negation", 984, 97),
    ("STARSEM_DEV", "negation", 173, 5),
    ("STARSEM_TEST", "negation", 264, 15),
]


@pytest.mark.corpus(reason="needs a corpus that is not ours to pass on")
@pytest.mark.parametrize(("name", "cues", "count", "empty"), CORPORA)
def test_counts_of_the_corpora(name, cues, count, empty):
    paths = os.environ.get(PREFIX + name)
    if not paths:
        pytest.skip(f"{PREFIX}{name} does not say where it is")
    # SFU as published has 69 scopes that refer to no cue.
    policy = "skip" if name == "SFU" else "error"
    rows = concatenate_datasets(
        [load_negation(path, cues, unmatched_scopes=policy) for path in paths.split(os.pathsep)]
    )
    assert len(rows) == count
    assert sum(not any(scope) for scope in rows["scope"]) == empty
    assert all(any(cue) for cue in rows["cue"])
    assert not any(
        own and inside and row["cue_type"] != "affix"
        for row in rows
        for own, inside in zip(row["cue"], row["scope"], strict=True)
    )
