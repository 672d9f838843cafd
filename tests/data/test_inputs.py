"""Text classification and multiple choice: label sets, training targets, inputs and predictions."""

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_localattn.data.choices import MultipleChoiceCollator, choice_features
from hf_localattn.data.texts import (
    GLUE_TASKS,
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    format_predictions,
    infer_problem_type,
    labels_of,
    load_texts,
    number_labels,
    tokenize_texts,
)
from hf_localattn.metrics.classification_scores import GLUE_METRICS
from tests.qa_helpers import word_pieces, write_jsonl

CLASSES, SETS = (Labels(kind, ("c", "b", "a")) for kind in (SINGLE_LABEL, MULTI_LABEL))
SCORES = Labels(REGRESSION)


@pytest.fixture
def load(tmp_path):
    def rows_of(*labels, **options):
        rows = [{"text": f"cat {number}", "label": label} for number, label in enumerate(labels)]
        return load_texts(write_jsonl(tmp_path / "data.jsonl", rows), **options)

    return rows_of


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], Labels(SINGLE_LABEL, ("a", "b"))),
        ([10, 9, 2], Labels(SINGLE_LABEL, ("2", "9", "10"))),
        (["10", "9", "x", "-1"], Labels(SINGLE_LABEL, ("-1", "9", "10", "x"))),
        ([1, 2.5], SCORES),
        ([["b", "a"], []], Labels(MULTI_LABEL, ("a", "b"))),
        ([[3], [0, 10]], Labels(MULTI_LABEL, ("0", "3", "10"))),
    ],
)
def test_labels_tell_what_is_predicted(load, labels, expected):
    assert labels_of(load(*labels)) == expected
    assert labels_of(load(None, require_labels=False)) is None


@pytest.mark.parametrize(
    ("labels", "problem", "warns"),
    [
        (["1.0", "", "0.0", None], REGRESSION, True),
        ([2.0, 1, 0.0], REGRESSION, True),
        (["1.0", "0.5"], REGRESSION, False),
        ([".5e3"], REGRESSION, False),
        ([f"{number}.0" for number in range(20)], REGRESSION, True),
        ([f"{number}.0" for number in range(21)], REGRESSION, False),
        (["1", "0"], SINGLE_LABEL, False),
        ([None, None], SINGLE_LABEL, False),
        (["x", '["y"]'], MULTI_LABEL, False),
    ],
)
def test_scores_that_may_be_classes(labels, problem, warns, caplog):
    assert infer_problem_type(labels) == problem
    assert ("--do_regression false" in caplog.text) is warns


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
        ([["a"], ["b", "d"]], SETS, "line 2: .*'d'"),
        ([0.5], CLASSES, "line 1: .*regression.* single label"),
        (["a"], SCORES, "line 1: .*'a' is not a number"),
        ([["a"]], CLASSES, "line 1: .*multi label"),
    ],
)
def test_targets_have_the_order_of_the_labels(load, rows, labels, expected):
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=rf"data\.jsonl, {expected}"):
            number_labels(load(*rows), labels)
        return
    assert number_labels(load(*rows), labels)["label"][:] == expected
    assert number_labels(load(*rows, None, require_labels=False), labels).column_names == ["text"]


def test_inputs_are_cut_and_keep_their_labels():
    tokenizer = word_pieces()
    rows = {"text": ["the cat sat", "on"], "text_pair": ["on the mat", "the"], "label": [1, 0]}
    features = tokenize_texts(rows, tokenizer, max_length=7)
    decoded = [tokenizer.decode(ids) for ids in features["input_ids"]]
    assert decoded == ["[CLS] the cat [SEP] on the [SEP]", "[CLS] on [SEP] the [SEP]"]
    assert features["label"] == [1, 0]
    single = tokenize_texts({"text": ["the cat"]}, tokenizer, max_length=7)
    assert tokenizer.decode(single["input_ids"][0]) == "[CLS] the cat [SEP]"
    assert "label" not in single


def test_predictions_as_text():
    logits = np.array([[0.5, -1.0], [-1.0, 2.0]])
    assert format_predictions(logits, Labels(SINGLE_LABEL, ("b", "a"))) == ["b", "a"]
    assert format_predictions((logits, "states"), Labels(MULTI_LABEL, ("b", "é"))) == ['["b"]', '["é"]']
    assert format_predictions(np.array([[0.0, 1e-9]]), Labels(MULTI_LABEL, ("b", "a"))) == ['["a"]']
    assert format_predictions(np.array([[1.23456], [-2.0]]), SCORES) == ["1.235", "-2.000"]
    assert list(map(str, (CLASSES, SETS, SCORES))) == [
        *("one of 3 classes (c, b, a)", "any number of 3 classes (c, b, a)", "a score")
    ]


def test_features_and_their_batch():
    tokenizer = word_pieces()
    rows = {"context": ["the", "on"], "choices": [["cat", "red mat"], ["dog", "cats"]], "label": [1, 0]}
    features = choice_features(rows, tokenizer, 40)
    decoded = [[tokenizer.decode(ids) for ids in own] for own in features["input_ids"]]
    assert decoded[1] == ["[CLS] on [SEP] dog [SEP]", "[CLS] on [SEP] cats [SEP]"]
    batch = MultipleChoiceCollator(tokenizer)([{name: features[name][i] for name in features} for i in range(2)])
    assert batch["labels"].equal(torch.tensor([1, 0]))
    assert batch["input_ids"].shape == (2, 2, 6)
    assert batch["attention_mask"].sum(-1).tolist() == [[5, 6], [5, 6]]
    bare = choice_features({name: rows[name] for name in ("context", "choices")}, tokenizer, 40)
    batch = MultipleChoiceCollator(tokenizer)([{name: bare[name][0] for name in bare}])
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids"} & set(bare)
    long = {"context": ["the " * 30], "choices": [["cat " * 30, "dog"]], "label": [0]}
    assert [len(ids) for ids in choice_features(long, tokenizer, 12)["input_ids"][0]] == [12, 12]
