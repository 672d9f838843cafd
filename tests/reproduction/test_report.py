"""Statistics of a table, with runs made by hand. The pages of results are what their files say."""

import json
import math
import re
import shlex
import statistics

import pytest

from reproduction.__main__ import parser
from reproduction.figures import figure_of
from reproduction.report import as_markdown, summarize
from reproduction.tables import Figure, load_table
from scripts.results import DOCS, PAGES, render

TABLE = load_table("sam-5")
CURVES = load_table("cool-study-1")
ROBERTA = [(0.80, 2.0), (0.82, 2.1), (0.84, 2.2)]
SAM = [(0.90, 3.0), (0.93, 3.9), (0.91, 3.1)]


def records(scores):
    """Records of runs, from metrics of each run by row and task."""
    return {key: {n: {"metrics": own, "data": {}} for n, own in enumerate(runs, 1)} for key, runs in scores.items()}


def cells(roberta, sam, data=()):
    """Cells of two rows, from their accuracies and times of an epoch, and the data of each run."""
    names = ("predict_accuracy", "train_seconds_per_epoch")
    rows = {"roberta": roberta, "sam": sam}
    found = records({(row, "trec"): [dict(zip(names, one, strict=True)) for one in own] for row, own in rows.items()})
    for row, number in data:
        found[row, "trec"][number]["data"] = {"test": row}
    summary = summarize(TABLE, [TABLE.rows[row] for row in rows], [TABLE.tasks["trec"]], found)
    return {(cell["row"], cell["score"]): cell for cell in summary}


def markdown(*shown, **more):
    found = {"title": "Title", "source": "Source", "table": "t-1", "scores": shown, "corpora": {}, "runs": []}
    return as_markdown(found | {"notes": ["A note."], "searches": [], "command": "python -m reproduction t-1"} | more)


def test_means_deviations_and_differences():
    found = cells(ROBERTA, SAM)
    sam, time = found["sam", "Acc."], found["sam", "T (ratio)"]
    assert sam["measured"] == pytest.approx(statistics.fmean([90, 93, 91]))
    assert sam["deviation"] == pytest.approx(statistics.stdev([90, 93, 91]))
    assert (sam["published"], sam["pairs"], sam["runs"]) == (93.4, 3, 3)
    assert sam["difference"] == pytest.approx(sam["measured"] - 93.4)
    assert (found["roberta", "Acc."]["baseline"], sam["baseline"]) == (None, "roberta")
    differences = [10, 11, 7]
    assert sam["against_baseline"] == pytest.approx(statistics.fmean(differences))
    # Three of five folds; Student's distribution with two degrees of freedom, in closed form.
    t = statistics.fmean(differences) / (statistics.stdev(differences) * math.sqrt(1 / 3 + 1 / 4))
    assert sam["p_value"] == pytest.approx(1 - t / math.sqrt(t * t + 2))
    assert sam["interval"][0] < sam["against_baseline"] < sam["interval"][1]
    assert sam["corrected_p_value"] == pytest.approx(2 * sam["p_value"]), "two comparisons"
    assert time["measured"] == pytest.approx(statistics.fmean([3.0, 3.9, 3.1]) / 2.1), "a ratio to the baseline"
    assert (time["published"], found["roberta", "T (ratio)"]["measured"]) == (pytest.approx(11 / 8), 1)
    assert time["corrected_p_value"] == pytest.approx(max(time["p_value"], 2 * sam["p_value"]))


def test_runs_on_other_data_and_nan_are_not_compared():
    cell = cells(ROBERTA, SAM, data=[("roberta", 2), ("sam", 2)])["sam", "Acc."]
    assert (cell["against_baseline"], cell["remark"]) == (None, "the runs have other data (test): not compared")
    found = cells([(0.8, None), (0.8, None)], [(None, 1.0), (0.8, 1.0)])  # NaN in JSON
    cell = found["sam", "Acc."]
    assert (cell["measured"], cell["runs"], cell["against_baseline"]) == (80, 1, None)
    assert cell["remark"] == "a score is NaN: not compared"
    assert (found["sam", "T (ratio)"]["measured"], found["roberta", "T (ratio)"]["published"]) == (None, 1)


