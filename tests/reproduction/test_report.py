"""Statistics of a table, with runs made by hand. The pages of results are what their files say."""

import json
import math
import re
import shlex
import statistics

import pytest

from reproduction.__main__ import parser
from reproduction.figures import draw_figure, figure_of
from reproduction.report import as_markdown, summarize
from reproduction.tables import Figure, load_table
from scripts.results import DOCS, PAGES, render

TABLE = load_table("sam-5")
TASK = TABLE.tasks["trec"]
ROWS = [TABLE.rows[row] for row in ("roberta", "sam")]


def runs(**rows):
    """Of each row accuracies, and times of an epoch."""
    return {
        (row, "trec"): {
            number: {"predict_accuracy": accuracy, "train_seconds_per_epoch": seconds}
            for number, (accuracy, seconds) in enumerate(values, start=1)
        }
        for row, values in rows.items()
    }


def cells(found, *data):
    return {(cell["row"], cell["score"]): cell for cell in summarize(TABLE, ROWS, [TASK], found, *data)}


def test_means_deviations_and_differences():
    found = cells(runs(roberta=[(0.80, 2.0), (0.82, 2.0), (0.84, 2.0)], sam=[(0.90, 3.0), (0.93, 3.0), (0.91, 3.0)]))
    sam = found["sam", "Acc."]
    assert sam["measured"] == pytest.approx(statistics.fmean([90, 93, 91]))
    assert sam["deviation"] == pytest.approx(statistics.stdev([90, 93, 91]))
    assert sam["published"] == 93.4
    assert sam["difference"] == pytest.approx(sam["measured"] - 93.4)
    differences = [10, 11, 7]
    assert sam["against_baseline"] == pytest.approx(statistics.fmean(differences))
    # Three of five folds.
    t = statistics.fmean(differences) / (statistics.stdev(differences) * math.sqrt(1 / 3 + 1 / 4))
    # Student's distribution with two degrees of freedom, in closed form.
    assert sam["p_value"] == pytest.approx(1 - t / math.sqrt(t * t + 2))
    assert sam["pairs"] == 3
    assert sam["interval"][0] < sam["against_baseline"] < sam["interval"][1]
    assert sam["corrected_p_value"] == sam["p_value"], "the times do not vary"


def test_p_is_corrected_for_all_comparisons_of_the_table():
    found = cells(runs(roberta=[(0.80, 2.0), (0.82, 2.1), (0.84, 2.0)], sam=[(0.90, 3.0), (0.93, 3.9), (0.91, 3.1)]))
    accuracy, time = found["sam", "Acc."], found["sam", "T (ratio)"]
    assert accuracy["corrected_p_value"] == pytest.approx(2 * accuracy["p_value"])
    assert time["corrected_p_value"] == pytest.approx(max(time["p_value"], 2 * accuracy["p_value"]))


def test_runs_on_other_data_and_nan_are_not_compared():
    found = runs(roberta=[(0.8, 2.0), (0.7, 2.0)], sam=[(0.9, 3.0), (0.8, 4.0)])
    data = {(row, "trec"): {number: {"test": row if number == 2 else ""} for number in (1, 2)} for row in TABLE.rows}
    cell = cells(found, data)["sam", "Acc."]
    assert cell["against_baseline"] is None
    assert cell["remark"] == "the runs have other data (test): not compared"
    found["sam", "trec"][1]["predict_accuracy"] = None  # NaN in JSON
    cell = cells(found)["sam", "Acc."]
    assert (cell["measured"], cell["against_baseline"]) == (80, None)
    assert cell["remark"] == "a score is NaN: not compared"


def test_times_are_ratios_to_the_baseline():
    found = cells(runs(roberta=[(0.8, 2.0), (0.8, 2.0)], sam=[(0.9, 3.0), (0.9, 4.0)]))
    assert found["sam", "T (ratio)"]["measured"] == pytest.approx(1.75)
    assert found["sam", "T (ratio)"]["published"] == pytest.approx(11 / 8)
    assert found["roberta", "T (ratio)"]["measured"] == 1


