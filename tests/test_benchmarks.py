"""The benchmarks measure right, and compare results before a speed counts. Speed itself is never tested."""

import argparse
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from benchmarks import __main__ as runner
from benchmarks import negation, serving
from benchmarks.measure import measure, peak_bytes
from benchmarks.negation import TRAPS, Trap, evaluate, is_negated, read_traps, scores
from benchmarks.negation_agreement import compare
from benchmarks.registry import CASES, TINY, Case
from hf_localattn.models.negation_finder import Finding
from hf_localattn.models.negation_labels import FoundCue
from scripts import costs
from tests.qa_helpers import write_jsonl
from tests.serving.test_export import COPIED, checkpoint_of
from tests.tiny_parser import tiny_parser

CPU = torch.device("cpu")


def allocate(floats):
    kept = torch.empty(floats)
    torch.empty(2 * floats)
    return kept.add_(1)


def test_ratios_are_to_the_first_variant_and_a_peak_counts_what_is_held_at_once():
    assert peak_bytes(lambda: allocate(1000), CPU) == pytest.approx(3 * 4000, rel=0.05)
    results = measure({"peer": partial(allocate, 1000), "double": partial(allocate, 2000)}, CPU, repeats=2)
    assert results["peer"]["time_ratio"] == results["peer"]["memory_ratio"] == 1.0
    assert results["double"]["memory_ratio"] == pytest.approx(2.0, rel=0.05)
    assert all(len(result["seconds"]) == 2 for result in results.values())


def test_results_are_written_with_their_environment_unless_they_are_wrong(tmp_path, monkeypatch, capsys):
    variants = {"peer": partial(allocate, 10)}
    bounds = {"sums": 1e-9, "memory": 1e-10}
    mini = Case("mini", "a mini case", lambda device, scale: variants, {"peer": 1.0}, bounds=lambda device: bounds)
    wrong = Case("wrong", "a wrong case", lambda *_: pytest.fail("measured"), check=Mock(side_effect=AssertionError))
    monkeypatch.setattr(runner, "CASES", {"mini": mini, "wrong": wrong})
    settings = ["--device", "cpu", "--repeats", "1", "--threads", "1", "--output", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["benchmarks", *settings])
    with pytest.raises(SystemExit, match="wrong results: wrong"):
        runner.main()
    printed = capsys.readouterr().out
    assert "mini: a mini case" in printed
    assert "at least 0.0000 seconds for sums" in printed
    assert "wrong: not measured" in printed
    (path,) = tmp_path.iterdir()
    assert path.name == "mini--cpu-1-threads.json"
    result = json.loads(path.read_text())
    assert {"torch", "transformers", "device", "threads", "date"} <= result["environment"].keys()
    measured = result["variants"]["peer"]
    assert measured["share_of_bound"] == pytest.approx(1e-9 / min(measured["seconds"]), abs=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_each_case_runs_at_a_tiny_size(name, monkeypatch):
    monkeypatch.setenv("PARSER", str(tiny_parser()))
    steps = CASES[name].variants(CPU, TINY)
    assert CASES[name].time_targets.keys() | CASES[name].memory_targets.keys() <= steps.keys()
    for step in steps.values():
        step()


def test_committed_results_belong_to_a_case_and_are_in_a_table():
    blocks = [costs.BLOCK.finditer(page.read_text(encoding="utf-8")) for page in costs.PAGES]
    shown = {name for page in blocks for block in page for name in block[2].split()}
    for path in runner.RESULTS.glob("*.json"):
        case, variants = CASES[path.stem.partition("--")[0]], json.loads(path.read_text())["variants"]
        assert case.time_targets.keys() | case.memory_targets.keys() <= variants.keys()
        assert case.name in shown


@pytest.mark.parametrize("page", costs.PAGES, ids=lambda page: page.stem)
def test_the_tables_of_costs_are_written_from_their_files(page):
    """To correct a failure, run `python -m scripts.costs`."""
    text = page.read_text(encoding="utf-8")
    assert costs.render(text) == text
    with pytest.raises(FileNotFoundError, match="no-case"):
        costs.render("<!-- written by scripts/costs.py: no-case -->\n<!-- end -->\n")


def test_no_speed_of_a_graph_is_reported_if_scores_differ(monkeypatch):
    scores = [SimpleNamespace(scores={"accuracy": value}) for value in (0.9, 0.8, 0.9, 0.9)]
    monkeypatch.setattr(serving, "score_validation", Mock(side_effect=scores))
    monkeypatch.setattr(serving, "times_of", lambda *_: pytest.fail("a speed was measured"))
    monkeypatch.setattr(serving.OnnxModel, "from_pretrained", Mock())
    run = SimpleNamespace(model=torch.nn.Identity())
    folders = dict.fromkeys((serving.FP32, *serving.QUANTIZED), Path())
    with pytest.raises(ValueError, match="accuracy"):
        serving.compare(run, folders, argparse.Namespace(tolerance=1e-3, batch_size=1))


@pytest.mark.slow(reason="an export takes ten seconds and more, and a compilation, too")
@COPIED
def test_a_result_has_all_forms_of_a_checkpoint(tmp_path, monkeypatch):
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path, id2label={0: "no", 1: "yes"})
    rows = [{"text": f"Mira is {word} the baker.", "label": label} for word, label in (("not", "no"), ("now", "yes"))]
    path = write_jsonl(tmp_path / "rows.jsonl", rows * 4)
    words = f"serving {checkpoint} text-classification --validation_file {path} --text_column_names text"
    words += f" --label_column_name label --batches 1 --batch_size 4 --repeats 1 --result {tmp_path}/result.json"
    monkeypatch.setattr("sys.argv", words.split())
    serving.main()
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["metric"], result["rows"], result["name"]) == ("accuracy", 8, "head")
    assert list(result["variants"]) == [serving.PEER, "torch.compile", serving.FP32, *serving.QUANTIZED]
    assert result["variants"][serving.FP32]["scores"] == result["variants"][serving.PEER]["scores"]
    for name in serving.QUANTIZED:
        assert result["variants"][name]["megabytes"] < result["variants"][serving.FP32]["megabytes"]


