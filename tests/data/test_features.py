"""Label sets and model inputs of every task but question answering, and predictions from logits."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoTokenizer, ProphetNetTokenizer, RobertaTokenizer

from hf_localattn import OaXLNetTokenizer
from hf_localattn.data.choices import MultipleChoiceCollator, choice_features
from hf_localattn.data.generation import generation_features, source
from hf_localattn.data.scopes import ScopeExamples, check_knows_cues, count_unseen, scope_features, word_labels
from hf_localattn.data.texts import (
    GLUE_TASKS,
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    format_predictions,
    labels_of,
    load_texts,
    number_labels,
    tokenize_texts,
)
from hf_localattn.data.words import IGNORED, prepare_tokenizer, word_features
from hf_localattn.metrics.classification_scores import GLUE_METRICS
from hf_localattn.models.negation_finder import NO_WORD
from tests.data.notation import columns
from tests.qa_helpers import SPECIAL, WORDS, byte_pieces, question, word_pieces, write_jsonl

CLASSES, SETS = (Labels(kind, ("c", "b", "a")) for kind in (SINGLE_LABEL, MULTI_LABEL))
SCORES = Labels(REGRESSION)
TOKENIZER = word_pieces()


def decoded(rows):
    return list(map(TOKENIZER.decode, rows))


@pytest.fixture
def load(tmp_path):
    def rows_of(*labels, **options):
        rows = [{"text": f"cat {number}", "label": label} for number, label in enumerate(labels)]
        return load_texts(write_jsonl(tmp_path / "data.jsonl", rows), **options)

    return rows_of


@pytest.mark.parametrize(
    ("labels", "expected", "warns"),
    [
        (["b", "a", "b"], Labels(SINGLE_LABEL, ("a", "b")), False),
        (["1", "0", None], Labels(SINGLE_LABEL, ("0", "1")), False),
        (["10", "9", "x", "-2"], Labels(SINGLE_LABEL, ("-2", "9", "10", "x")), False),
        ([[3], [0, 10]], Labels(MULTI_LABEL, ("0", "3", "10")), False),
        (['["y"]', None], Labels(MULTI_LABEL, ("y",)), False),
        (["1.0", "", "0.0", None], SCORES, True),
        ([2.0, 1, 0.0], SCORES, True),
        (["1.0", "0.5"], SCORES, False),
        ([".5e3"], SCORES, False),
        ([f"{number}.0" for number in range(20)], SCORES, True),
        ([f"{number}.0" for number in range(21)], SCORES, False),
    ],
)
def test_labels_tell_what_is_predicted(load, labels, expected, warns, caplog):
    assert labels_of(load(*labels, require_labels=False)) == expected
    assert ("--do_regression false" in caplog.text) is warns
    assert labels_of(load(None, require_labels=False)) is None


@pytest.mark.parametrize("task", GLUE_TASKS)
def test_tasks_of_glue(task):
    layout = GLUE_TASKS[task]
    row = dict.fromkeys(layout.texts, "the cat")
    targets = [4.0, 0.5] if layout.names is None else [1, 0]
    rows = load_texts(Dataset.from_list([{**row, "label": label, "idx": 0} for label in targets]), layout)
    labels = labels_of(rows)
    assert labels == Labels(layout.problem_type, layout.names or ())
    assert labels.num_labels == max(len(labels.names), 1)
    numbered = number_labels(rows, labels)
    assert numbered["label"][:] == targets
    assert numbered.column_names == [*("text", "text_pair")[: len(row)], "label"]
    unlabeled = load_texts(Dataset.from_list([{**row, "label": -1}]), layout, require_labels=False)
    assert "label" not in number_labels(unlabeled, labels).column_names
    assert task in GLUE_METRICS


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        (["a", "b"], CLASSES, [2, 1]),
        ([["a", "b", "a"], []], SETS, [[0, 1, 1], [0, 0, 0]]),
        ([0.5, 1], SCORES, [0.5, 1]),
        ([3, 5], SCORES, [3, 5]),  # beside training scores with a fraction
        (["a", "d"], CLASSES, r"line 2: .*'d'.*\(c, b, a\)"),
        (["a", "0"], CLASSES, r"line 2: .*'0'"),
        ([["a"], ["b", "d"]], SETS, "line 2: .*'d'"),
        ([0.5], CLASSES, "line 1: .* 0.5 is not one of 3 classes"),
        (["a"], SCORES, "line 1: .*'a' is not a number"),
        ([["a"]], CLASSES, "line 1: .* is not one of"),
        (["a"], SETS, "line 1: .* is not any number of"),
    ],
)
def test_targets_have_the_order_of_the_labels(load, rows, labels, expected):
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=rf"data\.jsonl, {expected}"):
            number_labels(load(*rows), labels)
        return
    assert number_labels(load(*rows), labels)["label"][:] == expected
    assert number_labels(load(*rows, None, require_labels=False), labels).column_names == ["text"]


def test_texts_and_their_predictions():
    rows = {"text": ["the cat sat", "on"], "text_pair": ["on the mat", "the"], "label": [1, 0]}
    features = tokenize_texts(rows, TOKENIZER, max_length=7)
    assert decoded(features["input_ids"]) == ["[CLS] the cat [SEP] on the [SEP]", "[CLS] on [SEP] the [SEP]"]
    assert features["label"] == [1, 0]
    single = tokenize_texts({"text": ["the cat"]}, TOKENIZER, max_length=7)
    assert (decoded(single["input_ids"]), "label" in single) == (["[CLS] the cat [SEP]"], False)
    logits = np.array([[0.5, -1.0], [-1.0, 2.0], [0.0, 1.0]])
    assert format_predictions(logits, Labels(SINGLE_LABEL, ("b", "a"))) == ["b", "a", "a"]
    assert format_predictions((logits, "states"), Labels(MULTI_LABEL, ("b", "é"))) == ['["b"]', '["é"]', '["é"]']
    assert format_predictions(np.array([[0.0, 1e-9]]), Labels(MULTI_LABEL, ("b", "a"))) == ['["a"]']
    assert format_predictions(np.array([[1.23456], [-2.0]]), SCORES) == ["1.235", "-2.000"]


def test_choices_and_their_batch():
    rows = {"context": ["the", "on"], "choices": [["cat", "red mat"], ["dog", "cats"]], "label": [1, 0]}
    features = choice_features(rows, TOKENIZER, 40)
    assert decoded(features["input_ids"][1]) == ["[CLS] on [SEP] dog [SEP]", "[CLS] on [SEP] cats [SEP]"]
    batch = MultipleChoiceCollator(TOKENIZER)([{name: features[name][i] for name in features} for i in range(2)])
    assert batch["labels"].equal(torch.tensor([1, 0]))
    assert batch["input_ids"].shape == (2, 2, 6)
    assert batch["attention_mask"].sum(-1).tolist() == [[5, 6], [5, 6]]
    bare = choice_features({name: rows[name] for name in ("context", "choices")}, TOKENIZER, 40)
    batch = MultipleChoiceCollator(TOKENIZER)([{name: bare[name][0] for name in bare}])
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids"} & set(bare)
    long = {"context": ["the " * 30], "choices": [["cat " * 30, "dog"]], "label": [0]}
    assert [len(ids) for ids in choice_features(long, TOKENIZER, 12)["input_ids"][0]] == [12, 12]


def numbers(text, blank):
    """Return the numbers of a text; a period is the blank."""
    return [blank if cell == "." else int(cell) for cell in text.split()]


LABELS = {"O": 0, "B-x": 1, "I-x": 2, "B-y": 3}


@pytest.mark.parametrize(
    ("words", "labels", "options", "expected", "seen"),
    [
        ("the cats sating", "O B-x B-y", {}, ". 0 1 . 3 . .", [0, 1, 2]),
        ("the cats sating", "O B-x B-y", {"label_all_tokens": True}, ". 0 1 2 3 3 .", [0, 1, 2]),  # there is no I-y
        ("cats cats", "B-x B-y", {}, ". 1 . 3 . .", [0, 1]),
        ("\u200b the \x01  cats \x02", "B-y O B-y B-y B-x B-y", {}, ". 0 1 . .", [1, 4]),
        ("the cats the", "O B-x O", {"max_length": 4}, ". 0 1 .", [0, 1]),
        ("the cats", "", {}, ". 0 0 . .", [0, 1]),
    ],
)
def test_the_first_token_of_a_word_has_its_label(words, labels, options, expected, seen):
    rows = {"tokens": [words.split(" ")], "labels": [labels.split()]}
    encoded = word_features(rows, TOKENIZER, **{"max_length": 40, "label_ids": LABELS, **options})
    assert encoded["labels"] == [numbers(expected, IGNORED)]
    assert encoded["visible_word_ids"] == [seen]


@pytest.mark.parametrize("kind", ["plain", "RoBERTa"])
def test_a_byte_level_tokenizer_sees_where_words_begin(tmp_path, kind):
    tokenizer = byte_pieces()
    if kind == "RoBERTa":
        tokenizer = RobertaTokenizer(vocab=tokenizer.get_vocab(), merges=[], unk_token="<pad>")
    prepare_tokenizer(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    for own in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        encoded = word_features({"tokens": [["a", "bc"]], "labels": [["O", "B-x"]]}, own, 40, LABELS)
        assert encoded.tokens(0) == ["<s>", "Ġ", "a", "Ġ", "b", "c", "</s>"]
        assert encoded["labels"] == [numbers(". 0 . 1 . . .", IGNORED)]
    with pytest.raises(ValueError, match="SimpleNamespace is not a fast tokenizer"):
        prepare_tokenizer(SimpleNamespace(is_fast=False))


ROW = columns("THE CATS [sat] on MATS", cue_type="single")
TWICE = columns("[sat] CATS [on]", cue_type="multi")
AFFIX = columns("[CATS] on", cue_type="affix")
UNSEEN = {"tokens": ["sat", "\u200b", "cats"], "cue": [0, 1, 0], "scope": [1, 0, 1], "cue_type": "single"}
MARKED, NUMBERS = "[CLS] the cat ##s [CUE] sat on mat ##s [SEP]", ". 0 1 1 . 2 3 4 4 ."


def scopes(*rows, max_length=40, cue_marker="keep", outside=0):
    tokenizer = OaXLNetTokenizer.from_backbone(TOKENIZER, cue_marker=cue_marker)
    examples = {name: [row[name] for row in rows] for name in rows[0]}
    encoded = scope_features(examples, tokenizer, max_length, {"O": outside, "SCOPE": 1 - outside})
    return encoded, [" ".join(tokenizer.convert_ids_to_tokens(ids)) for ids in encoded["input_ids"]]


@pytest.mark.parametrize(
    ("row", "options", "tokens", "words", "labels"),
    [
        (ROW, {}, MARKED, NUMBERS, ". 1 1 1 . 0 0 1 1 ."),
        (ROW, {"cue_marker": "drop"}, MARKED.replace("[CUE] ", ""), ". 0 1 1 2 3 4 4 .", ". 1 1 1 0 0 1 1 ."),
        (
            *(TWICE, {"cue_marker": "typed", "outside": 1}),
            *("[CLS] [CUE:multi] sat cat ##s [CUE:multi] on [SEP]", ". . 0 1 1 . 2 .", ". . 1 0 0 . 1 ."),
        ),
        # an affix's word may be in its scope
        (AFFIX, {"cue_marker": "typed"}, "[CLS] [CUE:affix] cat ##s on [SEP]", ". . 0 0 1 .", ". . 1 1 0 ."),
        (ROW | {"scope": []}, {}, MARKED, NUMBERS, ". . . . . . . . . ."),
    ],
)
def test_every_token_of_a_word_has_its_label_and_markers_have_none(row, options, tokens, words, labels):
    encoded, found = scopes(row, **options)
    assert found == [tokens]
    assert encoded["word_numbers"] == [numbers(words, NO_WORD)]
    assert encoded["labels"] == [numbers(labels, IGNORED)]


def test_words_and_cues_that_the_model_does_not_see():
    for rows, length, expected in (
        # [CLS] the cat ##s [CUE] [SEP]; [CLS] [CUE] sat cat ##s [SEP]; of the third row's cue there is no token
        ([ROW, TWICE, UNSEEN], 6, ([3, 1, 1], [1, 1, 1])),
        ([ROW, TWICE], 40, ([0, 0], [0, 0])),
    ):
        encoded, _ = scopes(*rows, max_length=length)
        assert count_unseen(Dataset.from_list(rows), Dataset.from_dict(dict(encoded))) == expected
    check_knows_cues(OaXLNetTokenizer.from_backbone(TOKENIZER))
    with pytest.raises(ValueError, match=r"no cue marker.*run_ner\.py --do_train.*OaXLNetTokenizer"):
        check_knows_cues(TOKENIZER)


def pairs(*margins):
    """Return logits of two labels, which differ by these."""
    return np.array([[0.0, margin] for margin in margins])


def in_scope(logits, words, length):
    """Return the scope of a sentence of so many words."""
    rows = Dataset.from_list([{"cue": [0] * length, "scope": []}])
    return ScopeExamples(rows, [0], [words]).scopes(logits[None], ["O", "SCOPE"])[0]


@pytest.mark.parametrize(
    ("margins", "words", "expected"),
    [
        ([9, -1, 3, 9, 1, 1, -3, 0.1, 9], ". 0 0 . 1 1 1 2 .", [1, 0, 1]),
        ([0, 5], ". 1", [0, 1, 0]),  # words without tokens are outside
        ([5], ".", [0, 0]),
        ([5, -100, -100], "0", [1, 0]),  # padding follows the tokens
    ],
)
def test_a_word_is_in_scope_by_the_mean_of_its_tokens(margins, words, expected):
    own = numbers(words, NO_WORD)
    assert in_scope(pairs(*margins), own, len(expected)) == expected
    names = word_labels(pairs(*margins)[:, ::-1], own, len(expected), ["x", "O"])
    assert names == ["O" if not inside and place in own else "x" for place, inside in enumerate(expected)]


def test_rows_without_features_have_empty_scopes():
    rows = Dataset.from_list([ROW, TWICE])
    examples = ScopeExamples(rows, [1], [[NO_WORD, 0, 1, 1, 2]])
    assert examples.scopes(pairs(1, -1, -1, 2, 1)[None, :, ::-1], ["SCOPE", "O"]) == [[0] * 5, [0, 1, 1]]
    assert examples.true_scopes == [ROW["scope"], TWICE["scope"]]
    assert ScopeExamples(rows.map(lambda row: {"scope": []}), [1], [[]]).true_scopes is None


def test_answer_and_passage_ask_for_the_question():
    examples = {key: [value] for key, value in question().items()}
    whole = generation_features(examples, TOKENIZER, 40, 20)
    assert set(whole) == {"input_ids", "attention_mask", "labels", "reference"}
    assert set(whole["attention_mask"][0]) == {1}
    assert decoded(whole["input_ids"]) == ["[CLS] on the mat [SEP] the cats sat on the mat. the dog sat. [SEP]"]
    assert decoded(whole["labels"]) == ["[CLS] where sat the cat? [SEP]"]
    cut = generation_features(examples, TOKENIZER, 40, 4)["labels"]
    assert decoded(cut) == ["[CLS] where sat [SEP]"]  # a cut question still has its end
    padded = generation_features(examples, TOKENIZER, 40, 20, pad_to_max_length=True)
    for name, length, pad in (("input_ids", 40, 0), ("attention_mask", 40, 0), ("labels", 20, IGNORED)):
        ids = whole[name][0]
        assert padded[name] == [ids + [pad] * (length - len(ids))]


# The word "dog" marks the answer, red words are far from it.
FILLER = "red " * 40
CATS = "cat " * 30 + "dog"
LONG = "the dog sat. " + FILLER + "on the dog sat who?"


@pytest.mark.parametrize(
    ("context", "answer", "start", "length", "passage"),
    [
        (LONG, "dog", LONG.rindex("dog"), 20, "red " * 10 + "on the dog sat who?"),
        ("dog the mat. " + FILLER, "dog", 0, 20, "dog the mat." + " red" * 12),
        ("red dog red", "dog", 4, 5, "dog"),
        ("red dog red", "dog", 4, 7, "red dog red"),
        ("a" * 40 + "dog" + "b" * 40, "dog", 40, 20, "aaaaaadogbbbbbb"),  # cut within the word
        (f"the {CATS} sat", CATS, 4, 21, ("cat " * 9).strip()),  # the answer itself is cut
    ],
)
def test_a_passage_that_is_cut(context, answer, start, length, passage, caplog):
    with caplog.at_level(logging.WARNING):
        ids = source(context, answer, start, TOKENIZER, length)
    assert len(ids) <= length
    assert TOKENIZER.decode(ids).split("[SEP]")[1].strip() == passage
    assert ("does not fit into 21 tokens" in caplog.text) is (answer == CATS)


def test_the_tokenizer_of_prophetnet_has_no_offsets(tmp_path):
    (tmp_path / "vocabulary.txt").write_text("\n".join([*SPECIAL, "[X_SEP]", "[MASK]", *WORDS, ".", "?"]))
    tokenizer = ProphetNetTokenizer(str(tmp_path / "vocabulary.txt"))
    ids = source(LONG, "dog", LONG.rindex("dog"), tokenizer, 20)
    assert tokenizer.decode(ids) == f"dog [SEP] {'red ' * 11}on the dog sat who? [SEP]"
