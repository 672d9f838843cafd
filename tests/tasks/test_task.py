"""Tasks from outside the package run like those inside, because a run uses only the base class."""

import inspect
import json
from dataclasses import dataclass
from types import MappingProxyType

import datasets
import numpy as np
import pytest

from hf_localattn.registry import AUTO_CLASSES
from hf_localattn.tasks import (
    TASKS,
    DataArguments,
    NegationScope,
    Scored,
    Task,
    TokenClassification,
    choose_task,
    prepare_run,
)
from hf_localattn.training.arguments import ModelArguments, TrainingArguments


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
            return datasets.Dataset.from_dict({"text": file.read().splitlines()})

    def choose_labels(self, data, model_args, config):
        return {"num_labels": self.args.divisor}

    def encoder(self, split):
        return remainders, {"max_length": self.max_length, "divisor": self.args.divisor}

    def score(self, split, outputs, labels):
        found = outputs.argmax(-1)
        return Scored(found, {"agreement": float(np.mean(found == labels))})

    def write_predictions(self, folder, split, prefix, predictions):
        found = dict(zip(self.rows[split]["text"], predictions.tolist(), strict=True))
        (folder / "parity.json").write_text(json.dumps(found))


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


def test_a_task_has_a_dozen_methods():
    assert len([name for name, _ in inspect.getmembers(Task, inspect.isfunction)]) <= 12


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_complete(name):
    task = TASKS[name]
    assert task.model_task in AUTO_CLASSES
    assert issubclass(task.DataArguments, DataArguments)
    needed = ("read", "encoder", "score", "write_predictions")
    assert not [method for method in needed if getattr(task, method) is getattr(Task, method)]


def test_scopes_are_a_task_of_their_own():
    for name, expected in (("ner", TokenClassification), ("negation", NegationScope)):
        arguments = TokenClassification.DataArguments(train_file="x.json", task_name=name)
        assert choose_task(TokenClassification, arguments) is expected