def test_a_table_for_people():
    cell = {"row": "a", "row_title": "A | B", "task": "t", "task_title": "T", "score": "F1", "published": 1.0}
    cell |= {"measured": 2.5, "deviation": 0.25, "difference": 1.5, "baseline": "c", "baseline_title": "C", "pairs": 5}
    cell |= {"against_baseline": -0.5, "corrected_p_value": 0.0246, "interval": [-0.8, -0.2], "remark": "a remark"}
    search = {"row": "a", "task": "t", "best": {"dropout": 0.2}, "metric": "f1", "score": 0.5}
    search |= {"tried": [{}, {}, {}], "failed": [{}]}
    runs = [{"versions": {"torch": number}, "device": "CPU"} for number in ("2.1", "2.2", "2.2")]
    unmeasured = {**cell, "score": "T", "measured": None, "difference": None, "remark": None}
    quoted = {**unmeasured, "row": "q", "row_title": "Q"}
    lines = markdown(cell, unmeasured, quoted, searches=[search], runs=runs).splitlines()
    assert [line.split(" | ")[1] for line in lines if line.startswith(("| A / B", "| Q"))] == ["F1", "T"]
    assert "| A / B | F1 | 1.00 | 2.50 ± 0.25 | +1.50 | -0.50 | [-0.80, -0.20] | 0.025 (5) |" in lines
    searched = "* Searched for a, t, with the first seed: 4 settings, of which 1 failed; the best is dropout 0.2,"
    known = {f"{searched} with f1 0.5000.", "* A | B (T, F1): a remark.", "* A note.", "python -m reproduction t-1"}
    assert known | {"* 1 run: torch 2.1, on CPU.", "* 2 runs: torch 2.2, on CPU."} <= {*lines}
    other = {**cell, "row": "d", "row_title": "D", "baseline": "e", "baseline_title": "E", "corrected_p_value": None}
    lines = markdown(cell, other).splitlines()
    assert any(line.endswith("| [-0.80, -0.20] | - (5) |") for line in lines)
    assert {"* The baseline of A | B is C.", "* The baseline of D is E."} <= {*lines}


def test_a_study_has_a_curve_and_no_columns_of_published_numbers():
    rows, tasks = [CURVES.rows["bert"], CURVES.rows["cool"]], [CURVES.tasks["q250"], CURVES.tasks["q500"]]
    scores = {("bert", "q250"): (21, 22), ("bert", "q500"): (31, 32), ("cool", "q250"): (26.2, 27.4)}
    scores["cool", "q500"] = (37.2, 38.4)
    runs = records({key: [{"eval_f1": score} for score in own] for key, own in scores.items()})
    text = markdown(*summarize(CURVES, rows, tasks, runs))
    assert "| row | task | score | measured | against encoder | 95 % interval | corrected p (n) |" in text
    assert "| COOL | 250 questions | F1 | 26.80 ± 0.85 | +5.30 | [+4.03, +6.57] | " in text
    [axes] = figure_of(CURVES, runs).axes
    assert [line.get_label() for line in axes.containers] == ["encoder", "COOL"]
    assert len(axes.collections) == 2, "deviations of each series"
    assert axes.containers[0].lines[0].get_xydata().tolist() == [[250, 21.5], [500, 31.5]]


def test_curves_have_points_of_rows_with_deviations_and_levels():
    table = load_table("sam-figure-3")
    figure, score = table.figure, table.tasks["trec"].scores[table.figure.score]
    rows, level = next(iter(figure.series.values()))[:2], next(iter(figure.levels.values()))
    both = [{score.metric: 0.1}, {score.metric: 0.3}]
    axes = figure_of(table, records({(row, "trec"): both for row in (*rows, level)})).axes[0]
    line, _, (bars,) = axes.containers[0].lines
    places = sorted(table.rows[row].local_config[figure.x] for row in rows)
    mean, deviation = 0.2 * score.scale, 0.02**0.5 * score.scale
    assert sorted(line.get_xydata().tolist()) == [pytest.approx([place, mean]) for place in places]
    assert bars.get_segments()[0][:, 1] == pytest.approx([mean - deviation, mean + deviation])
    assert axes.containers[1].lines[0].get_xydata()[:, 0].tolist() == places, "a level has both ends"
    assert axes.get_ylabel().endswith(", ± deviation")


def test_bars_stand_in_groups_and_may_be_negative():
    table = load_table("oa-figure-7")
    assert figure_of(table, {}) is None
    one, two = list(table.tasks)[:2]
    table.figure = Figure(kind="bars", score=table.figure.score, series={"one": ["a", "b"], "two": ["a", "c"]})
    score = table.tasks[one].scores[table.figure.score]
    values = {("a", one): [3.0, 4.0], ("a", two): [1.0], ("b", one): [2.0, 2.0], ("b", two): [1.5], ("c", two): [0.8]}
    found = records({key: [{score.metric: value / score.scale} for value in own] for key, own in values.items()})
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in figure_of(table, found).axes[0].patches]
    drawn = [bar for bar in bars if abs(bar[1]) > 0]
    assert drawn == [pytest.approx(bar) for bar in ((-0.2, 1.5), (0.8, -0.5), (1.2, 0.2))]


FILES = [file for _, folder in PAGES.values() for file in sorted((DOCS / folder).glob("*.json"))]


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_are_written_from_the_files(page):
    """To correct a failure, run `python -m scripts.results`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text == render(page)
    for command in re.findall(r"^python -m reproduction (.*)$", text, re.MULTILINE):
        parser().parse_args(shlex.split(command))  # options of this version
    assert {path.stem for path in (DOCS / PAGES[page][1]).glob("*.md")} <= {path.stem for path in FILES}, "remarks"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_results_is_whole(path):
    text = path.read_text(encoding="utf-8")
    found, table = json.loads(text), load_table(path.stem)
    assert found["table"] == table.name
    assert found["runs"]
    for run in found["runs"]:
        assert run["row"] in table.rows
        assert {"command", "seed", "data", "versions", "device", "metrics"} <= run.keys()
        assert run["folds"] == table.tasks[run["task"]].folds  # `hf-localattn compare` reads it
    assert not re.search(r"/(home|root|tmp|Users|work)/", text), "a path of a machine"
