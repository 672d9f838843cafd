"""Lines on the differences that planned runs can detect."""

from types import SimpleNamespace

import pytest

from hf_localattn.cli import main
from hf_localattn.reproduction.plan import plan
from hf_localattn.reproduction.power import detectable
from hf_localattn.reproduction.request import Overrides, Selection
from hf_localattn.reproduction.tables import load_table
from hf_localattn.studies.statistics import detectable_difference


def lines(name, rows, task, scores, num_runs):
    """The lines for rows of a table whose baseline has finished runs with these scores."""
    table = load_table(name)
    given = Overrides(backbone="tiny", num_runs=num_runs, data={"": "samples"})
    runs = plan(Selection(table, [table.rows[row] for row in rows], [table.tasks[task]], given))
    metric = next(iter(table.tasks[task].scores.values())).metric

    def result_of(run):
        known = run.row.name == rows[0] and run.number in scores
        return {"metrics": {metric: scores[run.number]}} if known else None

    return list(detectable(runs, SimpleNamespace(result_of=result_of)))


def test_deviations_of_finished_runs_are_in_the_unit_of_the_score():
    (line,) = lines("sla-1", ["bert", "sla", "wla"], "cola", {1: 0.55, 2: 0.57, 3: float("nan")}, 5)
    expected = detectable_difference(2 / 2**0.5, 5)
    assert f"5 runs of each row detect a difference from bert of {expected:.2f} MCC (from 2 finished runs)" in line


@pytest.mark.parametrize("scores", [{}, {1: 0.5}, {1: 0.5, 2: 0.5}])
def test_without_a_deviation_it_is_the_unit(scores):
    (line,) = lines("sla-1", ["bert", "sla"], "cola", scores, 3)
    assert line.startswith("CoLA: 3 runs of each row detect a difference from bert of 4.62 of its deviations or more")


def test_folds_overlap():
    (line,) = lines("oa-2", ["baseline", "emb"], "sfu", {}, 10)
    assert f" of {detectable_difference(1, 10, overlap=1 / 9):.2f} of its deviations" in line


def test_one_run_and_rows_without_a_baseline(capsys):
    assert not lines("sla-1", ["bert"], "cola", {}, 5)
    options = ["--rows", "bert", "outlook", "--num-runs", "1", "--backbone", "tiny", "--data", "samples", "--dry-run"]
    assert main(["reproduce", "cool-4", *options]) == 0
    assert (
        "SQuAD 2.0: one run of each row shows no difference between rows; give --num-runs 3" in capsys.readouterr().out
    )
