"""Statistics of a table, with runs made by hand. The pages of results are what their files say."""

import json
import math
import re
import shlex
import statistics
from dataclasses import asdict

import pytest
from pandas import Series

from hf_localattn.hub.record import Candidate, Comparison
from reproduction.__main__ import parser
from reproduction.figures import figure_of
from reproduction.reductions import difference_to_best, maximum, mean
from reproduction.report import as_markdown, summarize
from reproduction.tables import Figure, load_table
from scripts import decisions
from scripts.results import DOCS, PAGES, render

TABLE = load_table("sam-5")
CURVES = load_table("cool-study-1")
ROBERTA = [(0.80, 2.0), (0.82, 2.1), (0.84, 2.2)]
SAM = [(0.90, 3.0), (0.93, 3.9), (0.91, 3.1)]


def records(scores, overlap=0.0):
    """Records of runs, from metrics of each run by row and task."""
    run = {"data": {}, "overlap": overlap}
    return {key: {n: {"metrics": own, **run} for n, own in enumerate(runs, 1)} for key, runs in scores.items()}


def cells(roberta, sam, data=()):
    """Cells of two rows, from their accuracies and times of an epoch, and the data of each run."""
    names = ("predict_accuracy", "train_seconds_per_epoch")
    rows = {"roberta": roberta, "sam": sam}
    found = records(
        {(row, "trec"): [dict(zip(names, one, strict=True)) for one in own] for row, own in rows.items()}, 1 / 3
    )
    for row, number in data:
        found[row, "trec"][number]["data"] = {"test": row}
    summary = summarize(TABLE, [TABLE.rows[row] for row in rows], [TABLE.tasks["trec"]], found)
    return {(cell["row"], cell["score"]): cell for cell in summary}


def markdown(*shown, **more):
    report = {"title": "Title", "source": "Source", "table": "t-1", "scores": shown, "corpora": {}, "runs": []}
    report |= {"encoder": None, "changes": [], "notes": ["A note."], "searches": []}
    return as_markdown(report | {"command": "python -m reproduction t-1"} | more)


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
    t = statistics.fmean(differences) / (statistics.stdev(differences) * math.sqrt(1 / 3 + 1 / 3))
    assert sam["p_value"] == pytest.approx(1 - t / math.sqrt(t * t + 2))
    assert sam["interval"][0] < sam["against_baseline"] < sam["interval"][1]
    assert sam["corrected_p_value"] == sam["p_value"], "one comparison of a main score"
    assert time["measured"] == pytest.approx(statistics.fmean([3.0, 3.9, 3.1]) / 2.1), "a ratio to the baseline"
    assert (time["published"], found["roberta", "T (ratio)"]["measured"]) == (pytest.approx(11 / 8), 1)
    assert (time["p_value"], time["corrected_p_value"], time["interval"]) == (None, None, None), "no main score"


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
    cell |= {"digits": 2, "quoted": False}
    cell |= {"measured": 2.5, "deviation": 0.25, "difference": 1.5, "baseline": "c", "baseline_title": "C", "pairs": 5}
    cell |= {"against_baseline": -0.5, "corrected_p_value": 0.0246, "interval": [-0.8, -0.2], "remark": "a remark"}
    search = {"row": "a", "task": "t", "best": {"dropout": 0.2}, "metric": "f1", "score": 0.5}
    search |= {"tried": [{}, {}, {}], "failed": [{}]}
    runs = [{"versions": {"torch": number}, "device": "CPU"} for number in ("2.1", "2.2", "2.2")]
    unmeasured = {**cell, "score": "T (ratio)", "measured": None, "difference": None, "remark": None}
    quoted = {**unmeasured, "row": "q", "row_title": "Q"}
    lines = markdown(cell, unmeasured, quoted, searches=[search], runs=runs).splitlines()
    assert [line.split(" | ")[1] for line in lines if line.startswith(("| A / B", "| Q"))] == ["F1", "T (ratio)"]
    assert "| A / B | F1 | 1.00 | 2.50 ± 0.25 | +1.50 | -0.50 | [-0.80, -0.20] | 0.025 (5) |" in lines
    searched = "* Searched for a, t, with the first seed: 4 settings, of which 1 failed; the best is dropout 0.2,"
    assert not any("Data:" in line for line in lines)
    known = {f"{searched} with f1 0.5000.", "* A | B (T, F1): a remark.", "* A note.", "python -m reproduction t-1"}
    assert known | {"* 1 run: torch 2.1, on CPU.", "* 2 runs: torch 2.2, on CPU."} <= {*lines}
    other = {**cell, "row": "d", "row_title": "D", "baseline": "e", "baseline_title": "E", "corrected_p_value": None}
    lines = markdown(cell, other).splitlines()
    assert any(line.endswith("| [-0.80, -0.20] | - (5) |") for line in lines)
    assert {"* The baseline of A | B is C.", "* The baseline of D is E."} <= {*lines}
    count = {**cell, "measured": 1234.0, "deviation": None, "digits": 0, "quoted": True, "pairs": 0}
    lines = markdown(count, encoder="MiniLM", changes=["max_steps 1 (not set)"]).splitlines()
    assert "| A / B | F1 | not printed | 1,234 | -0 |" in lines, "the paper's number is of another encoder"
    assert any("max_steps 1 (not set)" in line for line in lines)


