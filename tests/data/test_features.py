"""Label sets and model inputs of every task but question answering, and predictions from logits."""

from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from hf_localattn import OaXLNetTokenizer
from hf_localattn.data import Source, choices, generation, scopes, texts, words
from hf_localattn.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    format_predictions,
    labels_of,
    number_labels,
)
from hf_localattn.data.rows import KNOWN_LABEL, labeled_rows
from hf_localattn.models.negation_labels import NO_WORD
from tests.data.notation import columns
from tests.qa_helpers import question, word_pieces

CLASSES, SETS = (Labels(kind, ("c", "b", "a")) for kind in (SINGLE_LABEL, MULTI_LABEL))
SCORES, MIXED = Labels(REGRESSION), ("-2", "9", "10", "x")
TOKENIZER = word_pieces()


def decoded(rows):
    return list(map(TOKENIZER.decode, rows))


def load(*labels, **options):
    rows = [(f"line {number}", {"text": "cat", "label": label}) for number, label in enumerate(labels, 1)]
    return texts.load_texts(Source("data.jsonl", rows), **options)


@pytest.mark.parametrize(
    ("labels", "expected", "warns"),
    [
        (["10", "9", "x", "-2", None], Labels(SINGLE_LABEL, MIXED), False),
        ([[3], [0, 10]], Labels(MULTI_LABEL, ("0", "3", "10")), False),
        (['["y"]', None], Labels(MULTI_LABEL, ("y",)), False),
        (["1.0", "", "0.0", None], SCORES, True),
        ([".5e3"], SCORES, False),
        ([f"{number}.0" for number in range(20)], SCORES, True),
        ([f"{number}.0" for number in range(21)], SCORES, False),
        ([None], None, False),
    ],
)
def test_labels_tell_what_is_predicted(labels, expected, warns, caplog):
    assert labels_of(load(*labels, require_labels=False)) == expected
    assert ("--do_regression false" in caplog.text) is warns


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        (["a", "b"], CLASSES, [2, 1]),
        ([["a", "b"], []], SETS, [[0, 1, 1], [0, 0, 0]]),
        ([[], []], SETS, [[0, 0, 0], [0, 0, 0]]),
        ([0.5, 1], SCORES, [0.5, 1]),
        ([3, 5], SCORES, [3, 5]),  # beside training scores with a fraction
        (["a", "d"], CLASSES, r"line 2: .*'d'.*\('c', 'b', 'a'\)"),
        ([["a"], ["b", "d"]], SETS, "line 2: .*'d'"),
        ([0.5], CLASSES, "line 1: .* 0.5 is not one of 3 classes"),
        (["a"], SCORES, "line 1: .*'a' is not a number"),
    ],
)
def test_targets_have_the_order_of_the_labels(rows, labels, expected):
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=rf"data\.jsonl, {expected}"):
            number_labels(load(*rows), labels)
        return
    assert number_labels(load(*rows), labels)["label"][:] == expected
    partly = number_labels(load(*rows, None, require_labels=False), labels)
    assert partly[KNOWN_LABEL][:] == [*expected, None]
    assert labeled_rows(partly) == ([0, 1][: len(rows)], expected)
    unlabeled = number_labels(load(None, None, require_labels=False), labels)
    assert unlabeled.column_names == ["text"]


def test_texts_and_their_predictions():
    rows = {"text": ["the cat sat", "on"], "text_pair": ["on the mat", "the"], "label": [1, 0]}
    features = texts.tokenize_texts(rows, TOKENIZER, max_length=7)
    assert decoded(features["input_ids"]) == ["[CLS] the cat [SEP] on the [SEP]", "[CLS] on [SEP] the [SEP]"]
    assert features["label"] == [1, 0]
    assert "label" not in texts.tokenize_texts({"text": ["the cat"]}, TOKENIZER, max_length=7)
    logits = np.array([[0.5, -1.0], [-1.0, 2.0], [0.0, 1e-9]])
    one, several = (Labels(kind, ("b", "é")) for kind in (SINGLE_LABEL, MULTI_LABEL))
    assert format_predictions(logits, one) == ["b", "é", "é"]
    assert format_predictions((logits, "states"), several) == ['["b"]', '["é"]', '["é"]']
    assert format_predictions(np.array([[1.23456], [-2.0]]), SCORES) == ["1.235", "-2.000"]


