"""`--streaming`: training rows that are read while the model is trained."""

import itertools
import json
import re
import shutil

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from safetensors.torch import load_file

from hf_localattn.tasks import TASKS, prepare_run, splits
from hf_localattn.training.arguments import ModelArguments
from tests.qa_helpers import write_jsonl

WORDS = ["the", "small", "cat", "sat", "on", "a", "red", "mat"]
SENTENCES = [[*WORDS[i % 8 :], *WORDS[: i % 5], "cat"] for i in range(13)]
ROWS = {
    "text-classification": [{"text": " ".join(s), "label": "ab"[i % 2]} for i, s in enumerate(SENTENCES)],
    "token-classification": [{"tokens": s, "labels": ["A" if w > "m" else "O" for w in s]} for s in SENTENCES],
    "question-answering": [
        {
            "id": str(i),
            "question": "Who sat?",
            "context": " ".join(s),
            "answers": {"text": ["cat"], "answer_start": [" ".join(s).index("cat")]},
        }
        for i, s in enumerate(SENTENCES)
    ],
}
MODEL = {"family": "cool", "backbone": "tiny"}
each_task = pytest.mark.parametrize("name", ROWS)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(splits, "ROWS_PER_PART", 4)


def prepare(name, folder, output="out", run=prepare_run, data=None, **arguments):
    task = TASKS[name]
    rows = folder / "train.jsonl"
    if not rows.exists():
        write_jsonl(rows, ROWS[name])
    data = {"train_file": str(rows), "streaming": True, "max_seq_length": 32, **(data or {})}
    if name == "question-answering":
        data = {"doc_stride": 8, "pad_to_max_length": False, **data}
    trained = {"do_train": True, "max_steps": 4, "per_device_train_batch_size": 3, "use_cpu": True, "report_to": []}
    trained |= {"output_dir": str(folder / output), "disable_tqdm": True, **arguments}
    return run(task, ModelArguments(**MODEL), task.DataArguments(**data), task.TrainingArguments(**trained))


def as_text(features):
    names = ("input_ids", "labels", "label", "start_positions", "end_positions")
    return sorted(json.dumps({name: row[name] for name in names if name in row}) for row in features)


@each_task
def test_streamed_features_equal_those_in_memory(name, tmp_path):
    memory = prepare(name, tmp_path, data={"streaming": False})
    expected = list(memory.features["train"])
    stream = prepare(name, tmp_path, "other").trainer.train_dataset
    passes = [list(itertools.islice(stream, n * len(expected), (n + 1) * len(expected))) for n in range(2)]
    for one in passes:
        assert as_text(one) == as_text(expected)
    assert passes[0] != passes[1]
    assert passes[0] == list(itertools.islice(stream, len(expected)))


def test_resumed_training_reads_on(tmp_path):
    """Thirteen rows are passed more than once in eight steps of three."""
    name, fields = (
        "text-classification",
        {"max_steps": 8, "save_steps": 5, "logging_steps": 1, "keep_checkpoints": True},
    )
    whole = prepare(name, tmp_path, **fields)
    metrics = whole.execute()
    assert metrics["train_samples"] == 24
    (tmp_path / "again").mkdir()
    shutil.copytree(tmp_path / "out" / "checkpoint-5", tmp_path / "again" / "checkpoint-5")
    resumed = prepare(name, tmp_path, "again", **fields)
    resumed.execute()
    weights = [load_file(tmp_path / folder / "model.safetensors") for folder in ("out", "again")]
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])
    losses = [[one["loss"] for one in run.trainer.state.log_history if "loss" in one] for run in (whole, resumed)]
    assert len(losses[0]) == 8
    assert losses[0] == losses[1]


def as_hub(rows, folder):
    """A data set whose labels are numbers with names, as on the Hub."""
    names = ClassLabel(names=["b", "a"])
    features = Features({"text": Value("string"), "label": names})
    for split, part in (("train", rows), ("validation", rows[:5]), ("test", rows[5:8])):
        Dataset.from_list(part, features=features).to_parquet(folder / f"{split}.parquet")
    return str(folder)


def test_data_sets_are_streamed(tmp_path):
    name = "text-classification"
    source = as_hub([{**row, "label": "ba".index(row["label"])} for row in ROWS[name]], tmp_path / "hub")
    data = {"train_file": None, "dataset_name": source, "max_eval_samples": 3}
    run = prepare(name, tmp_path, data=data, do_eval=True, do_predict=True, eval_strategy="steps", eval_steps=2)
    assert run.trainer.model.config.id2label == {0: "b", 1: "a"}
    assert isinstance(run.features["validation"], Dataset)
    metrics = run.execute()
    assert (metrics["train_samples"], metrics["eval_samples"], metrics["predict_samples"]) == (12, 3, 3)
    expected = prepare(name, tmp_path, "in-memory", data={**data, "streaming": False}).features["train"]
    assert as_text(itertools.islice(run.trainer.train_dataset, 13)) == as_text(expected)


