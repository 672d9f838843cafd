"""`python -m reproduction` on the tiny encoder and the samples: numbers that mean nothing, machinery that is real."""

import json
import os
import re
import shutil

import pytest
import torch
from pandas import read_csv
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from hf_localattn import (
    SamRobertaForSequenceClassification,
    SlaBertForSequenceClassification,
    SlaBertForTokenClassification,
    SlaBertTokenizer,
)
from hf_localattn.resources import reading_comprehension, tiny_backbone
from hf_localattn.studies import processes
from hf_localattn.studies.processes import RunFailed
from reproduction.__main__ import main
from reproduction.plan import digest, plan, select
from reproduction.runs import best_setting, used_fields
from reproduction.tables import table_names

TINY = ("--backbone", "tiny", "--parser", "tiny", "--data", "samples", "--max-samples", "8", "--args", "max_steps=1")
WHOLE = ("cool-4", "--rows", "bert", "outlook", "--num-runs", "2")
REPEATED = ("--max-samples", "8", *TINY[:6], *TINY[8:])


def reproduce(folder, table, *arguments):
    """Run the command with a relative folder, as the default is, and return what it has written."""
    main([table, *TINY, "-o", os.path.relpath(folder), *arguments])
    path = folder / f"{table}.json"
    return json.loads(path.read_text()) if path.is_file() else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all tests: what one of them has run another one finds."""
    return tmp_path_factory.mktemp("reproduced")


@pytest.fixture(scope="module")
def whole(folder):
    return reproduce(folder, *WHOLE)


def test_every_number_says_where_it_comes_from(whole, folder):
    scores = {(cell["row"], cell["score"]): cell for cell in whole["scores"]}
    bert, cool = scores["bert", "F1"], scores["outlook", "F1"]
    assert (bert["published"], cool["published"]) == (75.41, 76.79)
    assert bert["runs"] == cool["runs"] == cool["pairs"] == 2
    assert cool["against_baseline"] == pytest.approx(cool["measured"] - bert["measured"])
    text = (folder / "cool-4.md").read_text()
    assert re.search(r"\| tiny \| F1 \| 75.41 \| \d+\.\d\d ± \d+\.\d\d \|", text), "named after its encoder"
    assert whole["command"] == f"python -m reproduction {' '.join((*WHOLE, *REPEATED))}"
    runs = {(run["row"], run["run"]): run for run in whole["runs"]}
    assert list(runs) == [("bert", 1), ("outlook", 1), ("bert", 2), ("outlook", 2)]
    run = runs["outlook", 2]
    assert run["command"].startswith("python run_qa.py --family cool --backbone tiny ")
    assert run["command"].endswith("--seed 1 --output_dir outlook-squad_v2-1")
    assert " --train_file hf_localattn/resources/" in run["command"], "as it is called beside the scripts"
    assert (run["seed"], run["model"]) == (1, None)
    assert {"hf_localattn", "torch", "transformers"} <= run["versions"].keys()
    assert run["data"]["train"].startswith("8 rows, sha256 ")
    assert run["data"] == runs["bert", 1]["data"]
    assert run["metrics"]["train_seconds_per_epoch"] > 0
    for path in (folder, tiny_backbone().parent):
        assert str(path) not in json.dumps(whole), "a path of this machine"


def test_again_nothing_is_run_and_tables_share_their_runs(whole, folder, monkeypatch):
    monkeypatch.setattr(processes, "run_in_process", None)
    assert reproduce(folder, *WHOLE) == whole
    own = reproduce(folder, "cool-3", "--rows", "bert", "--num-runs", "2")
    assert own["runs"] == [run for run in whole["runs"] if run["row"] == "bert"]


@pytest.mark.usefixtures("runs_in_processes")
def test_workers_measure_the_same(whole, tmp_path, monkeypatch):
    """Bit for bit, in processes and here."""
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    own = reproduce(tmp_path, *WHOLE[:-1], "1", "--workers", "2")
    for run, expected in zip(own["runs"], whole["runs"][:2], strict=True):
        measured = {name: value for name, value in run["metrics"].items() if not re.search("second|time", name)}
        assert measured.items() <= expected["metrics"].items()
    assert len(list(tmp_path.glob("runs/*.log"))) == 2
    assert not list(tmp_path.glob("runs/*/model.safetensors"))


def test_a_run_is_known_by_what_is_in_folders_not_by_their_names(tmp_path):
    def place(folder, **settings):
        settings |= {"backbone": str(folder / "encoder"), "data": [f"squad_v2={folder / 'data'}"]}
        (run,) = plan(select("cool-4", rows=["bert"], num_runs=1, **settings))
        return run.folder

    for name in ("one", "two"):
        for source, part in ((reading_comprehension()["train"].parent, "data"), (tiny_backbone(), "encoder")):
            shutil.copytree(source, tmp_path / name / part)
    first = place(tmp_path / "one")
    assert place(tmp_path / "two") == first
    assert place(tmp_path / "one", max_samples=8) != first
    (tmp_path / "two" / "data" / "train.json").write_text("{}")
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "two").rename(tmp_path / "one")
    digest.cache_clear()
    assert place(tmp_path / "one") != first


def test_a_table_that_was_killed_or_had_a_run_that_failed_goes_on(folder, monkeypatch, capsys):
    arguments = ("cool-9", "--rows", "bert", "rgcn", "gat", "--num-runs", "1")
    original = processes.run_in_process
    for error, code, rows in ((KeyboardInterrupt, "130", ["bert"]), (RunFailed("no room"), "2", ["bert", "gat"])):

        def disturbed(run, *place, error=error):
            if "rgcn" in str(run.options):
                raise error
            return original(run, *place)

        with monkeypatch.context() as patched:
            patched.setattr(processes, "run_in_process", disturbed)
            with pytest.raises(SystemExit, match=code):
                reproduce(folder, *arguments)
        done = json.loads((folder / "cool-9.json").read_text())["runs"]
        assert [run["row"] for run in done] == rows
    assert "error: Runs without a result: rgcn, squad_v2, seed 0: no room" in capsys.readouterr().err
    runs = reproduce(folder, *arguments)["runs"]
    assert [run["row"] for run in runs] == ["bert", "rgcn", "gat"]
    assert runs[::2] == done


OA = ("oa-2", "--rows", "baseline", "--tasks", "bioscope_papers", "--num-runs", "1")


def test_models_are_tested_on_other_corpora(folder, monkeypatch):
    found = reproduce(folder, *OA)
    assert [cell["score"] for cell in found["scores"]] == ["F1", "F1 on BA", "F1 on SFU", "F1 on Sherlock"]
    monkeypatch.setattr(processes, "run_in_process", None)  # it serves fewer corpora as well
    fewer = reproduce(folder, *OA, "--test-corpora", "BA")
    assert [cell["score"] for cell in fewer["scores"]] == ["F1", "F1 on BA"]


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "trained-anew"])
def test_a_model_is_tested_on_more_corpora(is_kept, tmp_path, capsys):
    (first,) = reproduce(tmp_path, *OA, "--test-corpora", "BA", *["--keep-models"] * is_kept)["runs"]
    models = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/fold-1/model.safetensors")}
    assert len(models) == is_kept
    (second,) = reproduce(tmp_path, *OA, "--test-corpora", "SFU")["runs"]
    assert all(path.stat().st_mtime_ns == before for path, before in models.items()), "it is not trained again"
    assert ("baseline, bioscope_papers, run 1: " in capsys.readouterr().out) == is_kept
    assert second["metrics"]["predict_f1"] == first["metrics"]["predict_f1"]
    assert {"predict_f1@BA", "predict_f1@SFU"} <= {*first["metrics"], *second["metrics"]}


def test_sizes_and_lengths_and_figures(folder):
    found = reproduce(folder, "oa-1", "--rows", "baseline", "em")
    cells = {(cell["row"], cell["score"]): cell["measured"] for cell in found["scores"]}
    assert cells["em", "Parameters (M)"] > cells["baseline", "Parameters (M)"]
    assert cells["baseline", "Batch of 8 (ratio)"] == 1
    found = reproduce(folder, "sam-1", "--tasks", "trec")
    assert {cell["score"]: cell["measured"] for cell in found["scores"]}["Train"] == 8
    reproduce(folder, "sam-figure-3", "--rows", "delta-0.00", "delta-0.40", "--num-runs", "1")
    assert (folder / "sam-figure-3.png").read_bytes().startswith(b"\x89PNG")
    assert "](sam-figure-3.png)" in (folder / "sam-figure-3.md").read_text()
    assert (folder / "sam-figure-3.csv").read_text().startswith("title,place,value\nSAM,0.0,")


def test_the_grid_is_searched_first(folder):
    """A smaller one than the paper's; fields count where the row has them."""
    grid = {"learning_rate": [1e-5, 1e-2], "dropout": [0.2], "num_local_layers": [1]}
    given = {"backbone": "tiny", "max_samples": 8, "data": ["samples"], "num_runs": 2, "args": ["max_steps=1"]}
    run = plan(select("sam-5", rows=["sam"], tasks=["trec"], **given), folder / "runs")[0]
    run.task.search = grid
    options, found = best_setting(run, ["max_steps"])
    assert {"freeze_backbone=true", "dropout=0.2"} <= {*options["local_config"]}, "the row's own fields stay"
    assert options["learning_rate"] in grid["learning_rate"]
    assert (found["row"], found["task"], len(found["tried"]), found["failed"]) == ("sam", "trec", 2, [])
    assert found["best"].keys() == {"learning_rate", "dropout"}, "the row has no local layers"
    assert len(list((folder / "runs").glob("search-run_glue-*/trials/search.json"))) == 1
    assert best_setting(run, ["learning_rate", "dropout"]) == ({}, None)
    run = plan(select("sla-1", rows=["wla"], tasks=["cola"], parser="tiny", **given), folder / "runs")[0]
    assert used_fields(run) >= {"window_size", "local_attention"}
    assert "syntax_threshold" not in used_fields(run), "the window has no effect on it"


