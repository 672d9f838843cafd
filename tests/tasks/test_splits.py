"""Limits on the rows of a split, and warnings about its features before training."""

from types import SimpleNamespace

import pytest
from datasets import Dataset

from hf_localattn.data.folds import Fold
from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.splits import SPLITS, load_splits, warn_of_no_query


@pytest.mark.parametrize("masks", [[[0, 0], [0]], [[[0, 0], [0]]], [[]]])
def test_rows_without_any_query_are_told(masks, caplog):
    """A row of multiple choice has a mask for each of its texts."""
    warn_of_no_query("train", Dataset.from_dict({"query_mask": masks}))
    assert "No train row" in caplog.text
    assert "local_attention=none" in caplog.text


@pytest.mark.parametrize("columns", [{"query_mask": [[0, 0], [1]]}, {"query_mask": [[[0, 1], [0]]]}, {"labels": [1]}])
def test_nothing_is_said_of_others(columns, caplog):
    warn_of_no_query("train", Dataset.from_dict(columns))
    assert not caplog.text


def loaded(seed, number, fold=None, **given):
    """The numbers of the rows that a run with a seed reads."""
    rows = Dataset.from_dict({"number": list(range(100))})
    columns = {"group_column": None, "class_column": None}
    task = SimpleNamespace(read=lambda path, labeled: rows, hub_splits=SPLITS, rows_beyond_limit=0, **columns)
    files = {"train_file": "x", "validation_file": "y", "max_train_samples": number, "max_eval_samples": 5}
    data_args = DataArguments(**files, **given)
    data_args.held_out = fold
    parts = {"train": "--do_train", "validation": "--do_eval"}
    return {split: rows["number"][:] for split, rows in load_splits(task, data_args, parts, seed=seed).items()}


def test_drawn_training_rows_are_nested_and_depend_on_the_seed():
    drawn = {number: loaded(3, number, draw_train_samples=True)["train"] for number in (10, 40)}
    assert drawn[40][:10] == drawn[10]
    assert len(set(drawn[40])) == 40
    assert drawn[10] != sorted(drawn[10])
    assert loaded(3, 10, draw_train_samples=True)["train"] == drawn[10], "the same for all rows of a table"
    assert loaded(4, 10, draw_train_samples=True)["train"] != drawn[10]
    assert loaded(3, 10, draw_train_samples=True)["validation"] == [0, 1, 2, 3, 4]
    assert loaded(3, 10)["train"] == list(range(10))


def test_rows_of_a_fold_are_drawn_from_its_training_rows():
    fold = Fold(1, 2, seed=0)
    whole = set(loaded(3, 100, fold)["train"])
    drawn = loaded(3, 10, fold, draw_train_samples=True)["train"]
    assert len(drawn) == 10
    assert set(drawn) < whole


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs --max_train_samples"),
        ({"max_train_samples": 3, "streaming": True}, "cannot be used with --streaming"),
    ],
)
def test_drawing_needs_a_number_and_all_rows(given, message):
    with pytest.raises(ValueError, match=f"--draw_train_samples {message}"):
        DataArguments(train_file="x", draw_train_samples=True, **given)
