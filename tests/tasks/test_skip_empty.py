"""Every task passes `--skip_empty` on, for files and for data sets on the Hub."""

import pytest
from datasets import Dataset, DatasetDict

from hf_localattn.data import Source
from hf_localattn.tasks import TASKS
from tests.qa_helpers import question, write_jsonl

ROWS = {
    "question-answering": (question(0), question(1, question=" ")),
    "question-generation": (question(0), question(1, context="")),
    "text-classification": ({"text": "the cat", "label": "a"}, {"text": "", "label": "a"}),
    "token-classification": ({"tokens": ["a"], "ner_tags": ["O"]}, {"tokens": [], "ner_tags": []}),
    "negation": ({"tokens": ["no"], "cue": [1], "scope": [0]}, {"tokens": [], "cue": [], "scope": []}),
    "multiple-choice": (
        {"context": "a", "choices": ["b", "c"], "label": 0},
        {"context": "a", "choices": ["", "c"], "label": 0},
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_rows_without_text_are_left_out_if_it_is_asked_for(tmp_path, name):
    row, empty = ROWS[name]
    path = write_jsonl(tmp_path / "rows.jsonl", [empty, row])
    options = {"task_name": "negation"} if name == "negation" else {}
    arguments = TASKS[name].DataArguments(train_file=str(path), skip_empty=True, **options)
    task = TASKS[name](arguments)
    for rows in (task.read(str(path), True), task.read(Source("hub", Dataset.from_list([empty, row])), True)):
        assert rows["index"][:] == [1]


@pytest.mark.parametrize("source", ["file", "hub", "stream"])
def test_a_limit_counts_the_rows_that_are_not_left_out(tmp_path, monkeypatch, source):
    row, empty = ROWS["text-classification"]
    rows = [empty, row, empty, empty, row, row]
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    table = Dataset.from_list(rows)
    given = {"train_file": path, "validation_file": path} if source == "file" else {"dataset_name": "some/rows"}
    hub = DatasetDict({"train": table, "validation": table})
    if source == "stream":
        hub = {split: rows.to_iterable_dataset() for split, rows in hub.items()}
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: hub)
    limits = {"max_train_samples": 2, "max_eval_samples": 2, "streaming": source == "stream"}
    task = TASKS["text-classification"](TASKS["text-classification"].DataArguments(**given, **limits, skip_empty=True))
    data = task.load({"train": "--do_train", "validation": "--do_eval"})
    assert data["train"]["index"][:] == data["validation"]["index"][:] == [1, 4]
    if source == "stream":
        assert [rows["index"][:] for rows in task.training_rows.parts()] == [[1, 4]]