def test_a_dry_run_shows_the_plan_and_what_is_missing(tmp_path, capsys):
    assert reproduce(tmp_path / "none", "cool-4", "--num-runs", "1", "--dry-run") is None
    printed = capsys.readouterr().out
    assert printed.count("python run_qa.py") == 5
    assert "5 of 5 runs are left." in printed
    with pytest.raises(SystemExit):
        main(["sla-1", *TINY[:2], *TINY[4:], "--tasks", "cola", "--dry-run", "-o", str(tmp_path / "none")])
    captured = capsys.readouterr()
    assert "python run_glue.py" in captured.out
    assert re.search("error: lisa, cola: .*spaCy", captured.err)
    assert not (tmp_path / "none").exists()


def test_without_a_table_all_are_listed(capsys):
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == table_names()
    assert any(line.strip() == "tasks (corpora): squad_v2 (squad_v2)" for line in lines)


REFUSED = {
    "cool-10": "'cool-10'. .* cool-1, cool-2",
    "cool-4 --rows berta": "'berta'. It has bert, ",
    "sla-1 --rows bert": "CoNLL-2003.*FCE",
    "cool-8": "Malay SQuAD 2.0 .* https://",
    "cool-4 --data squad_v2=nowhere": "--data squad_v2=.*nowhere: .* folder",
    "cool-4 --data squad_v2=.": "--data squad_v2=.* lacks the train data.* train-v2.0",
    "cool-4 TINY --test-corpora BA": "--test-corpora: .*'BA'",
    "cool-4 --data squad": "--data squad: ",
    "cool-4 --data squid=here": "'squid'. cool-4 reads squad_v2",
    "cool-4 TINY --args learning_rat=1": "option learning_rat\\.",
    "cool-4 TINY --args seed=5": "--args seed: .*--num-runs",
    "cool-4 TINY --args train_file=x": "--args train_file: .*--data",
    "sla-1 TINY --parser nowhere": "spaCy pipeline 'nowhere'",
    "cool-4 TINY --args max_steps=1.5": "max_steps is 1.5",
    "cool-4 TINY --num-runs 0": "--num-runs .* 0",
    "oa-2 TINY --num-runs 11": "--num-runs 11: bioscope_papers .* 10 folds",
    "cool-5 TINY --rows ernie-gen-beam-1": "quotes",
    "cool-4 TINY --checkpoints bert=folder": "--checkpoints: cool-4",
    "sla-figure-2 TINY --checkpoints sla=folder": "write ROW:TASK=FOLDER",
    "sla-figure-3 TINY --checkpoints bert=folder": "no row 'bert'",
    "sla-figure-3 TINY --checkpoints sla=folder": "folder",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_run_is_said_before_anything_is(words, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*words.replace("TINY", " ".join(TINY)).split(), "-o", str(tmp_path / "out")])
    assert re.search(REFUSED[words], capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow("every row of every table: minutes")
@pytest.mark.parametrize("table", table_names())
def test_every_table_runs(table, tmp_path):
    found = reproduce(tmp_path, table, "--num-runs", "2")
    assert found["runs"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Tiny models with new layers, and their tokenizers, by row."""
    root = tmp_path_factory.mktemp("checkpoints")
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone())
    parsing = SlaBertTokenizer.from_backbone(tokenizer)
    unparsed = SlaBertTokenizer.from_backbone(tokenizer, parser=None)
    models = {
        "bert": (AutoModelForQuestionAnswering.from_pretrained(tiny_backbone()), tokenizer),
        "sla": (SlaBertForSequenceClassification.from_backbone(tiny_backbone()), parsing),
        "wla": (SlaBertForTokenClassification.from_backbone(tiny_backbone(), local_attention="window"), unparsed),
        "sam": (SamRobertaForSequenceClassification.from_backbone(tiny_backbone()), tokenizer),
        "rba": (SamRobertaForSequenceClassification.from_backbone(tiny_backbone(), pooling="rba"), tokenizer),
    }
    for name, (model, its_tokenizer) in models.items():
        model.save_pretrained(root / name)
        its_tokenizer.save_pretrained(root / name)
    return root


OF_MODELS = {  # checkpoints by row, columns of the data, and its number of lines
    "cool-figure-4": (["bert=bert"], ["token", "source", "weight"], 37 * 37),
    "sla-figure-2": (["sla:sst2=sla", "wla:fce=wla", "wla:fce=wla"], ["panel", "title", "place", "value"], 6),
    "sla-figure-3": (["sla=sla", "sla=sla"], ["token", "source", "weight"], 0),
    "sam-figure-2": (["rba=rba", "sam=sam"], ["text", "row", "place", "token", "weight"], 0),
}


@pytest.mark.parametrize("figure", OF_MODELS)
def test_figures_of_checkpoints(figure, checkpoints, tmp_path):
    names, columns, count = OF_MODELS[figure]
    words = []
    for name in names:
        row, _, folder = name.partition("=")
        words.append(f"{row}={checkpoints / folder}")
    main([figure, *TINY[:8], "--checkpoints", *words, "-o", str(tmp_path)])
    assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    data = read_csv(tmp_path / f"{figure}.csv")
    assert {*columns} <= {*data.columns}
    assert len(data) == count or (count == 0 and len(data) > 0)
    assert not (tmp_path / "runs").exists(), "nothing is trained"