def test_what_is_not_there_is_left_out():
    found = cells(runs(roberta=[(0.8, None)], sam=[(float("nan"), 1.0)]))
    assert found["sam", "Acc."]["measured"] is None
    assert found["sam", "Acc."]["runs"] == 0
    assert found["sam", "T (ratio)"]["measured"] is None
    assert found["roberta", "T (ratio)"]["published"] == 1


def test_a_table_for_people():
    cell = {"row": "a", "row_title": "A | B", "task": "t", "task_title": "T", "score": "F1", "published": 1.0}
    cell |= {"measured": 2.5, "deviation": 0.25, "difference": 1.5, "baseline": "c", "baseline_title": "C"}
    cell |= {"against_baseline": -0.5, "p_value": 0.0123, "pairs": 5}
    cell |= {"corrected_p_value": 0.0246, "interval": [-0.8, -0.2], "remark": "a remark"}
    found = {"title": "Title", "source": "Source", "table": "t-1", "scores": [cell], "corpora": {}, "runs": []}
    found |= {"choices": {"also": [], "runs": 2, "arguments": {"max_steps": 3}}, "notes": ["A note."]}
    found["searches"] = [
        {"row": "a", "task": "t", "best": {"dropout": 0.2}, "metric": "f1", "score": 0.5}
        | {
            "tried": [{"setting": {"dropout": value}, "score": 0.5} for value in (0.1, 0.2, 0.3)],
            "failed": [{"dropout": 9}],
        }
    ]
    found["command"] = "python -m reproduction t-1"
    unmeasured = {**cell, "score": "T", "measured": None, "difference": None, "remark": None}
    quoted = {**unmeasured, "row": "q", "row_title": "Q"}
    lines = as_markdown({**found, "scores": [cell, unmeasured, quoted]}).splitlines()
    assert any(line.endswith("| difference | against C | 95 % interval | corrected p (n) |") for line in lines)
    assert [line.split(" | ")[1] for line in lines if line.startswith(("| A / B", "| Q"))] == ["F1", "T"]
    assert "| A / B | F1 | 1.00 | 2.50 ± 0.25 | +1.50 | -0.50 | [-0.80, -0.20] | 0.025 (5) |" in lines
    assert "* Changed from the recipe: number of runs 2, further test corpora none, max_steps 3." in lines
    searched = "* Searched for a, t, with the first seed: 4 settings, of which 1 failed; the best is dropout 0.2,"
    assert f"{searched} with f1 0.5000." in lines
    assert "* A | B (T, F1): a remark." in lines
    assert lines[-5:] == ["* A note.", "", "```bash", "python -m reproduction t-1", "```"]
    runs = [{"versions": {"torch": number}, "device": "CPU"} for number in ("2.1", "2.2", "2.2")]
    lines = as_markdown({**found, "runs": runs}).splitlines()
    assert {"* 1 run: torch 2.1, on CPU.", "* 2 runs: torch 2.2, on CPU."} <= set(lines)
    other = {**cell, "row": "d", "row_title": "D", "baseline": "e", "baseline_title": "E", "corrected_p_value": None}
    lines = as_markdown({**found, "scores": [cell, other]}).splitlines()
    assert any(line.endswith("| difference | against baseline | 95 % interval | corrected p (n) |") for line in lines)
    assert any(line.endswith("| [-0.80, -0.20] | - (5) |") for line in lines)
    assert {"* The baseline of A | B is C.", "* The baseline of D is E."} <= set(lines)


CURVES = load_table("cool-study-1")


def learning_runs():
    """F1 of both rows of two sizes and two seeds."""
    scores = {("bert", "q250"): 20.0, ("bert", "q500"): 30.0, ("cool", "q250"): 25.0, ("cool", "q500"): 36.0}
    slopes = {"bert": 1.0, "cool": 1.2}
    return {key: {run: {"eval_f1": score + slopes[key[0]] * run} for run in (0, 1)} for key, score in scores.items()}


def test_a_study_has_no_columns_of_published_numbers():
    rows, tasks = [CURVES.rows["bert"], CURVES.rows["cool"]], [CURVES.tasks["q250"], CURVES.tasks["q500"]]
    found = {"title": "x", "source": "x", "table": "x", "notes": [], "command": "x"}
    found |= {"scores": summarize(CURVES, rows, tasks, learning_runs())}
    found |= {"choices": {"arguments": {}}, "corpora": {}, "searches": [], "runs": []}
    text = as_markdown(found)
    assert "| row | task | score | measured | against encoder | 95 % interval | corrected p (n) |" in text
    assert "| COOL | 250 questions | F1 | 25.60 ± 0.85 | +5.10 | [+3.83, +6.37] | " in text