def test_rows_are_well_formed():
    traps = read_traps()
    assert len(traps) == len({row.id for row in traps}) == len({row.text for row in traps}) == 200
    assert all(row.target == row.text[row.start : row.end].strip() != "" for row in traps)
    assert all(row.id.rpartition("-")[0] == row.category for row in traps)
    assert Counter(row.domain for row in traps).keys() == {"clinical", "general"}
    findings = read_traps(TRAPS.with_name("negation_clinical.jsonl"))
    assert len(findings) == len({row.id for row in findings}) == 122
    assert all(row.target == row.text[row.start : row.end] for row in findings)


def cue(text, part, *scope, kind="negation", type="single"):
    spans = [{"text": one, "start": text.index(one), "end": text.index(one) + len(one)} for one in (part, *scope)]
    return {"cue": spans[:1], "kind": kind, "type": type, "scope": spans[1:]}


FOX, COUGH, SNAKE = "He saw no red fox, but a wolf.", "an infrequent cough", "a harmless snake"
FOUND = [cue(FOX, "no", "red"), cue(FOX, "but", "wolf", kind="speculation")]


@pytest.mark.parametrize(
    ("text", "found", "target", "expected"),
    [
        (FOX, FOUND, "red fox", True),  # 3 of 6 characters
        (FOX, FOUND, "saw no red fox", False),
        (FOX, FOUND, "wolf", False),
        (FOX, [], "red fox", False),
        (COUGH, [cue(COUGH, "in", type="affix")], "frequent", True),
        (COUGH, [cue(COUGH, "in", type="affix")], "cough", False),
        (SNAKE, [cue(SNAKE, "less", type="affix")], "harm", True),
        (SNAKE, [cue(SNAKE, "less", type="affix")], "snake", False),
    ],
)
def test_half_of_the_target_in_a_scope_or_beside_an_affix_negates_it(text, found, target, expected):
    assert is_negated(Trap("x-1", "x", "general", text, target, text.index(target), True), found) == expected


def test_differences_of_model_and_graph():
    first, last = (FoundCue("negation", "single", (place,)) for place in (0, 2))
    whole, short = Finding(first, 0.9, [False, True, True], 0.8), Finding(first, 0.8, [False, True, False], 0.8)
    counts = compare([[whole], [whole], [whole]], [[whole], [short], [whole, Finding(last, 0.9, [True] * 3, 0.9)]])
    assert (counts["sentences"], counts["sentences that differ"], counts["cues of both"]) == (3, 2, 3)
    assert (counts["cues of the graph alone"], counts["cues of the model alone"]) == (1, 0)
    assert (counts["scopes that differ"], counts["words that differ"], counts["words in scopes"]) == (1, 1, 6)


def test_scores_of_few_rows():
    result = scores([True, True, False], [True, False, False])
    assert (result["count"], result["negated"]) == (3, 2)
    values = {name: result[name]["value"] for name in negation.MEASURES}
    assert values == {"accuracy": 0.6667, "precision": 1.0, "recall": 0.5, "f1": 0.6667}
    assert (result["accuracy"]["interval"], result["precision"]["interval"]) == ([0.0, 1.0], [1.0, 1.0])
    result = scores([True, False], [False, False])
    assert result["precision"] == {"value": None, "interval": None}, "nothing is positive"
    assert result["f1"]["value"] == result["recall"]["value"] == 0.0
    result = evaluate(lambda rows: [True] * len(rows), read_traps())
    assert (result["all"]["recall"]["value"], len(result["wrong"])) == (1.0, 200 - result["all"]["negated"])


def test_results_without_negspacy(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "negspacy", None)

    def perfect(name, convention, rows):
        return [row.negated for row in rows]

    monkeypatch.setattr(negation, "checkpoint_predictions", perfect)
    monkeypatch.setattr("sys.argv", ["negation", "perfect", "--output", str(tmp_path / "result.json")])
    negation.main()
    systems = json.loads((tmp_path / "result.json").read_text())["systems"]
    assert systems["perfect, stories"]["all"]["f1"] == {"value": 1.0, "interval": [1.0, 1.0]}
    assert "negspacy" in systems["negspacy en"]["skipped"]
    assert "negspacy en_clinical: skipped" in capsys.readouterr().out
