"""`hf-localattn compare` on the files that scripts and tables leave; differences against SciPy."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from hf_localattn.cli import main
from hf_localattn.studies.compare import compare_runs, holm
from tests.qa_helpers import write_jsonl
from tests.script_helpers import load_main

SCORES = {"cool": (0.9, 0.95, 0.85), "plain": (0.6, 0.75, 0.7)}


def write_run(folder, accuracy, *, seed=0, data="40 rows, sha256 a"):
    """The output folder of a script."""
    folder.mkdir(parents=True)
    metrics = {"eval_accuracy": accuracy, "eval_loss": 0.5, "eval_runtime": 1.0, "train_loss": 0.1}
    (folder / "all_results.json").write_text(json.dumps(metrics))
    (folder / "run.json").write_text(json.dumps({"seed": seed, "validation data": data, "train data": f"{seed}"}))


@pytest.fixture
def seeds(tmp_path):
    """Two settings of three seeds."""
    for name, accuracies in SCORES.items():
        for seed, accuracy in enumerate(accuracies):
            write_run(tmp_path / f"{name}-{seed}", accuracy, seed=seed)
    return tmp_path


def compare(*words, folder):
    assert main(["compare", *map(str, words), "-o", str(folder / "out.json")]) == 0
    return json.loads((folder / "out.json").read_text())["scores"]


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_seeds(seeds, capsys):
    found = compare(f"{seeds}/cool-*", f"{seeds}/plain-*", folder=seeds)
    assert found.keys() == {"eval_accuracy"}, "no losses and times"
    own, expected = found["eval_accuracy"], stats.ttest_rel(*SCORES.values())
    assert own["p_value"] == own["corrected_p_value"] == pytest.approx(expected.pvalue)
    assert own["interval"] == pytest.approx(expected.confidence_interval())
    assert "| eval_accuracy (%) | 90.00 | 68.33 | +21.67 |" in capsys.readouterr().out


def test_folds(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [{"text": f"roses {i}", "label": "ab"[i % 2]} for i in range(12)])
    common = ["--family", "baseline", "--backbone", "tiny", "--train_file", str(tmp_path / "train.jsonl")]
    common += ["--num_folds", "2", "--max_steps", "2", "--max_seq_length", "16", "--use_cpu", "--save_strategy", "no"]
    for name, rate in {"a": "1e-2", "b": "1e-4"}.items():
        load_main("run_glue")([*common, "--learning_rate", rate, "--output_dir", str(tmp_path / name)])
    found = compare(tmp_path / "a", tmp_path / "b", folder=tmp_path)["predict_accuracy"]
    assert found["pairs"] == 2
    folds = tmp_path / "b" / "folds.json"
    change(folds, folds=json.loads(folds.read_text())["folds"][:1])
    with pytest.raises(SystemExit):
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b")])


def test_rows_of_a_table(tmp_path):
    runs = [
        {"row": row, "task": task, "run": seed + 1, "folds": None, "data": {}, "metrics": {"predict_f1": base + seed}}
        for row, base in (("x", 3.0), ("y", 1.0))
        for task in ("t", "u")
        for seed in (0, 1, 2)
    ]
    table = tmp_path / "cool-9.json"
    table.write_text(json.dumps({"runs": runs}))
    found = compare(f"{table}:x:t", f"{table}:y:t", folder=tmp_path)["predict_f1"]
    assert (found["difference"], found["pairs"]) == (2, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none", "plain-0"], "is no folder, no pattern of folders and no TABLE.json:ROW"),
        ([".", "plain-0"], "is not the output folder of a finished run"),
        (["cool-0", "plain-1"], "eval_accuracy: no run of both has the same seed"),
        (["cool-0", "plain-0", "--metric", "eval_f1"], "share the scores eval_accuracy: --metric"),
        (["cool-*", "again-*"], "several runs with seed 2"),
        (["cool-*", "other-0"], "the runs have other data (validation data): not compared"),
        (["cool-*", "nan-0"], "eval_accuracy: a score is NaN: not compared."),
        (["table.json:z", "plain-0"], "has no run of a row 'z'; its rows are x"),
        (["table.json:x", "plain-0"], "give one of the tasks of the row, t, u"),
    ],
)
def test_what_cannot_be_compared_is_one_line(seeds, words, message, capsys):
    for name in ("again-1", "again-2"):
        write_run(seeds / name, 0.9, seed=2)
    write_run(seeds / "other-0", 0.9, data="40 rows, sha256 b")
    write_run(seeds / "nan-0", None)
    (seeds / "table.json").write_text(json.dumps({"runs": [{"row": "x", "task": task} for task in "tu"]}))
    with pytest.raises(SystemExit) as ended:
        main(["compare", *(word if word.startswith(("--", "eval")) else f"{seeds}/{word}" for word in words)])
    assert ended.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


OWN, OTHER = {1: 81.0, 2: 83.0, 3: 82.5, 4: 84.0}, {1: 79.5, 2: 80.5, 3: 81.0, 4: 83.9}
DIFFERENCES = np.subtract([*OWN.values()], [*OTHER.values()])


def test_seeds_are_compared_by_a_paired_t_test():
    found, expected = compare_runs(OWN, OTHER), stats.ttest_rel([*OWN.values()], [*OTHER.values()])
    assert found.difference == pytest.approx(DIFFERENCES.mean())
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval()))
    assert (found.pairs, found.remark) == (4, None)


def test_folds_have_the_corrected_variance():
    found = compare_runs(OWN, OTHER, folds=4)
    t = DIFFERENCES.mean() / math.sqrt(DIFFERENCES.var(ddof=1) * (1 / 4 + 1 / 3))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(t), 3))
    assert found.p_value > compare_runs(OWN, OTHER).p_value


@pytest.mark.parametrize(
    ("own", "other", "difference", "remark"),
    [
        ({1: 1.0}, {1: 0.5}, 0.5, "one run: no interval"),
        ({1: 0.52, 2: 0.57, 3: 0.58}, {1: 0.50, 2: 0.55, 3: 0.56}, 0.02, "all differences are equal"),
        ({1: 1.0, 2: 3.0, 3: 9.0}, {1: 0.0, 2: 1.0, 4: 9.0}, 1.5, "run 3, 4 of only one of both is left out"),
        ({1: 1.0}, {2: 1.0}, None, "no run of both has the same seed"),
        ({1: 1.0}, {}, None, None),
        ({1: 1.0, 2: math.nan}, {1: 1.0, 2: 1.0}, None, "a score is NaN"),
    ],
)
def test_limits_are_told(own, other, difference, remark):
    found = compare_runs(own, other)
    assert found.difference == (None if difference is None else pytest.approx(difference))
    assert remark is None or remark in found.remark
    assert (found.interval is None) == (difference != 1.5)


def test_runs_on_other_data_are_not_compared():
    data = [{1: {"test data": digest, "train data": "x"}} for digest in ("a", "b")]
    assert compare_runs({1: 1.0}, {1: 2.0}, *data).remark == "the runs have other data (test data): not compared"
    assert compare_runs({1: 1.0}, {1: 2.0}, data[0], data[0]).difference == -1


def test_holm():
    assert holm([0.04, 0.01, None, 0.03, 0.9]) == [
        pytest.approx(x) if x else None for x in (0.09, 0.04, None, 0.09, 0.9)
    ]
