import hypothesis.strategies as st
import numpy as np
import pytest
from datasets import Dataset
from hypothesis import assume, given, settings

from hf_localattn import OaXLNetTokenizer
from hf_localattn.data.scopes import (
    NO_WORD,
    ScopeExamples,
    check_knows_cues,
    count_unseen,
    scope_features,
    word_labels,
)
from hf_localattn.data.words import IGNORED
from tests.qa_helpers import word_pieces

ROW = {"tokens": ["the", "cats", "sat", "on", "mats"], "cue": [0, 0, 1, 0, 0], "scope": [1, 1, 0, 0, 1]}
TWICE = {"tokens": ["sat", "cats", "on"], "cue": [1, 0, 1], "scope": [0, 1, 0]}
AFFIX = {"tokens": ["cats", "on"], "cue": [1, 0], "cue_type": "affix", "scope": [1, 0]}


def features(*rows, max_length=40, cue_marker="keep", outside=0):
    tokenizer = OaXLNetTokenizer.from_backbone(word_pieces(), cue_marker=cue_marker)
    rows = [{"cue_type": "multi" if sum(row["cue"]) > 1 else "single", **row} for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    encoded = scope_features(columns, tokenizer, max_length, {"O": outside, "SCOPE": 1 - outside})
    return encoded, [tokenizer.convert_ids_to_tokens(ids) for ids in encoded["input_ids"]]


@pytest.mark.parametrize(
    ("row", "options", "tokens", "numbers", "labels"),
    [
        (ROW, {}, "the cat ##s [CUE] sat on mat ##s", "0 1 1 . 2 3 4 4", "1 1 1 . 0 0 1 1"),
        (ROW, {"cue_marker": "drop"}, "the cat ##s sat on mat ##s", "0 1 1 2 3 4 4", "1 1 1 0 0 1 1"),
        (
            TWICE,
            {"cue_marker": "typed", "outside": 1},
            "[CUE:multi] sat cat ##s [CUE:multi] on",
            ". 0 1 1 . 2",
            ". 1 0 0 . 1",
        ),
        # an affix's word may be in its scope
        (AFFIX, {"cue_marker": "typed"}, "[CUE:affix] cat ##s on", ". 0 0 1", ". 1 1 0"),
        (ROW | {"scope": []}, {}, "the cat ##s [CUE] sat on mat ##s", "0 1 1 . 2 3 4 4", ". . . . . . . ."),
    ],
)
def test_every_token_of_a_word_has_its_label_and_markers_have_none(row, options, tokens, numbers, labels):
    encoded, (found,) = features(row, **options)
    assert found == ["[CLS]", *tokens.split(), "[SEP]"]
    for name, nothing, expected in (("word_numbers", NO_WORD, numbers), ("labels", IGNORED, labels)):
        listed = [nothing if cell == "." else int(cell) for cell in f". {expected} .".split()]
        assert encoded[name] == [listed]


def test_words_and_cues_that_the_model_does_not_see():
    nothing = {"tokens": ["sat", "\u200b", "cats"], "cue": [0, 1, 0], "scope": [1, 0, 1]}
    for rows, length, expected in (
        # [CLS] the cat ##s [CUE] [SEP]; [CLS] [CUE] sat cat ##s [SEP]; of the third row's cue there is no token
        ([ROW, TWICE, nothing], 6, ([3, 1, 1], [1, 1, 1])),
        ([ROW, TWICE], 40, ([0, 0], [0, 0])),
    ):
        encoded, _ = features(*rows, max_length=length)
        assert count_unseen(Dataset.from_list(rows), Dataset.from_dict(dict(encoded))) == expected


def pairs(*margins):
    """Logits of two labels, which differ by these."""
    return np.array([[0.0, margin] for margin in margins])


def in_scope(logits, numbers, length):
    """The scope of a sentence of which a word, unless `numbers` is empty, has tokens."""
    rows = Dataset.from_list([{"cue": [0] * length, "scope": []}])
    return ScopeExamples(rows, [0], [numbers]).scopes(logits[None], ["O", "SCOPE"])[0]


@pytest.mark.parametrize(
    ("margins", "numbers", "expected"),
    [
        ([9, -1, 3, 9, 1, 1, -3, 0.1, 9], [NO_WORD, 0, 0, NO_WORD, 1, 1, 1, 2, NO_WORD], [1, 0, 1]),
        ([0, 5], [NO_WORD, 1], [0, 1, 0]),  # words without tokens are outside
        ([5], [NO_WORD], [0, 0]),
        ([5, -100, -100], [0], [1, 0]),  # padding follows the tokens
    ],
)
def test_a_word_is_in_scope_by_the_mean_of_its_tokens(margins, numbers, expected):
    assert in_scope(pairs(*margins), numbers, len(expected)) == expected
    names = word_labels(pairs(*margins)[:, ::-1], numbers, len(expected), ["x", "O"])
    seen = set(numbers)
    assert names == ["O" if not inside and place in seen else "x" for place, inside in enumerate(expected)]


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(-9, 9), max_size=4), min_size=1, max_size=6))
def test_a_plain_mean(words):
    assume(any(words))
    assume(all(sum(margins) for margins in words if margins))  # no ties
    numbers = [number for number, margins in enumerate(words) for _ in margins]
    expected = [int(bool(margins) and sum(margins) > 0) for margins in words]
    assert in_scope(pairs(*(margin for margins in words for margin in margins)), numbers, len(words)) == expected


def test_rows_without_features_have_empty_scopes():
    rows = Dataset.from_list([ROW, TWICE])
    examples = ScopeExamples(rows, [1], [[NO_WORD, 0, 1, 1, 2]])
    logits = pairs(1, -1, -1, 2, 1)[None, :, ::-1]
    assert examples.scopes(logits, ["SCOPE", "O"]) == [[0] * 5, [0, 1, 1]]
    assert examples.true_scopes == [ROW["scope"], TWICE["scope"]]
    assert ScopeExamples(rows.map(lambda row: {"scope": []}), [1], [[]]).true_scopes is None


def test_a_tokenizer_that_knows_no_cues():
    check_knows_cues(OaXLNetTokenizer.from_backbone(word_pieces()))
    with pytest.raises(ValueError, match=r"has no cue marker.*run_ner\.py --do_train.*OaXLNetTokenizer"):
        check_knows_cues(word_pieces())
