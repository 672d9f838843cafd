"""What all tasks share: labels, limits on rows, the best score; and a task from outside the package."""

import json
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from transformers import BertConfig

from hf_localattn.data.folds import Fold
from hf_localattn.data.texts import REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.registry import AUTO_CLASSES
from hf_localattn.tasks import (
    TASKS,
    DataArguments,
    NegationDetection,
    NegationScope,
    Scored,
    Task,
    TextClassification,
    TokenClassification,
    choose_task,
    prepare_run,
)
from hf_localattn.tasks.run import choose_best_metric, load_splits
from hf_localattn.tasks.task import checkpoint_labels, choose_labels, label_fields
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from tests.qa_helpers import write_jsonl


@dataclass
class ParityArguments(DataArguments):
    divisor: int = 2


def remainders(batch, tokenizer, max_length, divisor):
    features = tokenizer(batch["text"], truncation=True, max_length=max_length)
    return {**features, "labels": [len(text.split()) % divisor for text in batch["text"]]}


class Parity(Task):
    """Tells whether a line has an odd number of words."""

    name = model_task = "text-classification"
    DataArguments = ParityArguments
    metrics = MappingProxyType({"loss": False, "agreement": True})

    def read(self, data, labeled):
        with open(data, encoding="utf-8") as file:
            return Dataset.from_dict({"text": file.read().splitlines()})

    def choose_labels(self, data, model_args, config):
        return {"num_labels": self.args.divisor}

    def encoder(self, split):
        return remainders, {"max_length": self.max_length, "divisor": self.args.divisor}

    def score(self, split, outputs, labels):
        found = outputs.argmax(-1)
        return Scored(found, {"agreement": float(np.mean(found == labels))})

    def files(self, split, prefix, predictions):
        return {"parity.json": json.dumps(dict(zip(self.rows[split]["text"], predictions.tolist(), strict=True)))}


def test_a_task_from_outside_trains_evaluates_and_predicts(tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("a cat\nthe dog sat\nwho\non the mat here\n")
    work = dict.fromkeys(("do_train", "do_eval", "do_predict", "use_cpu"), True)
    run = prepare_run(
        Parity,
        ModelArguments(family="cool", backbone="tiny", local_config=["use_conv=false"]),
        ParityArguments(train_file=str(lines), validation_file=str(lines), test_file=str(lines)),
        TrainingArguments(str(tmp_path / "out"), **work, max_steps=1, report_to="none", early_stopping_patience=1),
    )
    assert run.trainer.args.metric_for_best_model == "agreement"  # the main score is the first one after the loss
    metrics = run.execute()
    assert {"train_loss", "eval_agreement", "predict_agreement", "predict_samples"} <= set(metrics)
    assert set(json.loads((tmp_path / "out" / "parity.json").read_text())) == set(lines.read_text().splitlines())


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_complete(name):
    task = TASKS[name]
    assert task.model_task in AUTO_CLASSES
    assert issubclass(task.DataArguments, DataArguments)
    needed = ("read", "encoder", "score", "files")
    assert not [method for method in needed if getattr(task, method) is getattr(Task, method)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, TokenClassification),
        ({"task_name": "negation"}, NegationScope),
        ({"task_name": "negation", "detect_cues": True}, NegationDetection),
    ],
)
def test_negation_is_a_task_of_its_own(options, expected):
    arguments = TokenClassification.DataArguments(train_file="x.json", **options)
    assert choose_task(TokenClassification, arguments) is expected


def labels(text):
    """Names separated by blanks; "score" is regression, "" is unknown."""
    if text == "score":
        return Labels(REGRESSION)
    return Labels(SINGLE_LABEL, tuple(text.split())) if text else None


def chosen(of_data, of_model, **options):
    config = None
    if of_model:
        config = BertConfig(**label_fields(labels(of_model).names), problem_type=labels(of_model).problem_type)
    model_args = ModelArguments("it", ignore_mismatched_sizes=options.pop("may_be_fresh", False))
    return choose_labels(labels(of_data), model_args, config, **{"trained": True, **options})


@pytest.mark.parametrize(
    ("of_data", "of_model", "options", "expected"),
    [
        ("b a", "", {}, "b a"),
        ("", "b a", {}, "b a"),
        ("b a", "a b", {}, "a b"),
        ("B A", "a b", {}, "A B"),
        ("a", "b a", {}, "b a"),
        ("us US", "US us", {}, "US us"),
        ("us US x", "US us X", {}, "us US x"),
        ("a b", "LABEL_0 LABEL_1", {"trained": False}, "a b"),
        ("0 1", "LABEL_0 LABEL_1 LABEL_2", {"trained": False}, "0 1 2"),
        ("0", "b a", {"trained": False}, "0 1"),
        ("a x", "b a", {"trained": False}, "b a"),  # the row with x is told later
        ("a x", "b c", {"trained": False, "fixed": True}, "a x"),
        ("0 1 2", "score", {"trained": False}, "score"),
        ("a b", "c d", {}, "a b"),
        ("a b c", "d e", {"may_be_fresh": True}, "a b c"),
    ],
)
def test_the_labels_of_data_and_model(of_data, of_model, options, expected):
    assert chosen(of_data, of_model, **options) == labels(expected)