PAIRS = {  # F1 of two runs for each pair of a training and a test corpus: BF on BF, BF on BA; BA on BA, BA on BF
    "baseline": [(80, 82), (70, 70), (90, 90), (60, 64)],  # means 81, 70, 90, 62
    "em": [(82, 84), (66, 70), (91, 93), (62, 62)],  # 83, 68, 92, 62
    "em-normal": [(70, 70), (72, 72), (80, 80), (50, 50)],
}


def derived(name, rows, **quoted):
    """Cells of a table of differences or best results."""
    table = load_table(name)
    tasks = [table.tasks["bioscope_papers"], table.tasks["bioscope_abstracts"]]
    for task, other in zip(tasks, ("BA", "BF"), strict=True):
        task.test_corpora = {title: corpus for title, corpus in task.test_corpora.items() if title == other}
    runs = {}
    for row in rows:
        for task, pairs in zip(tasks, (PAIRS[row][:2], PAIRS[row][2:]), strict=True):
            names = [score.metric for score in task.all_scores]
            runs[row, task.name] = [
                {metric: pair[run] / 100 for metric, pair in zip(names, pairs, strict=True)} for run in (0, 1)
            ]
    chosen = [table.rows[row] for row in (*quoted, *rows)]
    return summarize(table, chosen, tasks, records(runs))


def test_differences_to_the_baseline_and_to_the_best_of_each_pair():
    cells = {(cell["row"], cell["score"].partition(",")[2]): cell for cell in derived("oa-4", ["baseline", "em"])}
    cell = cells["em", " mean of the pairs"]
    assert cell["measured"] == pytest.approx((83 + 68 + 92 + 62) / 4)
    assert cell["deviation"] == pytest.approx(statistics.stdev([301 / 4, 309 / 4]))
    assert cell["against_baseline"] == pytest.approx((305 - 303) / 4)
    assert (cell["baseline_title"], cell["pairs"]) == ("Baseline (XLNet)", 2)
    best = " difference to the best of a pair, mean"
    assert cells["baseline", best]["measured"] == pytest.approx((-2 + 0 - 2 + 0) / 4)
    assert cells["em", best]["measured"] == pytest.approx((0 - 2 + 0 + 0) / 4)
    assert cells["em", best]["against_baseline"] is None, "without runs no interval"


