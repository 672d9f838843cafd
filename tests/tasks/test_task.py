"""What all tasks share: labels, limits on rows, the best score; and a task from outside the package."""

import json
from types import MappingProxyType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from transformers import BertConfig

from hf_localattn.data.folds import Fold
from hf_localattn.data.labels import REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.tasks import (
    DataArguments,
    MultipleChoice,
    QuestionGeneration,
    Scored,
    Task,
    TextClassification,
    prepare_run,
    question_generation,
)
from hf_localattn.tasks.splits import load_splits
from hf_localattn.tasks.stream import Stream
from hf_localattn.tasks.task import checkpoint_labels, choose_labels, label_fields
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from tests.qa_helpers import write_jsonl


def parities(batch, tokenizer, max_length):
    features = tokenizer(batch["text"], truncation=True, max_length=max_length)
    return {**features, "labels": [len(text.split()) % 2 for text in batch["text"]]}


class Parity(Task):
    """Tells whether a line has an odd number of words."""

    name = model_task = "text-classification"
    DataArguments = DataArguments
    metrics = MappingProxyType({"loss": False, "agreement": True})

    def read(self, data, labeled):
        with open(data, encoding="utf-8") as file:
            return Dataset.from_dict({"text": file.read().splitlines()})

    def encoder(self, split):
        return parities, {"max_length": self.max_length}

    def score(self, split, outputs, labels):
        found = outputs.argmax(-1)
        return Scored(found, {"agreement": float(np.mean(found == labels))})

    def files(self, split, prefix, predictions):
        return {"parity.json": json.dumps(dict(zip(self.rows[split]["text"], predictions.tolist(), strict=True)))}


def test_a_task_from_outside_trains_evaluates_and_predicts(tmp_path):
    """A run uses only the base class."""
    path = tmp_path / "lines.txt"
    path.write_text("a cat\nthe dog sat\nwho\non the mat here\n")
    work = dict.fromkeys(("do_train", "do_eval", "do_predict", "use_cpu"), True)
    run = prepare_run(
        Parity,
        ModelArguments(family="cool", backbone="tiny", local_config=["use_conv=false"]),
        DataArguments(train_file=str(path), validation_file=str(path), test_file=str(path)),
        TrainingArguments(str(tmp_path / "out"), **work, max_steps=1, report_to="none", early_stopping_patience=1),
    )
    assert run.trainer.args.metric_for_best_model == "agreement"  # the main score is the first one after the loss
    metrics = run.execute()
    assert {"train_loss", "eval_agreement", "predict_agreement", "predict_samples"} <= set(metrics)
    assert set(json.loads((tmp_path / "out" / "parity.json").read_text())) == set(path.read_text().splitlines())


@pytest.mark.parametrize("task_class", [TextClassification, MultipleChoice])
def test_test_rows_without_a_label_have_predictions_and_no_scores(task_class):
    task = object.__new__(task_class)
    task.rows = {"test": Dataset.from_dict({"text": ["x"] * 4, "known_label": [1, None, 0, 1]})}
    task.labels, task.score_names, task.combined = labels("a b"), ("accuracy",), ()
    scored = task.score("test", np.array([[0, 1]] * 4), None)
    assert (len(scored.predictions), scored.scores) == (4, {"labeled_samples": 3, "accuracy": pytest.approx(2 / 3)})


def test_questions_are_generated_for_all_rows_and_scored_where_there_is_one(monkeypatch):
    task = object.__new__(QuestionGeneration)
    task.tokenizer = MagicMock(pad_token_id=0, batch_decode=lambda ids, skip_special_tokens: ["Who?", "a", "b"])
    task.training_args = MagicMock(generation_num_beams=2)
    task.features = {"test": Dataset.from_dict({"input_ids": [[1]] * 3})}
    task.rows = {"test": Dataset.from_dict({"known_label": ["Who?", None, "b"]})}
    metric = SimpleNamespace(compute=lambda **texts: {"bleu_signature": "", "bleu": 1.0})
    monkeypatch.setattr(question_generation, "load_metric", lambda name: metric)
    scored = task.score("test", np.ones((3, 2), int), None)
    assert (len(scored.predictions), scored.pair) == (3, (["Who?", "b"], ["Who?", "b"]))
    assert scored.scores["labeled_samples"] == 2


def test_all_splits_are_read_as_the_first_one(tmp_path):
    """The list [0, 1] is a set of classes beside the list [0, 2], and a vector beside the list [1, 1]."""
    for first, expected in (([0, 2], ["0", "1"]), ([1, 1], ["1"])):
        args = TextClassification.DataArguments(train_file="sample:reviews.csv")
        task = TextClassification(args, SimpleNamespace(**WORK))
        for name, label in (("train", first), ("test", [0, 1])):
            path = tmp_path / f"{name}.jsonl"
            write_jsonl(path, [{"text": "a", "label": label}])
            rows = task.read(path, True)
        names = rows.features["label"].feature.names
        assert [names[index] for index in rows["label"][0]] == expected


def labels(text):
    """Names separated by blanks; "score" is regression, "" is unknown."""
    if text == "score":
        return Labels(REGRESSION)
    return Labels(SINGLE_LABEL, tuple(text.split())) if text else None


def chosen(of_data, of_model, may_be_fresh=False, **options):
    known = labels(of_model)
    config = BertConfig(**label_fields(known.names), problem_type=known.problem_type) if known else None
    model_args = ModelArguments("it", ignore_mismatched_sizes=may_be_fresh)
    return choose_labels(labels(of_data), model_args, config, **{"trained": True, **options})


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


def test_a_head_of_one_output_predicts_scores():
    assert checkpoint_labels(BertConfig(num_labels=1)) == labels("score")


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
    data, _ = load_splits(TextClassification(TextClassification.DataArguments(**given), SimpleNamespace(**WORK)))
    assert {tuple(rows["index"][:]) for rows in data.values()} == {(1,) if source == "stream" else (1, 4)}


def loaded(number, fold=None, seed=3, **given):
    """The numbers of the rows that a run with a seed reads."""
    args = DataArguments(train_file="x", validation_file="y", max_train_samples=number, max_eval_samples=5, **given)
    args.held_out = fold
    task = Parity(args, SimpleNamespace(**{**WORK, "seed": seed}))
    task.read = lambda path, labeled: Dataset.from_dict({"number": list(range(100))})
    return {split: rows["number"][:] for split, rows in load_splits(task)[0].items()}


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
    stream = Stream(SimpleNamespace(), "rows.jsonl", None)
    stream.features = MagicMock()  # without a row
    if worker:
        assert list(stream) == []
    else:
        with pytest.raises(ValueError, match="No row"):
            list(stream)
