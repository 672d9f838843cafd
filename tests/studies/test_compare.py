"""`hf-localattn compare` on the files that scripts and tables leave; differences against SciPy."""

import csv
import json
import math

import numpy as np
import pytest
from scipy import stats

from hf_localattn.cli import main
from hf_localattn.files import UNFINISHED, atomic_write
from hf_localattn.studies.compare import compare_runs, correct, holm
from hf_localattn.studies.results import load_result, overlap_of_folds
from tests.script_helpers import ROOT

SCORES = {"cool": (0.9, 0.95, 0.85), "plain": (0.6, 0.75, 0.7)}
DIFFERENCES = np.subtract(*SCORES.values())


def write_run(folder, accuracy, *, seed=0, data="40 rows, sha256 a"):
    """The output folder of a script."""
    metrics = {"eval_accuracy": accuracy, "eval_loss": 0.5, "eval_runtime": 1.0, "train_loss": 0.1}
    atomic_write(folder / "all_results.json", json.dumps(metrics))
    atomic_write(folder / "run.json", json.dumps({"seed": seed, "validation data": data, "train data": f"{seed}"}))


@pytest.fixture
def runs(tmp_path):
    """Two settings of three seeds and of three folds, with runs that do not fit, and a table."""
    for name, accuracies in SCORES.items():
        for number, accuracy in enumerate(accuracies):
            write_run(tmp_path / f"{name}-{number}", accuracy, seed=number)
            write_run(tmp_path / f"folds-{name}" / f"fold-{number + 1}", accuracy, seed=number)
        atomic_write(tmp_path / f"seeds-{name}" / "seeds.json", json.dumps({"seeds": {"0": {}, "1": {}, "2": None}}))
        for seed in (0, 1):
            write_run(tmp_path / f"seeds-{name}" / f"seed-{seed}", accuracies[seed], seed=seed)
    for name in ("again-1", "again-2"):
        write_run(tmp_path / name, 0.9, seed=2)
    write_run(tmp_path / "other-0", 0.9, data="40 rows, sha256 b")
    write_run(tmp_path / "nan-0", None)
    for name in ("folds-cool", "folds-plain", "unfinished"):
        atomic_write(tmp_path / name / "folds.json", json.dumps({"settings": {"num_folds": 3}}))
    rows = [
        {"row": row, "task": task, "run": seed, "metrics": {"predict_f1": base + seed}, "folds": None, "data": {}}
        for row, base, tasks in (("x", 3.0, "tu"), ("y", 1.0, "t"))
        for task in tasks
        for seed in (1, 2, 3)
    ]
    (tmp_path / "table.json").write_text(json.dumps({"runs": rows}))
    return tmp_path


def compare(folder, *words):
    assert main(["compare", *(f"{folder}/{word}" for word in words), "-o", str(folder / "out.json")]) == 0
    return json.loads((folder / "out.json").read_text())["scores"]


def test_seeds_are_compared_by_a_paired_t_test(runs, capsys):
    found = compare(runs, "cool-*", "plain-*")
    assert found.keys() == {"eval_accuracy"}, "no losses and times"
    own, expected = found["eval_accuracy"], stats.ttest_rel(*SCORES.values())
    assert own["p_value"] == own["corrected_p_value"] == pytest.approx(expected.pvalue)
    assert own["interval"] == pytest.approx(expected.confidence_interval())
    assert (own["pairs"], own["remark"]) == (3, None)
    assert "| eval_accuracy (%) | 90.00 | 68.33 | +21.67 |" in capsys.readouterr().out


