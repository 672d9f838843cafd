"""`--recipe auto`, with recipes of this file. Most trainings are stand-ins, which leave scores and no model."""

import json
import logging
import os

import pytest
from transformers import AutoModelForSequenceClassification

import hf_localattn  # noqa: F401
from hf_localattn.hub import TrainingRecord
from hf_localattn.settings import recipes
from hf_localattn.studies import processes
from hf_localattn.studies.command import run_task
from hf_localattn.studies.processes import RunFailed
from hf_localattn.studies.results import finished, write_results
from hf_localattn.tasks import TextClassification
from tests.script_helpers import assert_one_line_error
from tests.studies.test_folds import main

RECIPE = """
script: glue
default: {default}
summary: Train.
measured: never
seconds: {seconds}
options:
  family: sam-roberta
  local_config: [pooling=none, freeze_backbone=true, encoder_states=all, bilstm_hidden_size=16]
  learning_rate: {rate}
  num_train_epochs: {epochs}
"""

GIVEN = "--recipe auto --backbone tiny --max_seq_length 16 --use_cpu --disable_tqdm true --do_train"
GIVEN += " --train_file sample:reviews.csv"


@pytest.fixture(autouse=True)
def two_recipes(tmp_path, monkeypatch):
    """A recipe that learns nothing, and a longer one that learns."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "learns.yaml").write_text(RECIPE.format(default="true", seconds=9, rate="1e-2", epochs=20))
    (folder / "still.yaml").write_text(RECIPE.format(default="false", seconds=1, rate="1e-12", epochs=1))
    monkeypatch.setattr(recipes, "FOLDER", folder)


def options(output_dir, *more, validation="sample:reviews.csv"):
    rows = ["--validation_file", validation] if validation else []
    return [*GIVEN.split(), *rows, "--output_dir", str(output_dir), *more]


def run_here(run, *_):
    """Run a script in this process."""
    return finished(run.folder) or run_task(TextClassification, run.options)


class Trainings:
    """Stand-ins for trainings: each leaves its score, raises it if it is an error, or lasts until it is ended."""

    def __init__(self, monkeypatch, **scores):
        self.scores = scores
        self.runs = []
        monkeypatch.setattr(processes, "run_in_process", self)

    def __call__(self, run, environment, folder, stdin=None):
        self.runs.append(run)
        score = self.scores[run.options["recipe"]]
        if score is None:
            os.read(stdin, 1)
            raise RunFailed("ended")
        if isinstance(score, BaseException):
            raise score
        metrics = {"eval_accuracy": score, "eval_accuracy_of_linear": 0.75, "eval_intervals": {"accuracy": [0, 1]}}
        if run.options.get("num_folds"):
            metrics = {"eval_accuracy_mean": score, "eval_accuracy_low": 0, "eval_accuracy_high": 1}
        write_results(run.folder / "all_results.json", metrics)
        (run.folder / run.options["recipe"]).write_text("a file of the model")
        return metrics

    @property
    def names(self):
        return [run.options["recipe"] for run in self.runs]


def found_in(folder):
    return json.loads((folder / "search.json").read_text())


def scores_in(folder):
    return {recipe["name"]: recipe["score"] for recipe in found_in(folder)["recipes"]}


def test_the_best_model_is_kept_with_a_table_on_screen_in_the_file_and_on_the_card(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(processes, "run_in_process", run_here)
    folder = tmp_path / "out"
    with caplog.at_level(logging.INFO, "hf_localattn"):
        metrics = main(options(folder))
    found = found_in(folder)
    assert (found["kept"], found["metric"]) == ("learns", "accuracy")
    assert [recipe["name"] for recipe in found["recipes"]] == ["still", "learns"]  # the cheapest first
    learned = found["recipes"][1]
    assert learned["score"] == metrics["eval_accuracy"] > found["recipes"][0]["score"]
    assert learned["seconds"] > 0 < learned["megabytes"]
    assert {rival["name"] for rival in found["rivals"]} == {"constant", "linear"}
    card = (folder / "README.md").read_text()
    for text in (caplog.text, card):
        assert "| recipe | accuracy | 95 % interval | seconds | MB |" in text
        assert f"| learns | {learned['score']:.4f} | " in text
        assert "| rival: linear | " in text
    record = TrainingRecord.load(folder)
    assert record.comparison.rows[0].name == "learns"
    assert {"recipe": "learns", "num_train_epochs": 20}.items() <= record.hyperparameters.items()
    AutoModelForSequenceClassification.from_pretrained(folder)
    assert not [path.name for path in folder.iterdir() if path.is_dir()]
    monkeypatch.setattr(processes, "run_in_process", None)
    assert main(options(folder)) == metrics  # nothing is trained again


def test_minutes_end_a_training_and_more_of_them_let_it_go_on(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "out"
    trainings = Trainings(monkeypatch, still=0.5, learns=None)
    with caplog.at_level(logging.INFO, "hf_localattn"):
        assert main(options(folder, "--minutes", "0.02"))["eval_accuracy"] == 0.5
    assert scores_in(folder) == {"still": 0.5, "learns": None}
    assert (folder / "still").is_file()
    assert "| learns | not finished |" in caplog.text
    assert "Its rival linear" in caplog.text
    main(options(folder, "--minutes", "0.02"))  # they are over
    assert trainings.names == ["still", "learns"]
    trainings.scores["learns"] = 0.75
    with caplog.at_level(logging.INFO, "hf_localattn"):
        main(options(folder, "--minutes", "5"))
    assert trainings.names == ["still", "learns", "learns"]
    assert found_in(folder)["kept"] == "learns"
    assert (folder / "learns").is_file()
    assert not (folder / "still").exists()
    assert "level with its rival linear" in caplog.text


def test_too_few_minutes_for_the_first_recipe_are_told_and_lose_nothing(tmp_path, monkeypatch, capsys):
    trainings = Trainings(monkeypatch, still=None, learns=0.5)
    with pytest.raises(SystemExit):
        main(options(tmp_path / "out", "--minutes", "0.005"))
    assert "--minutes 0.005: too few for still" in capsys.readouterr().err
    trainings.scores["still"] = 0.25
    assert main(options(tmp_path / "out"))["eval_accuracy"] == 0.5


@pytest.mark.parametrize("is_moving", [False, True])
def test_a_killed_command_goes_on(tmp_path, monkeypatch, is_moving):
    """It is killed in a training, or while the model is moved."""
    folder = tmp_path / "out"
    trainings = Trainings(monkeypatch, still=0.5, learns=0.75 if is_moving else KeyboardInterrupt())
    with monkeypatch.context() as context:
        if is_moving:
            context.setattr("hf_localattn.studies.recipe_search.shutil.move", interrupt)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            main(options(folder))
    trainings.scores["learns"] = 0.75
    trainings.runs.clear()
    assert main(options(folder))["eval_accuracy"] == 0.75
    assert trainings.names == ([] if is_moving else ["learns"])
    assert (folder / "learns").is_file()


def interrupt(*_):
    raise KeyboardInterrupt


def test_folds_choose_without_validation_rows_and_all_rows_train_the_best(tmp_path, monkeypatch):
    trainings = Trainings(monkeypatch, still=0.5, learns=0.75)
    main(options(tmp_path / "out", validation=None))
    assert trainings.names == ["still", "learns", "learns"]
    assert [run.options.get("num_folds") for run in trainings.runs] == [5, 5, None]
    assert trainings.runs[2].options["do_eval"] is False
    assert (tmp_path / "out" / "learns").is_file()


def test_a_recipe_that_fails_is_told_and_the_others_go_on(tmp_path, monkeypatch, caplog, capsys):
    trainings = Trainings(monkeypatch, still=RunFailed("no layers"), learns=0.5)
    with caplog.at_level(logging.INFO, "hf_localattn"):
        assert main(options(tmp_path / "out"))["eval_accuracy"] == 0.5
    assert "still failed: no layers" in caplog.text
    trainings.scores["learns"] = RunFailed("no layers either")
    with pytest.raises(SystemExit):
        main(options(tmp_path / "none"))
    assert "no recipe has a score. still failed: no layers" in capsys.readouterr().err


def test_another_command_is_refused(tmp_path, monkeypatch, capsys):
    Trainings(monkeypatch, still=0.5, learns=0.75)
    main(options(tmp_path / "out"))
    with pytest.raises(SystemExit):
        main(options(tmp_path / "out", "--learning_rate", "1e-3"))
    assert "holds another run: its command" in capsys.readouterr().err


ONE_CLASS = "text,label\n" + "".join(f"text {number},good\n" for number in range(9))
FEW_ROWS = "text,label\none,good\ntwo,bad\n"
REFUSED = {
    "family": (("--family", "cool"), None, "leave out --family"),
    "fields": (("--local_config", "use_conv=false"), None, "leave out --local_config"),
    "seeds": (("--seeds", "1", "2"), None, "leave out --seeds"),
    "search": (("--search_space", "space.yaml"), None, "leave out --search_space"),
    "push": (("--push_to_hub",), None, "leave out --push_to_hub"),
    "folds": (("--num_folds", "3"), None, "leave out --num_folds"),
    "no-minutes": (("--minutes", "0"), None, "--minutes"),
    "no-test-rows": (("--do_predict",), ONE_CLASS.replace("text 1,good", "text 1,bad"), "give --test_file"),
    "one-class": ((), ONE_CLASS, "at least two classes"),
    "few-rows": ((), FEW_ROWS, "only 2 different rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_searched_is_refused_before_a_training(tmp_path, capsys, monkeypatch, case):
    more, rows, message = REFUSED[case]
    monkeypatch.setattr(processes, "run_in_process", None)
    given = options(tmp_path / "out", *more)
    if rows is not None:
        (tmp_path / "rows.csv").write_text(rows)
        given = options(tmp_path / "out", "--train_file", str(tmp_path / "rows.csv"), *more, validation=None)
    assert_one_line_error(lambda: main(given), message, tmp_path / "out", capsys)


@pytest.mark.parametrize(
    ("script", "given", "message"),
    [
        ("qg", {"backbone": "b", "do_train": True}, "no recipes for `train qg`"),
        ("glue", {"do_train": True}, "needs --backbone"),
        ("glue", {"backbone": "b"}, "needs --do_train"),
        ("glue", {"model_name_or_path": "m", "do_train": True}, "leave out --model_name_or_path"),
    ],
)
def test_options_that_contradict_auto(script, given, message):
    with pytest.raises(ValueError, match=message):
        recipes.add_recipe(script, {"recipe": "auto", **given})


def test_minutes_are_for_auto(tmp_path, capsys):
    given = ["minutes" if word == "auto" else word for word in options(tmp_path / "out", "--minutes", "3")]
    given[given.index("minutes")] = "still"
    assert_one_line_error(lambda: main(given), "--minutes needs --recipe auto", tmp_path / "out", capsys)