def test_the_best_of_each_group_of_rows_on_each_corpus():
    cells = derived("oa-5", ["baseline", "em", "em-normal"])
    found = {(cell["row_title"], cell["task_title"]): cell["measured"] for cell in cells}
    expected = {
        ("Baseline (XLNet)", "BF"): 81,
        ("Baseline (XLNet)", "BA"): 90,
        ("OA-EM", "BF"): 83,
        ("OA-EM", "BA"): 92,
    }
    assert found == pytest.approx(expected)
    cells = derived("oa-6", ["baseline", "em"], **{"britto-khandelwal": True})
    quoted = [cell for cell in cells if cell["quoted"]]
    assert [cell["task_title"] for cell in quoted] == ["BF", "BA"]
    assert {cell["row_title"] for cell in quoted} == {"Britto and Khandelwal (2020)"}
    assert markdown(*cells).count("| not printed |") == 2


def test_a_missing_score_leaves_no_mean_of_the_others():
    scores = Series({("a", 1): 3.0, ("a", 2): math.nan, ("b", 1): 1.0, ("b", 2): 2.0}).rename_axis(["row", "run"])
    assert mean(scores, ["run"]).to_dict() == pytest.approx({"a": math.nan, "b": 1.5}, nan_ok=True)
    assert maximum(scores, ["run"]).to_dict() == pytest.approx({"a": math.nan, "b": 2.0}, nan_ok=True)
    best = difference_to_best(scores, ["row"]).to_dict()
    assert best == pytest.approx({("a", 1): 0, ("a", 2): math.nan, ("b", 1): -2, ("b", 2): math.nan}, nan_ok=True)


def test_the_averages_of_sla_follow_from_its_columns():
    table = load_table("sla-1")
    cells = summarize(table, list(table.rows.values()), list(table.tasks.values()), {})
    assert {cell["task_title"] for cell in cells if cell["score"] == "Avg."} == {"all"}
    averages = {cell["row"]: round(cell["published"], 2) for cell in cells if cell["score"] == "Avg."}
    printed = {"lisa": 74.8, "sgnet": 74.8, "bert": 74.6, "wla": 75.0, "sla": 75.3}
    printed |= {"lisa-large": 76.2, "sgnet-large": 76.6, "bert-large": 76.9, "wla-large": 76.6, "sla-large": 77.4}
    assert averages == pytest.approx(printed, abs=0.051)


def test_a_count_that_all_runs_share_has_no_deviation():
    table = load_table("sla-1")
    tasks = [table.tasks["size"], table.tasks["cola"]]
    metrics = {"parameters": 1e6, "eval_matthews_correlation": 0.5}
    runs = records({("bert", task.name): [metrics, metrics] for task in tasks})
    cells = summarize(table, [table.rows["bert"]], tasks, runs)
    assert {cell["task"]: cell["deviation"] for cell in cells} == {"size": None, "cola": 0}


def test_a_study_has_a_curve_and_no_columns_of_published_numbers():
    rows, tasks = [CURVES.rows["bert"], CURVES.rows["cool"]], [CURVES.tasks["q250"], CURVES.tasks["q500"]]
    scores = {("bert", "q250"): (21, 22), ("bert", "q500"): (31, 32), ("cool", "q250"): (26.2, 27.4)}
    scores["cool", "q500"] = (37.2, 38.4)
    runs = records({key: [{"eval_f1": score} for score in own] for key, own in scores.items()})
    text = markdown(*summarize(CURVES, rows, tasks, runs))
    assert "| row | task | score | measured | against encoder | 95 % interval | corrected p (n) |" in text
    assert "| COOL | 250 questions | F1 | 26.80 ± 0.85 | +5.30 | [+" in text
    drawn, points = figure_of(CURVES, runs)
    assert len(points) == 8
    [axes] = drawn.axes
    assert [line.get_label() for line in axes.containers] == ["encoder", "COOL"]
    assert len(axes.collections) == 2, "deviations of each series"
    assert axes.containers[0].lines[0].get_xydata().tolist() == [[250, 21.5], [500, 31.5]]