def test_limits_hold(tmp_path):
    stream = prepare("text-classification", tmp_path, data={"max_train_samples": 6}).trainer.train_dataset
    first, second = (as_text(itertools.islice(stream, start, start + 6)) for start in (0, 6))
    assert first == second
    assert len(set(first)) == 6


BROKEN = [
    ("text-classification", {"text": "a", "label": None}, "train.jsonl, line 11: the field 'label' holds no label"),
    ("text-classification", {"text": "", "label": "a"}, "train.jsonl, line 11: the field 'text' is empty"),
    ("text-classification", {"text": "a", "label": "c"}, "train.jsonl, line 11: the label 'c' is not one of"),
    ("text-classification", "text", "train.jsonl, line 11: expected an object"),
    ("token-classification", {"tokens": ["a"], "labels": []}, "train.jsonl, line 11: 1 words in 'tokens', but 0"),
    (
        "token-classification",
        {"tokens": ["a"], "labels": ["B"]},
        "train.jsonl, sentence 10, word 1 ('a'): the label 'B'",
    ),
    (
        "question-answering",
        {"id": "x", "question": "q", "context": "c"},
        "train.jsonl, line 11 (id x): the field 'answ",
    ),
    (
        "question-answering",
        {"id": "x", "question": "q", "context": "c", "answers": {"text": [], "answer_start": []}},
        "1 of 2 train questions have no answer: pass --version_2_with_negative",
    ),
]


@pytest.mark.parametrize(("name", "row", "message"), BROKEN)
def test_invalid_rows_are_named_as_without_streaming(name, row, message, tmp_path, monkeypatch):
    """After nine rows and a blank line; such a row is found when it is reached."""
    monkeypatch.setattr(splits, "HEAD_ROWS", 4)
    write_jsonl(tmp_path / "rows.jsonl", [*ROWS[name][:9], row])
    lines = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join([*lines[:4], "\n", *lines[4:]]))
    stream = prepare(name, tmp_path).trainer.train_dataset
    with pytest.raises(ValueError, match=re.escape(message)):
        list(itertools.islice(stream, 20))


def test_a_row_of_a_data_set_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "HEAD_ROWS", 4)
    rows = [{"text": text, "label": 0} for text in [*WORDS, "nine", ""]]
    data = {"train_file": None, "dataset_name": as_hub(rows, tmp_path / "hub")}
    stream = prepare("text-classification", tmp_path, data=data).trainer.train_dataset
    with pytest.raises(ValueError, match=r"hub \(train, in streaming order\), row 10: the field 'text' is empty"):
        list(itertools.islice(stream, 20))


@each_task
def test_empty_rows_can_be_skipped(name, tmp_path, caplog):
    """Also a last part with no other rows."""
    empty = {"text": " ", "label": "a", "tokens": [], "labels": [], "id": "x", "question": " ", "context": "c"}
    write_jsonl(tmp_path / "train.jsonl", [*ROWS[name][:8], {**empty, "answers": {"text": [], "answer_start": []}}])
    stream = prepare(name, tmp_path, data={"skip_empty": True}).trainer.train_dataset
    assert len(set(as_text(itertools.islice(stream, 24)))) == len(set(as_text(itertools.islice(stream, 8))))
    assert "leaving out 1 of 1 rows, which have an empty text, the first one in line 9." in caplog.text


@pytest.mark.parametrize(
    ("script", "word", "options"),
    [
        ("glue", "--max_steps", {"max_steps": -1}),
        ("glue", "--num_folds", {"num_folds": 2}),
        ("glue", "--search_space", {"search_space": "x.json"}),
        ("glue", "--skip_unlabeled", {"skip_unlabeled": True}),
        ("glue", "--draw_train_samples", {"draw_train_samples": True, "max_train_samples": 3}),
        ("glue", "--do_train", {"do": "eval"}),
        ("qa", "--save_strategy steps", {"save_strategy": "epoch"}),
        ("qa", "--eval_strategy steps", {"save_strategy": None, "early_stopping_patience": 1}),
        ("ner", "negation", {"task_name": "negation"}),
        ("swag", "multiple-choice", {}),
    ],
)
def test_what_streaming_excludes_is_an_early_error(script, word, options, refused):
    refused(word, script, **{"data": "none.jsonl", "do": "train eval", "streaming": True, **options})


@pytest.mark.parametrize(
    ("file", "message"),
    [("train.csv", "save the rows as .jsonl"), ("none.jsonl", "no such file"), ("a.jsonl", "holds no texts")],
)
def test_files_are_json_lines(file, message, tmp_path):
    (tmp_path / "train.csv").write_text("text,label\na,b\n")
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepare("text-classification", tmp_path, data={"train_file": str(tmp_path / file)})
