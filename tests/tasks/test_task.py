"""What all tasks share: labels, limits on rows, the best score; and a task from outside the package."""

import json
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from transformers import BertConfig

from hf_localattn.data.folds import Fold
from hf_localattn.data.labels import REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.tasks import (
    DataArguments,
    Head,
    MultipleChoice,
    QuestionGeneration,
    Scored,
    Split,
    Target,
    Task,
    TextClassification,
)
from hf_localattn.tasks.labels import checkpoint_labels, choose_labels, label_fields
from hf_localattn.tasks.question_generation import GenerationEncoding
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.prepare import prepare
from hf_localattn.training.run import execute, start
from hf_localattn.training.splits import load_splits
from hf_localattn.training.stream import Stream
from tests.qa_helpers import write_jsonl


def parities(batch, tokenizer, max_length):
    features = tokenizer(batch["text"], truncation=True, max_length=max_length)
    return {**features, "labels": [len(text.split()) % 2 for text in batch["text"]]}


class Parity(Task):
    """Tells whether a line has an odd number of words."""

    name = model_task = "text-classification"
    DataArguments = DataArguments

    def read(self, data, layout, *, labeled, predicted=False):
        with open(data, encoding="utf-8") as file:
            return Dataset.from_dict({"text": file.read().splitlines()}), layout

    def choose_target(self, rows, layout, head):
        return Target({"loss": False, "agreement": True})

    def encoder(self, split, target, encoding):
        return parities, {"max_length": encoding.max_length}

    def score(self, split, outputs, target, encoding):
        found = outputs.argmax(-1)
        return Scored(found, {"agreement": float(np.mean(found == split.features["labels"]))})

    def files(self, split, predictions, target):
        return {"parity.json": json.dumps(dict(zip(split.rows["text"], predictions.tolist(), strict=True)))}


def test_a_task_from_outside_trains_evaluates_and_predicts(tmp_path):
    """A run uses only the base class."""
    path = tmp_path / "lines.txt"
    path.write_text("a cat\nthe dog sat\nwho\non the mat here\n")
    work = dict.fromkeys(("do_train", "do_eval", "do_predict", "use_cpu"), True)
    arguments = TrainingArguments(
        str(tmp_path / "out"), **work, max_steps=1, report_to="none", early_stopping_patience=1
    )
    given = dict(vars(arguments))
    prepared = prepare(
        Parity,
        ModelArguments(family="cool", backbone="tiny", local_config=["use_conv=false"]),
        DataArguments(train_file=str(path), validation_file=str(path), test_file=str(path)),
        arguments,
    )
    # the main score is the first one after the loss
    assert prepared.training_args.metric_for_best_model == "agreement"
    metrics = execute(start(prepared))
    assert {"train_loss", "eval_agreement", "predict_agreement", "predict_samples"} <= set(metrics)
    assert set(json.loads((tmp_path / "out" / "parity.json").read_text())) == set(path.read_text().splitlines())
    assert vars(arguments) == given


def test_a_run_is_prepared_without_a_trainer(tmp_path):
    """Rows, labels and features are values, and so are the options that follow from them."""
    write_jsonl(
        tmp_path / "rows.jsonl", [{"text": text, "label": label} for text, label in (("a b", "x"), ("b", "y"))]
    )
    prepared = prepare(
        TextClassification,
        ModelArguments(family="baseline", backbone="tiny"),
        TextClassification.DataArguments(validation_file=str(tmp_path / "rows.jsonl")),
        TrainingArguments(str(tmp_path / "out"), do_eval=True, use_cpu=True, report_to="none"),
    )
    split = prepared.evaluation.splits["validation"]
    assert prepared.evaluation.target.names == ["x", "y"]
    assert split.labels.tolist() == [0, 1]
    scored = prepared.evaluation.score(split, np.eye(2), prepared.model)
    assert scored.scores["accuracy"] == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "task", [TextClassification(TextClassification.DataArguments(test_file="x.csv")), MultipleChoice(None)]
)
def test_test_rows_without_a_label_have_predictions_and_no_scores(task):
    rows = Dataset.from_dict({"text": ["x"] * 4, "known_label": [1, None, 0, 1]})
    split = Split("test", rows, Dataset.from_dict({"input_ids": [[1]] * 4}))
    scored = task.score(split, np.array([[0, 1]] * 4), Target({}, labels("a b")))
    assert len(scored.predictions) == 4
    assert scored.scores["labeled_samples"] == 3
    assert scored.scores["accuracy"] == pytest.approx(2 / 3)


def test_questions_are_generated_for_all_rows_and_scored_where_there_is_one():
    tokenizer = MagicMock(pad_token_id=0, batch_decode=lambda ids, skip_special_tokens: ["Who?", "a", "b"])
    rows = Dataset.from_dict({"known_label": ["Who?", None, "b"]})
    split = Split("test", rows, Dataset.from_dict({"input_ids": [[1]] * 3}))
    encoding = GenerationEncoding(tokenizer, 9, 9, 9, -100, num_beams=2)
    scored = QuestionGeneration(None).score(split, np.ones((3, 2), int), Target({}), encoding)
    assert (len(scored.predictions), scored.pair) == (3, (["Who?", "b"], ["Who?", "b"]))
    assert scored.scores["labeled_samples"] == 2


def test_all_splits_are_read_as_the_first_one(tmp_path):
    """The list [0, 1] is a set of classes beside the list [0, 2], and a vector beside the list [1, 1]."""
    for first, expected in (([0, 2], ["0", "1"]), ([1, 1], ["1"])):
        task = TextClassification(TextClassification.DataArguments(train_file="sample:reviews.csv"))
        layout = task.layout
        for name, label in (("train", first), ("test", [0, 1])):
            path = tmp_path / f"{name}.jsonl"
            write_jsonl(path, [{"text": "a", "label": label}])
            rows, layout = task.read(path, layout, labeled=True)
        names = rows.features["label"].feature.names
        assert [names[index] for index in rows["label"][0]] == expected


