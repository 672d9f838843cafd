"""A training whose weights stop being numbers ends with one line, in each task, and elects no trial."""

import json
import math

import pytest
from safetensors.torch import load_file, save_file

from hf_localattn.parsing import format_json
from tests.qa_helpers import write_jsonl

DATA = {
    "glue": "classes.jsonl",
    "ner": "names.jsonl",
    "swag": "swag.csv",
    "qa": "answered.jsonl",
    "qg": "answered.jsonl",
}
TOO_FAST = {"learning_rate": 1e30, "max_grad_norm": 0, "max_steps": 4, "logging_steps": 1}


@pytest.mark.parametrize("script", DATA)
def test_a_training_that_diverges_ends_with_one_line(script, run, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        run(script, DATA[script], do="train", **TOO_FAST)
    assert end.value.code == 2
    assert "diverged" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_a_trial_that_diverges_is_not_the_best(run, files, tmp_path):
    rows = [{"text": text, "label": "bee"} for text in ("the cat", "the dog", "red mat")] + [
        {"text": "a", "label": "ant"}
    ]
    data = write_jsonl(tmp_path / "rows.jsonl", rows)  # NaN predicts the first class
    (tmp_path / "space.json").write_text(json.dumps({"learning_rate": [1e30, 1e-5]}))
    options = {"search_space": str(tmp_path / "space.json"), "max_grad_norm": 0, "logging_steps": 1}
    run("glue", str(data), do="train eval", **options)
    search = json.loads((tmp_path / "out" / "search.json").read_text())
    assert search["best"] == "--learning_rate 1e-05"
    assert "diverged" in json.dumps(search["failed"])


def test_a_model_whose_logits_are_not_numbers_predicts_nothing(run, files, tmp_path, capsys):
    run("glue", "classes.jsonl", do="train")
    weights = load_file(tmp_path / "out" / "model.safetensors")
    weights["classifier.weight"][:] = math.nan
    save_file(weights, tmp_path / "out" / "model.safetensors", {"format": "pt"})
    with pytest.raises(SystemExit):
        run("glue", "classes.jsonl", do="eval", model=str(tmp_path / "out"), out="evaluated")
    assert "not numbers" in capsys.readouterr().err


def test_json_has_no_nan():
    assert json.loads(format_json({"a": math.nan, "b": [math.inf, 1.5]})) == {"a": None, "b": [None, 1.5]}
