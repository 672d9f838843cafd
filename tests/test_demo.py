"""The demo's machinery, with two steps instead of hundreds and four questions instead of thousands."""

from __future__ import annotations

import json
import runpy
import sys
from argparse import Namespace

import datasets
import pytest
import transformers
from transformers import pipeline

from tests.demo_helpers import DEMO, QUESTIONS, demo_by_heart, load_demo


@pytest.fixture
def loud_again():
    """The demo silences libraries, which other tests listen to."""
    verbosity = transformers.logging.get_verbosity()
    yield
    transformers.logging.set_verbosity(verbosity)
    transformers.logging.enable_progress_bar()
    datasets.enable_progress_bars()


@pytest.mark.slow(reason="a minute of training; docs/question_answering.md is run with a model that learns by heart")
def test_learns_what_the_readme_says():
    trained = load_demo()["train"]("cool", Namespace(seed=0, steps=200))
    reader = pipeline("question-answering", model=trained.model, tokenizer=trained.tokenizer)
    for question, passage, answer in QUESTIONS:
        assert reader(question=question, context=passage)["answer"] == answer


@pytest.mark.usefixtures("loud_again")
def test_trains_saves_reloads_and_asks(tmp_path, monkeypatch, capsys):
    earlier = tmp_path / "demo_output"
    earlier.mkdir()
    (earlier / "demo.json").write_text("{}")
    (earlier / "left_over").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(DEMO), "--steps", "2", "--seed", "3"])

    demo_by_heart(tmp_path)["main"]()

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "parameters" in line] == [
        "CoolForQuestionAnswering,",
        "BertForQuestionAnswering,",
    ]
    assert any(line.startswith("COOL  ") for line in lines)
    assert any("eleven times" in line for line in lines)
    assert lines[-1].startswith("  Who is the "), "the fresh process has answered"
    results = json.loads((earlier / "demo.json").read_text())
    assert results["seed"] == 3
    assert 0 <= results["cool"]["exact_match"] <= results["cool"]["f1"] <= 100
    assert (earlier / "modeling_cool.py").is_file()
    assert not (earlier / "left_over").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".demo")] == []


def test_refuses_a_folder_that_is_not_its_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "thesis.txt").touch()
    monkeypatch.setattr(sys, "argv", [str(DEMO), "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(DEMO), run_name="__main__")
    assert stopped.value.code == 2
    assert "exists and is not from an earlier demo" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()