def labels(text):
    """Names separated by blanks; "score" is regression, "" is unknown."""
    if text == "score":
        return Labels(REGRESSION)
    return Labels(SINGLE_LABEL, tuple(text.split())) if text else None


def chosen(of_data, of_model, may_be_fresh=False, **options):
    fixed = options.pop("fixed", False)
    head = Head("it", labels(of_model), is_trained=options.get("trained", True), may_change=may_be_fresh)
    return choose_labels(labels(of_data), head, fixed=fixed)


@pytest.mark.parametrize(
    ("of_data", "of_model", "options", "expected"),
    [
        ("b a", "", {}, "b a"),
        ("b a", "a b", {}, "a b"),
        ("B A", "a b", {}, "A B"),
        ("a", "b a", {}, "b a"),
        ("us US", "US us", {}, "US us"),
        ("Us", "us US", {}, "--ignore_mismatched_sizes"),
        ("a b", "LABEL_0 LABEL_1", {"trained": False}, "a b"),
        ("0 1", "LABEL_0 LABEL_1 LABEL_2", {"trained": False}, "0 1 2"),
        ("0", "b a", {"trained": False}, "0 1"),
        ("a x", "b a", {"trained": False}, "b a"),  # the row with x is told later
        ("a x", "b c", {"trained": False, "fixed": True}, "a x"),
        ("0 1 2", "score", {"trained": False}, "score"),
        ("a b c", "d e", {"may_be_fresh": True}, "a b c"),
        ("", "", {}, "No labels"),
        ("a b c", "d e", {}, "--ignore_mismatched_sizes"),
        ("a b", "score", {}, "predicts a score"),
    ],
)
def test_the_labels_of_data_and_model(of_data, of_model, options, expected, caplog):
    if any(word in expected for word in ("No", "-", "predicts")):
        with pytest.raises(ValueError, match=expected):
            chosen(of_data, of_model, **options)
        return
    assert chosen(of_data, of_model, **options) == labels(expected)
    assert ("taking them" in caplog.text) is (of_model in ("b c", "d e"))


def test_the_labels_of_a_head():
    assert checkpoint_labels(BertConfig(num_labels=1)) == labels("score")
    assert checkpoint_labels(BertConfig(**label_fields(["b", "a"]))) == labels("b a")


WORK = {"seed": 3, "do_train": True, "do_eval": True, "do_predict": False}


@pytest.mark.parametrize("source", ["file", "hub", "stream"])
def test_a_limit_counts_the_rows_that_are_not_left_out(tmp_path, monkeypatch, source):
    """Of streamed rows it counts those that are read."""
    row, empty = ({"text": text, "label": "a"} for text in ("the cat", ""))
    rows = [empty, row, empty, empty, row, row]
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    given = {"train_file": path, "validation_file": path} if source == "file" else {"dataset_name": "some/rows"}
    hub = DatasetDict(dict.fromkeys(("train", "validation"), Dataset.from_list(rows)))
    if source == "stream":
        hub = {split: rows.to_iterable_dataset() for split, rows in hub.items()}
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: hub)
    given |= {"max_train_samples": 2, "max_eval_samples": 2, "streaming": source == "stream", "skip_empty": True}
    task = TextClassification(TextClassification.DataArguments(**given))
    data = load_splits(task, SimpleNamespace(**WORK)).rows
    assert {tuple(rows["index"][:]) for rows in data.values()} == {(1,) if source == "stream" else (1, 4)}


class Numbers(Parity):
    """A task whose files have the numbers from 0 to 99."""

    def read(self, data, layout, *, labeled, predicted=False):
        return Dataset.from_dict({"number": list(range(100))}), layout


def loaded(number, fold=None, seed=3, **given):
    """The numbers of the rows that a run with a seed reads."""
    args = DataArguments(train_file="x", validation_file="y", max_train_samples=number, max_eval_samples=5, **given)
    args.held_out = fold
    read = load_splits(Numbers(args), SimpleNamespace(**{**WORK, "seed": seed}))
    return {split: rows["number"][:] for split, rows in read.rows.items()}


def test_drawn_training_rows_are_nested_and_depend_on_the_seed():
    drawn = {number: loaded(number, draw_train_samples=True)["train"] for number in (10, 40)}
    assert drawn[40][:10] == drawn[10] != sorted(drawn[10])
    assert len(set(drawn[40])) == 40
    assert loaded(10, seed=4, draw_train_samples=True)["train"] != drawn[10]
    assert loaded(10, draw_train_samples=True)["validation"] == [0, 1, 2, 3, 4]
    assert loaded(10)["train"] == list(range(10))
    of_fold, whole = (loaded(n, Fold(1, 2, seed=0), draw_train_samples=True)["train"] for n in (10, 100))
    assert (len(of_fold), set(of_fold) < set(whole)) == (10, True)


@pytest.mark.parametrize("worker", [None, 0, 1])
def test_only_the_first_worker_misses_rows_of_a_stream(worker, monkeypatch):
    monkeypatch.setattr(
        "torch.utils.data.get_worker_info", lambda: worker if worker is None else SimpleNamespace(id=worker)
    )
    stream = Stream(MagicMock())  # without a row
    if worker:
        assert list(stream) == []
    else:
        with pytest.raises(ValueError, match="No row"):
            list(stream)
