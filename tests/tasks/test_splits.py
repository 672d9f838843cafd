"""Splits of a run: limits on their rows, and warnings about their features."""

from types import SimpleNamespace

import pytest
from datasets import Dataset, DatasetDict

from hf_localattn.data.folds import Fold
from hf_localattn.tasks import TextClassification
from hf_localattn.tasks.splits import load_splits, warn_of_no_query
from hf_localattn.tasks.task import SPLITS, DataArguments
from tests.qa_helpers import write_jsonl

PARTS = {"train": "--do_train", "validation": "--do_eval"}


@pytest.mark.parametrize("source", ["file", "hub", "stream"])
def test_a_limit_counts_the_rows_that_are_not_left_out(tmp_path, monkeypatch, source):
    """Of streamed training rows it counts those that are read."""
    row, empty = ({"text": text, "label": "a"} for text in ("the cat", ""))
    rows = [empty, row, empty, empty, row, row]
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    given = {"train_file": path, "validation_file": path} if source == "file" else {"dataset_name": "some/rows"}
    hub = DatasetDict({"train": Dataset.from_list(rows), "validation": Dataset.from_list(rows)})
    if source == "stream":
        hub = {split: rows.to_iterable_dataset() for split, rows in hub.items()}
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: hub)
    limits = {"max_train_samples": 2, "max_eval_samples": 2, "streaming": source == "stream"}
    data_args = TextClassification.DataArguments(**given, **limits, skip_empty=True)
    data, _ = load_splits(TextClassification(data_args, SimpleNamespace(seed=3)), PARTS)
    assert data["validation"]["index"][:] == [1, 4]
    assert data["train"]["index"][:] == ([1] if source == "stream" else [1, 4])


@pytest.mark.parametrize(
    ("columns", "is_told"),
    [
        ({"query_mask": [[0, 0], [0]]}, True),
        ({"query_mask": [[[0, 0], [0]]]}, True),  # of multiple choice: a mask for each text
        ({"query_mask": [[]]}, True),
        ({"query_mask": [[0, 0], [1]]}, False),
        ({"query_mask": [[[0, 1], [0]]]}, False),
        ({"labels": [1]}, False),
    ],
)
def test_rows_without_any_query_are_told(columns, is_told, caplog):
    warn_of_no_query("train", Dataset.from_dict(columns))
    assert ("has a query" in caplog.text) is is_told


def loaded(seed, number, fold=None, **given):
    """The numbers of the rows that a run with a seed reads."""
    data_args = DataArguments(
        train_file="x", validation_file="y", max_train_samples=number, max_eval_samples=5, **given
    )
    data_args.held_out = fold
    rows = Dataset.from_dict({"number": list(range(100))})
    columns = {"group_column": None, "class_column": None, "rows_beyond_limit": 0, "hub_splits": SPLITS}
    given = {"args": data_args, "training_args": SimpleNamespace(seed=seed), **columns}
    data, _ = load_splits(SimpleNamespace(read=lambda path, labeled: rows, **given), PARTS)
    return {split: rows["number"][:] for split, rows in data.items()}


def test_drawn_training_rows_are_nested_and_depend_on_the_seed():
    drawn = {number: loaded(3, number, draw_train_samples=True)["train"] for number in (10, 40)}
    assert drawn[40][:10] == drawn[10]
    assert len(set(drawn[40])) == 40
    assert drawn[10] != sorted(drawn[10])
    assert loaded(4, 10, draw_train_samples=True)["train"] != drawn[10]
    assert loaded(3, 10, draw_train_samples=True)["validation"] == [0, 1, 2, 3, 4]
    assert loaded(3, 10)["train"] == list(range(10))


def test_rows_of_a_fold_are_drawn_from_its_training_rows():
    fold = Fold(1, 2, seed=0)
    drawn = loaded(3, 10, fold, draw_train_samples=True)["train"]
    assert len(drawn) == 10
    assert set(drawn) < set(loaded(3, 100, fold)["train"])
