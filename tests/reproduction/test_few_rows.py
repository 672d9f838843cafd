"""Part g of the studies: draws of few rows, and the record of the shortest command. The trainings are stand-ins."""

import json

import pytest

from hf_localattn.hub import TrainingRecord
from hf_localattn.hub.record import Candidate, Comparison
from hf_localattn.settings.recipes import AUTO
from hf_localattn.studies import processes
from hf_localattn.studies.processes import RunFailed
from hf_localattn.studies.results import write_results
from reproduction.__main__ import main
from reproduction.study_data import choices_of, draw_articles, draw_two


@pytest.fixture
def trained(monkeypatch):
    """Options of the trainings, by the name of their folder. A choice cannot be trained."""
    runs = {}

    def train(run, *_):
        for one in (run, *run.then):
            runs[one.folder.name] = one.options
            if one.script == "swag":
                raise RunFailed("no rows")
            metrics = {"predict_f1": 0.5, "eval_f1": 0.25, "eval_accuracy": 0.75, "predict_report": {}}
            recipe = one.options.get("recipe", "words")
            write_results(one.folder / "run.json", {"recipe": recipe, "train data": "600 rows"})
            comparison = Comparison("f1", (Candidate("words", score=0.5),), "") if recipe == AUTO else None
            TrainingRecord("token-classification", comparison=comparison).save(one.folder)
            write_results(one.folder / "all_results.json", metrics)
        return metrics

    monkeypatch.setattr(processes, "run_in_process", train)
    return runs


def test_the_record_has_each_run_with_its_command_data_and_further_rows(trained, tmp_path, capsys):
    words = ["few-rows", str(tmp_path / "draws"), "--backbone", "tiny", "--draws", "1", "-o", str(tmp_path / "out")]
    main([*words, "--tasks", "wnut", "squad"])
    main([*words, "--tasks", "wnut", "squad", "--recipes", "auto", "questions-encoder"])
    new = ("wnut-1-auto", "squad-1-auto", "squad-1-questions-encoder")
    assert list(trained) == ["wnut-1", "wnut-1-others", "squad-1", *new]
    assert "recipe" not in trained["wnut-1"].keys() | trained["squad-1"].keys()
    assert "validation_file" not in trained["wnut-1"]
    assert trained["wnut-1-auto"]["validation_file"] == str(tmp_path / "draws" / "wnut-1-validation.txt")
    assert trained["wnut-1-others"]["model_name_or_path"] == str(tmp_path / "out" / "wnut-1")
    runs = json.loads((tmp_path / "out" / "few-rows.json").read_text())["runs"]
    found = [(run["row"], run["task"], run["run"]) for run in runs]
    assert found[:2] == [("words", "wnut", 2), ("words", "squad", 2)]
    assert found[2:] == [("auto", "wnut", 2), ("auto", "squad", 2), ("questions-encoder", "squad", 2)]
    assert runs[0]["metrics"]["predict_f1@others"] == 0.5
    assert runs[0]["data"] == {"train data": "600 rows"}
    assert runs[0]["command"].startswith("hf-localattn train ner --backbone ")
    assert str(tmp_path) not in runs[0]["command"]
    assert runs[2]["comparison"]["rows"][0]["name"] == "words"
    assert "| squad | 2 | words | eval_f1 | 0.2500 |" in capsys.readouterr().out


def test_a_failed_run_is_named_and_the_others_are_recorded(trained, tmp_path, capsys):
    words = ["few-rows", str(tmp_path), "--backbone", "tiny", "--draws", "0", "-o", str(tmp_path / "out")]
    with pytest.raises(SystemExit):
        main([*words, "--tasks", "choices", "squad"])
    assert "choices-0: no rows" in capsys.readouterr().err
    assert len(json.loads((tmp_path / "out" / "few-rows.json").read_text())["runs"]) == 1


def test_draws_are_disjoint_from_the_rows_that_are_scored():
    rows = [str(number) for number in range(50)]
    drawn, others = draw_two(rows, (1, 20), (2, 10))
    assert (len({*drawn}), len({*others} - {*drawn})) == (20, 10)
    assert draw_two(rows, (1, 20), (2, 10)) == (drawn, others)


def test_articles_are_drawn_whole():
    rows = [json.dumps({"title": number % 5, "id": number}) for number in range(50)]
    drawn = [json.loads(row)["title"] for row in draw_articles(rows, 1, 30)]
    assert [drawn.count(title) for title in dict.fromkeys(drawn)] == [10, 10, 10]


def test_the_right_choice_is_the_sentence_with_the_answer():
    passage = "Ann came. Bob left. Cid sat. Dan ran. Bob saw Eve."
    rows = [
        json.dumps({"question": "Who?", "context": passage, "answers": {"text": [text]}}) for text in ("Cid", "Bob")
    ]
    (row,) = map(json.loads, choices_of(rows, 0))  # two sentences have "Bob"
    assert row["choices"][row["label"]] == "Cid sat."
    assert len({*row["choices"]}) == 4