def test_curves_have_points_of_rows_with_deviations_and_levels():
    table = load_table("sam-figure-3")
    figure, score = table.figure, table.tasks["trec"].scores[table.figure.score]
    rows, level = next(iter(figure.series.values()))[:2], next(iter(figure.levels.values()))
    both = [{score.metric: 0.1}, {score.metric: 0.3}]
    axes = figure_of(table, records({(row, "trec"): both for row in (*rows, level)}))[0].axes[0]
    line, _, (bars,) = axes.containers[0].lines
    places = sorted(table.rows[row].local_config[figure.x] for row in rows)
    mean, deviation = 0.2 * score.scale, 0.02**0.5 * score.scale
    assert sorted(line.get_xydata().tolist()) == [pytest.approx([place, mean]) for place in places]
    assert bars.get_segments()[0][:, 1] == pytest.approx([mean - deviation, mean + deviation])
    assert axes.containers[1].lines[0].get_xydata()[:, 0].tolist() == places, "a level has both ends"
    assert axes.get_ylabel().endswith(", ± deviation")


def test_bars_are_means_over_test_corpora_in_the_order_of_the_training_sets():
    table = load_table("oa-figure-7")
    assert figure_of(table, {}) is None
    table.tasks = {name: table.tasks[name] for name in ("bioscope_abstracts", "bioscope_papers")}
    for task, other in zip(table.tasks.values(), ("BF", "BA"), strict=True):
        task.test_corpora = {other: ""}
    table.figure = Figure(kind="bars", score="F1", series={"one": ["a", "b"]})
    runs = {
        ("a", "bioscope_papers"): [(3.0, 5.0), (4.0, 4.0)],  # minus b: (1, 3) and (2, 3)
        ("b", "bioscope_papers"): [(2.0, 2.0), (2.0, 1.0)],
        ("a", "bioscope_abstracts"): [(1.0, 1.0)],
        ("b", "bioscope_abstracts"): [(1.5, 2.5)],
    }
    samples = {"bioscope_papers": 40, "bioscope_abstracts": 1200}
    content = {}
    for key, values in runs.items():
        names = [score.metric for score in table.tasks[key[1]].on_corpora("F1").values()]
        content[key] = [
            {name: value / 100 for name, value in zip(names, pair, strict=True)} | {"train_samples": samples[key[1]]}
            for pair in values
        ]
    drawn, points = figure_of(table, records(content))
    assert points.values.tolist() == [
        ["one", "BF (40)", pytest.approx(2.0)],
        ["one", "BF (40)", pytest.approx(2.5)],
        ["one", "BA (1,200)", pytest.approx(-1.0)],
    ]
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in drawn.axes[0].patches]
    assert bars == [pytest.approx((0, 2.25)), pytest.approx((1, -1.0))]


FILES = [file for _, folder in PAGES.values() for file in sorted((DOCS / folder).glob("*.json"))]


@pytest.mark.parametrize("page", decisions.PAGES, ids=lambda page: page.name)
def test_what_to_take_is_written_from_the_files(page):
    """To correct a failure, run `python -m scripts.decisions`."""
    assert page.read_text(encoding="utf-8") == decisions.render(page)


def test_recipes_of_a_search_count_if_other_runs_have_its_validation_rows():
    rows = [Candidate("conv", score=43.0), Candidate("words", is_rival=True, score=21.0), Candidate("cool")]
    search = {"row": "auto", "task": "squad", "run": 1, "metrics": {}}
    search["comparison"] = asdict(Comparison("f1", tuple(rows), "conv is kept."))
    plain = {"row": "conv", "task": "squad", "run": 2, "metrics": {}, "data": {"validation data": "400 rows"}}
    runs = [plain, {**search, "data": {"validation data": "400 rows"}}]
    metrics = {"eval_f1": 43.0, "eval_f1_of_words": 21.0}
    assert decisions.tried_recipes(runs) == [{"row": "conv", "task": "squad", "run": 1, "metrics": metrics}]
    assert decisions.tried_recipes([plain, {**search, "data": {"validation data": "500 rows"}}]) == []


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