@pytest.mark.parametrize(
    ("of_data", "of_model", "word"),
    [("", "", "No labels"), ("a b c", "d e", "--ignore_mismatched_sizes"), ("a b", "score", "predicts a score")],
)
def test_labels_that_do_not_go_together(of_data, of_model, word):
    with pytest.raises(ValueError, match=word):
        chosen(of_data, of_model)


def test_other_names_are_taken_with_a_warning(caplog):
    chosen("a b", "LABEL_0 LABEL_1")
    assert not caplog.text
    chosen("a b", "c d")
    assert "(c, d)" in caplog.text
    assert checkpoint_labels(BertConfig(num_labels=1)) == labels("score")


@pytest.mark.parametrize(
    ("options", "metrics", "expected"),
    [
        ({}, "loss f1", (None, None)),
        ({"early_stopping_patience": 1}, "loss f1 accuracy", ("f1", True)),
        ({"early_stopping_patience": 1}, "loss", ("loss", False)),
        ({"early_stopping_patience": 1}, "accuracy loss f1", ("accuracy", True)),  # as --metric_name says
        ({"search_space": "x.yaml"}, "loss f1", ("f1", True)),
        ({"metric_for_best_model": "eval_f1"}, "loss f1", ("f1", True)),
        ({"metric_for_best_model": "loss"}, "loss f1", ("loss", False)),
        ({"metric_for_best_model": "loss"}, "f1 accuracy", ("f1", True)),  # of answers there is no loss
        ({"metric_for_best_model": "f1"}, "accuracy loss f1", ("f1", True)),
    ],
)
def test_the_score_that_tells_the_best_model(options, metrics, expected):
    args = TrainingArguments("out", report_to="none", use_cpu=True, do_eval=True, **options)
    choose_best_metric(args, SimpleNamespace(metrics={name: name != "loss" for name in metrics.split()}))
    assert (args.metric_for_best_model, args.greater_is_better) == expected


WORK = SimpleNamespace(seed=3, do_train=True, do_eval=True, do_predict=False)


@pytest.mark.parametrize("source", ["file", "hub", "stream"])
def test_a_limit_counts_the_rows_that_are_not_left_out(tmp_path, monkeypatch, source):
    """Of streamed rows it counts those that are read."""
    row, empty = ({"text": text, "label": "a"} for text in ("the cat", ""))
    rows = [empty, row, empty, empty, row, row]
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    given = {"train_file": path, "validation_file": path} if source == "file" else {"dataset_name": "some/rows"}
    hub = DatasetDict({"train": Dataset.from_list(rows), "validation": Dataset.from_list(rows)})
    if source == "stream":
        hub = {split: rows.to_iterable_dataset() for split, rows in hub.items()}
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: hub)
    limits = {"max_train_samples": 2, "max_eval_samples": 2, "streaming": source == "stream"}
    data, _ = load_splits(
        TextClassification(TextClassification.DataArguments(**given, **limits, skip_empty=True), WORK)
    )
    assert [data[split]["index"][:] for split in ("train", "validation")] == [
        [1] if source == "stream" else [1, 4]
    ] * 2


def loaded(number, fold=None, seed=3, **given):
    """The numbers of the rows that a run with a seed reads."""
    args = DataArguments(train_file="x", validation_file="y", max_train_samples=number, max_eval_samples=5, **given)
    args.held_out = fold
    task = Parity(args, SimpleNamespace(**{**vars(WORK), "seed": seed}))
    task.read = lambda path, labeled: Dataset.from_dict({"number": list(range(100))})
    return {split: rows["number"][:] for split, rows in load_splits(task)[0].items()}


def test_drawn_training_rows_are_nested_and_depend_on_the_seed():
    drawn = {number: loaded(number, draw_train_samples=True)["train"] for number in (10, 40)}
    assert drawn[40][:10] == drawn[10] != sorted(drawn[10])
    assert len(set(drawn[40])) == 40
    assert loaded(10, seed=4, draw_train_samples=True)["train"] != drawn[10]
    assert loaded(10, draw_train_samples=True)["validation"] == [0, 1, 2, 3, 4]
    assert loaded(10)["train"] == list(range(10))
    fold = Fold(1, 2, seed=0)
    of_fold = loaded(10, fold, draw_train_samples=True)["train"]
    assert set(of_fold) < set(loaded(100, fold)["train"])
    assert len(of_fold) == 10


@pytest.mark.parametrize(
    ("masks", "is_told"),
    [
        ([[0, 0], [0]], True),
        ([[[0, 0], [0]], [[0], [0]]], True),  # of multiple choice: a mask for each text
        ([[], []], True),
        ([[0, 0], [1]], False),
        ([[[0, 1], [0]], [[0], [0]]], False),
    ],
)
def test_rows_without_any_query_are_told(masks, is_told, caplog, monkeypatch):
    from hf_localattn.tasks.run import make_features

    task = Parity(DataArguments(train_file="x"), TrainingArguments("out", use_cpu=True, report_to="none"))
    task.max_length, task.encoder = (
        9,
        lambda split: (lambda batch, tokenizer: {"query_mask": masks, "input_ids": masks}, {}),
    )
    make_features(task, "train", Dataset.from_dict({"text": ["a", "b"]}), None)
    assert ("has a query" in caplog.text) is is_told
