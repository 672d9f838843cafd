"""`--streaming`: training rows that are read while the model is trained."""

import itertools
import json
import re

import pytest
from datasets import ClassLabel, Dataset, Features, Value

from hf_localattn.tasks import TASKS
from hf_localattn.training import prepare as preparing
from hf_localattn.training import stream as stream_module
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.run import execute, start
from tests.qa_helpers import question, write_jsonl

WORDS = ["the", "small", "cat", "sat", "on", "a", "red", "mat"]
SENTENCES = [[*WORDS[i % 8 :], *WORDS[: i % 5], "cat"] for i in range(13)]
ROWS = {
    "text-classification": [{"text": " ".join(s), "label": "ab"[i % 2]} for i, s in enumerate(SENTENCES)],
    "token-classification": [
        *({"tokens": s, "labels": ["A" if w > "m" else "O" for w in s]} for s in SENTENCES),
        {"tokens": ["\u200b"], "labels": ["O"]},  # the model sees no word
    ],
    "question-answering": [
        question(i, context=" ".join(s), answers={"text": ["cat"], "answer_start": [" ".join(s).index("cat")]})
        for i, s in enumerate(SENTENCES)
    ],
}
EMPTY = {"text": " ", "label": "a", "tokens": [], "labels": [], **question(99, question=" ")}
TEXT, TOKENS, ANSWERS = ROWS


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """A function that prepares a run of a task on rows in a file, of which a few are read at a time."""
    monkeypatch.setattr(stream_module, "ROWS_PER_PART", 4)
    # newer versions sleep after each pass of a parquet file
    monkeypatch.setattr("datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN", 0, raising=False)

    def call(name, rows=None, output="out", arguments=None, **data):
        task, path = TASKS[name], write_jsonl(tmp_path / "train.jsonl", ROWS[name] if rows is None else rows)
        data = {"train_file": str(path), "streaming": True, "max_seq_length": 32, **data}
        if name == ANSWERS:
            data = {"doc_stride": 8, "pad_to_max_length": False, **data}
        trained = {
            "do_train": True,
            "max_steps": 4,
            "per_device_train_batch_size": 3,
            "use_cpu": True,
            "report_to": [],
        }
        trained |= {"output_dir": str(tmp_path / output), "disable_tqdm": True, **(arguments or {})}
        model_args = ModelArguments(family="cool", backbone="tiny")
        return preparing.prepare(task, model_args, task.DataArguments(**data), TrainingArguments(**trained))

    return call


def as_text(features):
    names = ("input_ids", "labels", "label", "start_positions", "end_positions")
    return sorted(json.dumps({name: row[name] for name in names if name in row}) for row in features)


def features_of(prepared):
    return prepared.evaluation.splits["train"].features


def first_of(stream, number, start=0):
    return list(itertools.islice(stream, start, start + number))


@pytest.mark.parametrize("name", ROWS)
def test_streamed_features_equal_those_in_memory(name, prepare):
    expected = list(features_of(prepare(name, streaming=False)))
    stream = prepare(name, output="other").stream
    passes = [first_of(stream, len(expected), n * len(expected)) for n in range(2)]
    for one in passes:
        assert as_text(one) == as_text(expected)
    assert passes[0] != passes[1]
    assert passes[0] == first_of(stream, len(expected))


def as_hub(rows, folder):
    """A data set whose labels are numbers with names, as on the Hub."""
    features = Features({"text": Value("string"), "label": ClassLabel(names=["b", "a"])})
    for split, part in (("train", rows), ("validation", rows[:5]), ("test", rows[5:8])):
        Dataset.from_list(part, features=features).to_parquet(folder / f"{split}.parquet")
    return {"train_file": None, "dataset_name": str(folder)}


def test_data_sets_are_streamed(prepare, tmp_path):
    data = as_hub([{**row, "label": "ba".index(row["label"])} for row in ROWS[TEXT]], tmp_path / "hub")
    arguments = {"do_eval": True, "do_predict": True, "eval_strategy": "steps", "eval_steps": 2}
    run = prepare(TEXT, arguments=arguments, max_eval_samples=3, **data)
    assert run.model.config.id2label == {0: "b", 1: "a"}
    assert set(run.evaluation.splits) == {"validation", "test"}
    metrics = execute(start(run))
    assert (metrics["train_samples"], metrics["eval_samples"], metrics["predict_samples"]) == (12, 3, 3)
    expected = features_of(prepare(TEXT, output="in-memory", streaming=False, **data))
    assert as_text(first_of(run.stream, 13)) == as_text(expected)


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        (TEXT, {"text": "a", "label": "c"}, "train.jsonl, line 11: the label 'c'"),
        (TEXT, "text", "train.jsonl, line 11: expected an object"),
        (TOKENS, {"tokens": ["a"], "labels": []}, "train.jsonl, line 11: 1 words in 'tokens', but 0"),
        (ANSWERS, {"id": "x", "question": "q", "context": "c"}, "train.jsonl, line 11 (id x): the field 'answ"),
        (ANSWERS, question(9, answers={"text": [], "answer_start": []}), "1 of 2 train questions have no answer"),
    ],
)
def test_invalid_rows_are_named_when_they_are_reached(name, row, message, prepare, tmp_path, monkeypatch):
    """After nine rows and a blank line."""
    monkeypatch.setattr(stream_module, "BUFFER", 4)
    stream = prepare(name, [*ROWS[name][:9], row]).stream
    lines = (tmp_path / "train.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join([*lines[:4], "\n", *lines[4:]]))
    with pytest.raises(ValueError, match=re.escape(message)):
        first_of(stream, 20)


def test_a_row_of_a_data_set_is_named(prepare, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_module, "BUFFER", 4)
    data = as_hub([{"text": text, "label": 0} for text in [*WORDS, "nine", ""]], tmp_path / "hub")
    with pytest.raises(ValueError, match=r"hub \(train\), row 10: the field 'text' is empty"):
        first_of(prepare(TEXT, **data).stream, 20)


@pytest.mark.parametrize("name", ROWS)
def test_empty_rows_can_be_skipped(name, prepare, caplog):
    """Also a last part with no other rows."""
    stream = prepare(name, [*ROWS[name][:8], EMPTY], skip_empty=True).stream
    assert len(set(as_text(first_of(stream, 24)))) == len(set(as_text(first_of(stream, 8))))
    assert "leaving out 1 of 1 rows, which have an empty text, the first one in line 9." in caplog.text