def test_choices_of_a_row_stay_together():
    rows = {"context": ["the " * 30, "on"], "choices": [["cat", "red " * 30], ["dog", "cats"]], "label": [1, 0]}
    features = choices.choice_features(rows, TOKENIZER, 12)
    assert decoded(features["input_ids"][1]) == ["[CLS] on [SEP] dog [SEP]", "[CLS] on [SEP] cats [SEP]"]
    assert [len(ids) for ids in features["input_ids"][0]] == [12, 12]
    assert features["label"] == [1, 0]


def numbers(text, blank):
    """Return the numbers of a text; a period is the blank."""
    return [blank if cell == "." else int(cell) for cell in text.split()]


LABELS = {"O": 0, "B-x": 1, "I-x": 2, "B-y": 3}


@pytest.mark.parametrize(
    ("sentence", "labels", "options", "expected", "seen"),
    [
        ("the cats sating", "O B-x B-y", {}, ". 0 1 . 3 . .", [0, 1, 2]),
        ("the cats sating", "O B-x B-y", {"label_all_tokens": True}, ". 0 1 2 3 3 .", [0, 1, 2]),  # there is no I-y
        ("\u200b the \x01  cats \x02", "B-y O B-y B-y B-x B-y", {}, ". 0 1 . .", [1, 4]),
        ("the cats the", "O B-x O", {"max_length": 4}, ". 0 1 .", [0, 1]),
        ("the cats", "", {}, ". 0 0 . .", [0, 1]),
    ],
)
def test_the_first_token_of_a_word_has_its_label(sentence, labels, options, expected, seen):
    rows = {"tokens": [sentence.split(" ")], "labels": [labels.split()]}
    encoded = words.word_features(rows, TOKENIZER, **{"max_length": 40, "label_ids": LABELS, **options})
    assert encoded["labels"] == [numbers(expected, words.IGNORED)]
    assert encoded["visible_word_ids"] == [seen]


def test_a_slow_tokenizer_is_refused():
    with pytest.raises(ValueError, match="SimpleNamespace is not a fast tokenizer"):
        words.prepare_tokenizer(SimpleNamespace(is_fast=False))


ROW = columns("THE CATS [sat] on MATS", cue_type="single")
TWICE = columns("[sat] CATS [on]", cue_type="multi")
AFFIX = columns("[CATS] on", cue_type="affix")  # an affix's word may be in its scope
MARKED, NUMBERS = "[CLS] the cat ##s [CUE] sat on mat ##s [SEP]", ". 0 1 1 . 2 3 4 4 ."
TYPED, OF_AFFIX = "[CLS] [CUE:multi] sat cat ##s [CUE:multi] on [SEP]", "[CLS] [CUE:affix] cat ##s on [SEP]"


def marked(*rows, max_length=40, cue_marker="keep", outside=0):
    tokenizer = OaXLNetTokenizer.from_backbone(TOKENIZER, cue_marker=cue_marker)
    examples = {name: [row[name] for row in rows] for name in rows[0]}
    encoded = scopes.scope_features(examples, tokenizer, max_length, {"O": outside, "SCOPE": 1 - outside})
    return encoded, [" ".join(tokenizer.convert_ids_to_tokens(ids)) for ids in encoded["input_ids"]]


