"""`hf-localattn compare` on the files that scripts and tables leave."""

import json

import numpy as np
import pytest
from scipy import stats

from hf_localattn.cli import main
from hf_localattn.hub import TrainingRecord
from tests.qa_helpers import write_jsonl
from tests.script_helpers import load_main

ROWS = {"rows": 40, "digest": "sha256 a"}


def write_run(folder, accuracies, *, seed=0, data=ROWS):
    """The output folder of a script: right and wrong examples, and their mean."""
    folder.mkdir(parents=True)
    metrics = {"eval_accuracy": float(np.mean(accuracies)), "eval_loss": 0.5, "eval_runtime": 1.0, "train_loss": 0.1}
    (folder / "all_results.json").write_text(json.dumps(metrics))
    TrainingRecord("text-classification", seed=seed).save(folder)
    kept = {"data": data, "scores": {"accuracy": [int(one) for one in accuracies]}}
    (folder / "eval_example_scores.json").write_text(json.dumps(kept))
    return folder


@pytest.fixture
def seeds(tmp_path):
    """Two settings of three seeds."""
    rng = np.random.default_rng(0)
    for name, share in (("cool", 0.9), ("plain", 0.6)):
        for seed in range(3):
            write_run(tmp_path / f"{name}-{seed}", rng.random(40) < share, seed=seed)
    return tmp_path


def compare(*words, folder):
    assert main(["compare", *map(str, words), "-o", str(folder / "out.json")]) == 0
    return json.loads((folder / "out.json").read_text())["scores"]


def refused(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["compare", *map(str, words)])
    assert ended.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_seeds_and_examples(seeds, capsys):
    found = compare(f"{seeds}/cool-*", f"{seeds}/plain-*", folder=seeds)
    assert found.keys() == {"eval_accuracy"}, "no losses and times"
    own = found["eval_accuracy"]
    assert (own["pairs"], own["examples"]) == (3, 40)
    assert own["interval"][0] < own["difference"] < own["interval"][1]
    printed = capsys.readouterr().out
    assert "| eval_accuracy (%) | " in printed
    assert "the interval covers other seeds and other test examples (40 were kept)" in printed


def test_single_runs_are_compared_on_their_examples(seeds, capsys):
    found = compare(seeds / "cool-0", seeds / "plain-0", folder=seeds)["eval_accuracy"]
    kept = [json.loads((seeds / name / "eval_example_scores.json").read_text()) for name in ("cool-0", "plain-0")]
    expected = stats.ttest_rel(*(one["scores"]["accuracy"] for one in kept))
    assert found["p_value"] == pytest.approx(expected.pvalue)
    assert "but no other seeds" in capsys.readouterr().out


def test_one_run_without_examples_has_no_interval(seeds):
    (seeds / "cool-0" / "eval_example_scores.json").unlink()
    found = compare(seeds / "cool-0", seeds / "plain-0", folder=seeds)["eval_accuracy"]
    assert found["interval"] is found["p_value"] is None
    assert found["remark"] == "one run: no interval"