def test_folds_have_the_corrected_variance(runs):
    own = compare(runs, "folds-cool", "folds-plain")["eval_accuracy"]
    t = DIFFERENCES.mean() / math.sqrt(
        DIFFERENCES.var(ddof=1) * (1 / 3 + 1)
    )  # a third for tests, a third for training
    assert own["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), 2))


def test_an_unfinished_seed_is_left_out_with_a_word(runs, capsys):
    found = compare(runs, "seeds-cool", "seeds-plain")["eval_accuracy"]
    assert found["pairs"] == 2
    assert capsys.readouterr().out.count("seed-2 is not finished") == 2
    atomic_write(runs / "cool-2" / UNFINISHED, "")
    assert compare(runs, "cool-*", "plain-*")["eval_accuracy"]["pairs"] == 2
    out = capsys.readouterr().out
    assert "cool-2 is not finished" in out
    row = next(line for line in out.splitlines() if "eval_accuracy (%)" in line)
    mean, other, difference = map(float, row.split("|")[2:5])
    assert mean - other == pytest.approx(difference, abs=0.02)


def test_the_effect_size_is_in_deviations_of_a_run(runs):
    found = compare(runs, "cool-*", "plain-*")["eval_accuracy"]
    deviation = math.sqrt(np.mean([np.var(scores, ddof=1) for scores in SCORES.values()]))
    assert found["effect_size"] == pytest.approx(DIFFERENCES.mean() / deviation)


def test_a_comparison_as_latex_csv_and_plots(runs):
    def write(name):
        output = runs / name
        assert main(["compare", f"{runs}/cool-*", f"{runs}/plain-*", "-o", str(output)]) == 0
        return output.read_bytes()

    assert rb"eval\_accuracy (\%) & 90.00 & 68.33 & $+21.67$ & $[+2.69, +40.64]$ &" in write("x.tex")
    (row,) = csv.DictReader(write("x.csv").decode().splitlines())
    assert (row["score"], row["pairs"]) == ("eval_accuracy", "3")
    assert float(row["difference"]) == pytest.approx(DIFFERENCES.mean())
    for name, beginning in (("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.pdf", b"%PDF")):
        assert write(name).startswith(beginning)


PUBLISHED = {
    "cool-study-1": "eval_f1",
    "oa-study-1": "eval_starsem_scope_tokens_f1",
    "sam-study-1": "predict_accuracy",
    "sla-study-1": "predict_f1",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_intervals_of_the_studies_are_those_of_compare(name):
    path = ROOT / "docs" / "studies" / "results" / f"{name}.json"
    cells = [cell for cell in json.loads(path.read_text())["scores"] if cell["interval"]]
    assert cells
    for cell in cells:
        results = [load_result(f"{path}:{cell[row]}:{cell['task']}") for row in ("row", "baseline")]
        first, second = (result.scores(PUBLISHED[name]) for result in results)
        found = compare_runs(first, second, *(result.data for result in results), overlap=results[0].overlap)
        scale = cell["against_baseline"] / found.difference
        low, high = cell["interval"]
        assert low <= scale * found.interval[0] + 1e-9, "that of the table is corrected for its comparisons"
        assert scale * found.interval[1] <= high + 1e-9
        assert (low > 0 or high < 0) == (cell["corrected_p_value"] < 0.05)


def test_rows_of_a_table(runs):
    found = compare(runs, "table.json:x:t", "table.json:y")["predict_f1"]
    assert (found["difference"], found["pairs"]) == (2, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none", "plain-0"], "none is no folder"),
        ([".", "plain-0"], "is not the output folder of a finished run"),
        (["seeds-*", "plain-*"], "seeds-cool has several runs"),
        (["cool-*", "plain-*", "-o", "out.gif"], "-o out.gif"),
        (["unfinished", "folds-cool"], "fold-1 is not the output folder of a finished run"),
        (["folds-cool", "plain-*"], "3 folds and seeds"),
        (["cool-0", "plain-1"], "eval_accuracy: no run of both"),
        (["cool-0", "plain-0", "--metric", "eval_f1"], "eval_accuracy: --metric"),
        (["cool-*", "again-*"], "several runs with seed 2"),
        (["cool-*", "other-0"], "other data (validation data)"),
        (["cool-*", "nan-0"], "eval_accuracy: a score is NaN"),
        (["table.json:z", "plain-0"], "x:t, x:u, y:t"),
        (["table.json:x", "plain-0"], "x:t, x:u, y:t"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_compared_is_one_line(runs, words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *(word if word.startswith(("-", "eval", "out")) else f"{runs}/{word}" for word in words)])
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


@pytest.mark.parametrize(
    ("own", "other", "difference", "remark"),
    [
        ({1: 1.0}, {1: 0.5}, 0.5, "one run"),
        ({1: 0.52, 2: 0.57, 3: 0.58}, {1: 0.50, 2: 0.55, 3: 0.56}, 0.02, "all differences are equal"),
        ({1: 1.0, 2: 3.0, 3: 9.0}, {1: 0.0, 2: 1.0, 4: 9.0}, 1.5, "only one side has run 3, 4"),
        ({1: 1.0}, {}, None, None),
    ],
    ids=["one-run", "equal", "unpaired", "nothing"],
)
def test_limits_are_told(own, other, difference, remark):
    found = compare_runs(own, other)
    assert found.difference == (None if difference is None else pytest.approx(difference))
    assert remark is None or remark in found.remark
    assert (found.interval is None) == (difference != 1.5)


def test_holm():
    assert holm([0.04, 0.01, None, 0.03, 0.9]) == pytest.approx([0.09, 0.04, None, 0.09, 0.9])


@pytest.mark.parametrize(
    ("count", "given", "overlap"),
    [
        (5, {"test_file": "t.csv"}, 1 / 4),
        (5, {}, 1 / 3),
        (2, {}, 2),
        (5, {"test_file": "t", "validation_file": "v"}, 0),
    ],
)
def test_the_overlap_of_folds_is_that_of_their_layout(count, given, overlap):
    assert overlap_of_folds(count, given) == pytest.approx(overlap)


def test_an_interval_has_the_level_of_its_corrected_p_value():
    spreads = ([2.0, 2.5, 3.0, 2.2], [1.0, 0.2, 1.5, 0.6], [0.9, -0.2, 1.5, 0.3], [0.1, -0.2, 0.3, -0.1])
    comparisons = [compare_runs(dict(enumerate(values)), dict.fromkeys(range(4), 0.0)) for values in spreads]
    alone = [comparison.interval for comparison in comparisons]
    correct(comparisons)
    corrected = [comparison.corrected_p_value for comparison in comparisons]
    assert corrected == holm([comparison.p_value for comparison in comparisons])
    for comparison, (low, _) in zip(comparisons, alone, strict=True):
        assert comparison.interval[0] <= low + 1e-9
        excludes_zero = comparison.interval[0] > 0 or comparison.interval[1] < 0
        assert excludes_zero == (comparison.corrected_p_value < 0.05)
    assert [value < 0.05 for value in corrected] == [True, False, False, False]
    assert alone[1][0] > -0.2, "before the correction it was narrower"