def test_learning_curves_have_points_of_tasks():
    pytest.importorskip("matplotlib")
    [axes] = figure_of(CURVES, learning_runs()).axes
    assert [line.get_label() for line in axes.containers] == ["encoder", "COOL"]
    assert len(axes.collections) == 2, "deviations of each series"
    assert axes.containers[0].lines[0].get_xydata().tolist() == [[250, 20.5], [500, 30.5]]


def test_curves_have_points_of_rows_with_deviations_and_levels():
    pytest.importorskip("matplotlib")
    table = load_table("sam-figure-3")
    figure = table.figure
    rows, scores = next(iter(figure.series.values())), table.tasks[figure.task].scores[figure.score]
    found = {(row, figure.task): {k: {scores.metric: v} for k, v in enumerate((0.1, 0.3))} for row in rows[:2]}
    axes = figure_of(table, found).axes[0]
    line, _, (bars,) = axes.containers[0].lines
    places = [table.rows[row].local_config[figure.x] for row in rows[:2]]
    mean, deviation = 0.2 * scores.scale, 0.02**0.5 * scores.scale
    assert sorted(line.get_xydata().tolist()) == [pytest.approx([place, mean]) for place in sorted(places)]
    assert bars.get_segments()[0][:, 1] == pytest.approx([mean - deviation, mean + deviation])
    assert axes.get_ylabel().endswith(", ± deviation")


def test_bars_stand_in_groups_and_may_be_negative():
    pytest.importorskip("matplotlib")
    table = load_table("oa-figure-7")
    assert draw_figure(table, {}, None) == "No figure: no run of the figure is finished."
    titles = list(table.tasks)[:2]
    series = {"one": ["a", "b"], "two": ["a", "c"]}
    table.figure = Figure(kind="bars", score=table.figure.score, series=series)
    metric = next(iter(table.tasks.values())).scores[table.figure.score]
    values = {"a": {titles[0]: [3.0, 4.0], titles[1]: [1.0]}, "b": {titles[0]: [2.0, 2.0], titles[1]: [1.5]}}
    values["c"] = {titles[1]: [0.8]}
    found = {
        (row, task): {k: {metric.metric: v / metric.scale} for k, v in enumerate(own)}
        for row, tasks in values.items()
        for task, own in tasks.items()
    }
    axes = figure_of(table, found).axes[0]
    assert axes.get_ylabel().endswith(", ± deviation")
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in axes.patches]
    drawn = [bar for bar in bars if bar[1]]
    assert drawn == [pytest.approx(bar) for bar in ((-0.2, 1.5), (0.8, -0.5), (1.2, 0.2))]


FILES = [file for _, folder in PAGES.values() for file in sorted((DOCS / folder).glob("*.json"))]


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_are_written_from_the_files(page):
    """To correct a failure, run `python -m scripts.results`."""
    assert (DOCS / page).read_text(encoding="utf-8") == render(page)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_results_is_whole(path):
    text = path.read_text(encoding="utf-8")
    found = json.loads(text)
    table = load_table(path.stem)
    assert found["table"] == table.name
    assert found["runs"]
    for run in found["runs"]:
        assert run["row"] in table.rows
        assert run["task"] in table.tasks
        assert {"command", "seed", "data", "versions", "device", "metrics"} <= run.keys()
        assert run["folds"] == table.tasks[run["task"]].folds  # `hf-localattn compare` reads it
    assert not re.search(r"/(home|root|tmp|Users|work)/", text), "a path of a machine"


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_of_this_version(page):
    commands = re.findall(r"^python -m reproduction (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert all(parser().parse_args(shlex.split(command)).table for command in commands)
    assert commands


def test_remarks_belong_to_results_and_a_page_without_results_has_its_head(tmp_path):
    remarks = {path.stem for _, folder in PAGES.values() for path in (DOCS / folder).glob("*.md")}
    assert remarks <= {path.stem for path in FILES}
    assert render("results.md", tmp_path).startswith("# Results\n")