def test_folds_are_corrected(tmp_path, capsys):
    rows = [{"text": f"{'white' if i % 2 else 'red'} roses {i}", "label": "ab"[i % 2]} for i in range(12)]
    write_jsonl(tmp_path / "train.jsonl", rows)
    for name, rate in {"a": "1e-2", "b": "1e-4"}.items():
        load_main("run_glue")(
            [
                *("--family", "baseline", "--backbone", "tiny", "--train_file", str(tmp_path / "train.jsonl")),
                *(
                    "--num_folds",
                    "4",
                    "--max_steps",
                    "3",
                    "--max_seq_length",
                    "16",
                    "--use_cpu",
                    "--save_strategy",
                    "no",
                ),
                *(
                    "--learning_rate",
                    rate,
                    "--use_cpu",
                    "--save_strategy",
                    "no",
                    "--disable_tqdm",
                    "true",
                    "--output_dir",
                    str(tmp_path / name),
                ),
            ]
        )
    found = compare(tmp_path / "a", tmp_path / "b", folder=tmp_path)["predict_accuracy"]
    folds = {name: json.loads((tmp_path / name / "folds.json").read_text()) for name in "ab"}
    scores = {name: [fold["predict_accuracy"] for fold in own["folds"]] for name, own in folds.items()}
    differences = np.subtract(scores["a"], scores["b"])
    t = differences.mean() / np.sqrt(differences.var(ddof=1) * (1 / 4 + 1 / 3))
    assert found["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), 3))
    unfinished = folds["b"] | {"folds": folds["b"]["folds"][:3]}
    (tmp_path / "b" / "folds.json").write_text(json.dumps(unfinished))
    refused([tmp_path / "a", tmp_path / "b"], "folds.json has 3 of 4 folds", capsys)


def test_rows_of_a_table(tmp_path, capsys):
    runs = [
        {"row": row, "task": task, "run": seed + 1, "seed": seed, "fold": None, "data": {"test": ROWS}}
        | {"metrics": {"predict_f1": base + seed}}
        for row, base in (("x", 3.0), ("y", 1.0))
        for task in ("t", "u")
        for seed in (0, 1, 2)
    ]
    table = tmp_path / "cool-9.json"
    table.write_text(json.dumps({"runs": runs}))
    found = compare(f"{table}:x:t", f"{table}:y:t", folder=tmp_path)["predict_f1"]
    assert found["difference"] == 2
    assert found["remark"] == "all differences are equal: no interval"
    refused([f"{table}:x", f"{table}:y"], "give one of the tasks of the row, t, u", capsys)
    refused([f"{table}:z", f"{table}:y"], "has no run of a row 'z'; its rows are x, y", capsys)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"eval_accuracy": None}, "eval_accuracy: the score of run 1 is NaN: not compared."),
        ({"other": 1, "eval_loss": None}, None),
    ],
)
def test_nan_is_told(seeds, capsys, spoil, message):
    change(seeds / "cool-1" / "all_results.json", **spoil)
    if message is None:
        compare(f"{seeds}/cool-*", f"{seeds}/plain-*", folder=seeds)
    else:
        refused([f"{seeds}/cool-*", f"{seeds}/plain-*"], message, capsys)


def test_other_data_is_told(seeds, capsys):
    change(seeds / "cool-1" / "eval_example_scores.json", data={**ROWS, "digest": "sha256 b"})
    refused([f"{seeds}/cool-*", f"{seeds}/plain-*"], "the runs have other data (validation): not compared", capsys)


def test_unpaired_runs_are_told(seeds, capsys):
    refused([seeds / "cool-0", seeds / "plain-1"], "has the seeds 0, and ", capsys)
    found = compare(f"{seeds}/cool-*", f"{seeds}/plain-[01]", folder=seeds)["eval_accuracy"]
    assert found["pairs"] == 2
    assert "run 2 of only one row is left out" in found["remark"]


def test_examples_of_another_run_are_not_used(seeds):
    change(seeds / "cool-0" / "all_results.json", eval_accuracy=0.123)
    found = compare(seeds / "cool-0", seeds / "plain-0", folder=seeds)["eval_accuracy"]
    assert "another mean than the metric: not used" in found["remark"]
    assert found["examples"] == 0


def test_wrong_names(seeds, capsys):
    refused([seeds / "none", seeds / "plain-0"], "is no folder, no pattern of folders and no TABLE.json:ROW", capsys)
    refused([seeds, seeds / "plain-0"], "has no all_results.json", capsys)
    refused([seeds / "cool-0", seeds / "plain-0", "--metric", "eval_f1"], "They share eval_accuracy.", capsys)
    write_run(seeds / "cool-9", [True] * 40, seed=2)
    refused([f"{seeds}/cool-*", f"{seeds}/plain-*"], "several runs with seed 2", capsys)