@pytest.mark.parametrize(
    ("row", "options", "tokens", "places", "labels"),
    [
        (ROW, {}, MARKED, NUMBERS, ". 1 1 1 . 0 0 1 1 ."),
        (ROW, {"cue_marker": "drop"}, MARKED.replace("[CUE] ", ""), ". 0 1 1 2 3 4 4 .", ". 1 1 1 0 0 1 1 ."),
        (TWICE, {"cue_marker": "typed", "outside": 1}, TYPED, ". . 0 1 1 . 2 .", ". . 1 0 0 . 1 ."),
        (AFFIX, {"cue_marker": "typed"}, OF_AFFIX, ". . 0 0 1 .", ". . 1 1 0 ."),
        (ROW | {"scope": []}, {}, MARKED, NUMBERS, ". . . . . . . . . ."),
    ],
)
def test_every_token_of_a_word_has_its_label_and_markers_have_none(row, options, tokens, places, labels):
    encoded, found = marked(row, **options)
    assert found == [tokens]
    assert encoded["word_indices"] == [numbers(places, NO_WORD)]
    assert encoded["labels"] == [numbers(labels, words.IGNORED)]


def pairs(*margins):
    """Return logits of two labels, which differ by these."""
    return np.array([[0.0, margin] for margin in margins])


@pytest.mark.parametrize(
    ("margins", "places", "expected"),
    [
        ([9, -1, 3, 9, 1, 1, -3, 0.1, 9], ". 0 0 . 1 1 1 2 .", "x O x"),
        ([0, 5], ". 1", "O x O"),  # words without tokens are outside
        ([5, -100, -100], "0", "x O"),  # padding follows the tokens
    ],
)
def test_a_word_is_in_scope_by_the_mean_of_its_tokens(margins, places, expected):
    names, places = expected.split(), numbers(places, NO_WORD)
    assert scopes.word_labels(pairs(*margins), places, len(names), ["O", "x"]) == names
    examples = scopes.ScopeExamples(Dataset.from_list([ROW, TWICE]), [1], [[NO_WORD, 0, 1, 1, 2]])
    assert examples.scopes(pairs(1, -1, -1, 2, 1)[None, :, ::-1], ["SCOPE", "O"], "stories") == [[0] * 5, [0, 1, 1]]


def test_answer_and_passage_ask_for_the_question():
    examples = {key: [value] for key, value in question().items()}
    whole = generation.generation_features(examples, TOKENIZER, 40, 20)
    assert set(whole) == {"input_ids", "attention_mask", "labels", "reference"}
    assert set(whole["attention_mask"][0]) == {1}
    assert decoded(whole["input_ids"]) == ["[CLS] on the mat [SEP] the cats sat on the mat. the dog sat. [SEP]"]
    assert decoded(whole["labels"]) == ["[CLS] where sat the cat? [SEP]"]
    cut = generation.generation_features(examples, TOKENIZER, 40, 4)["labels"]
    assert decoded(cut) == ["[CLS] where sat [SEP]"]  # a cut question still has its end


# The word "dog" marks the answer, red words are far from it.
FILLER, CATS = "red " * 40, "cat " * 30 + "dog"
LONG = f"the dog sat. {FILLER}on the dog sat who?"


@pytest.mark.parametrize(
    ("context", "answer", "start", "length", "passage"),
    [
        (LONG, "dog", LONG.rindex("dog"), 20, "red " * 10 + "on the dog sat who?"),
        (f"dog the mat. {FILLER}", "dog", 0, 20, "dog the mat." + " red" * 12),
        ("red dog red", "dog", 4, 5, "dog"),
        ("red dog red", "dog", 4, 7, "red dog red"),
        ("a" * 40 + "dog" + "b" * 40, "dog", 40, 20, "aaaaaadogbbbbbb"),  # cut within the word
        (f"the {CATS} sat", CATS, 4, 21, ("cat " * 9).strip()),  # the answer itself is cut
    ],
)
def test_a_passage_that_is_cut(context, answer, start, length, passage, caplog):
    ids = generation.source_ids(context, answer, start, TOKENIZER, length)
    assert len(ids) <= length
    assert TOKENIZER.decode(ids).split("[SEP]")[1].strip() == passage
    assert ("does not fit into 21 tokens" in caplog.text) is (answer == CATS)
