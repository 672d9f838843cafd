"""Write the tables of README.md and of two pages that say what to take, from the records of runs and the recipes.

Usage: python -m scripts.decisions
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from hf_localattn.hub.record import Comparison
from hf_localattn.names import SCRIPTS
from hf_localattn.settings.recipes import recipes_of
from hf_localattn.studies.compare import interval_of_mean
from hf_localattn.studies.comparison_files import markdown_table

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "docs" / "studies" / "results"
COSTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "which-family.md", ROOT / "docs" / "scripts.md")
TABLE = re.compile(r"(<!-- written by scripts/decisions.py: (\w+) -->\n\n).*?(?=\n\n)", re.DOTALL)


@cache
def runs_of(table: str) -> list[dict[str, Any]]:
    """Return the records of the runs of a table, and those of the recipes of its searches."""
    runs: list[dict[str, Any]] = json.loads((RECORDS / f"{table}.json").read_text(encoding="utf-8"))["runs"]
    return runs + tried_recipes(runs)


def tried_recipes(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a record of each recipe that a search tried, if runs without a search are scored on the same rows."""
    scored = {run["data"].get("validation data") for run in runs if "data" in run and "comparison" not in run}
    records = []
    for run in runs:
        if "comparison" not in run or run["data"]["validation data"] not in scored:
            continue
        comparison = comparison_of(run)
        score = f"eval_{comparison.score}"
        rivals = {f"{score}_of_{row.name}": row.score for row in comparison.rows if row.is_rival}
        records += [
            {"row": row.name, "task": run["task"], "run": run["run"], "metrics": {score: row.score, **rivals}}
            for row in comparison.rows
            if not row.is_rival and row.score is not None
        ]
    return records


def comparison_of(run: dict[str, Any]) -> Comparison:
    """Return the comparison of recipes in the record of a search."""
    return TypeAdapter(Comparison).validate_python(run["comparison"])


def scores(table: str, row: str, task: str, metric: str) -> dict[int, float]:
    """Return a score by index of the run, in points."""
    chosen = [run for run in runs_of(table) if (run["row"], run["task"]) == (row, task)]
    scale = 1 if task.startswith(("q", "squad")) else 100  # scores of questions are in percent
    return {run["run"]: scale * run["metrics"][metric] for run in chosen}


def measured(values: Iterable[float]) -> str:
    """Return the mean of scores and the number of runs."""
    numbers = list(values)
    return f"{statistics.fmean(numbers):.1f} ({len(numbers)})"


def gain(values: dict[int, float], rival: dict[int, float] | float) -> str:
    """Return the mean gain over a rival in common runs, with its interval for three runs or more."""
    of_rival = rival if isinstance(rival, dict) else dict.fromkeys(values, rival)
    differences = [value - of_rival[run] for run, value in values.items() if run in of_rival]
    text = f"{statistics.fmean(differences):+.1f}"
    interval = interval_of_mean(differences) if len(differences) > 2 else None
    return text if interval is None else f"{text} [{interval[0]:+.1f}, {interval[1]:+.1f}]"


def compared(record: list[str], rival: dict[str, Any]) -> tuple[str, str, str]:
    """Return the texts of a score, of its rival and of the gain.

    Args:
        record: Table, row, task and metric.
        rival: The rival's `row`, the `metric` that has its score in the same runs, or the `record` of its only run.
    """
    table, row, task, metric = record
    values = scores(table, row, task, metric)
    if "record" in rival:
        (number,) = scores(*rival["record"]).values()
        return measured(values.values()), f"{number:.1f}", gain(values, number)
    of_rival = scores(table, rival.get("row", row), task, rival.get("metric", metric))
    return measured(values.values()), measured(of_rival.values()), gain(values, of_rival)


def cost_of(case: str, variant: str) -> str:
    """Return time and memory of a training step, relative to the peer of a benchmark."""
    result = json.loads((COSTS / f"{case}--cpu-2-threads.json").read_text(encoding="utf-8"))["variants"][variant]
    return f"{result['time_ratio']:.2f}, {result['memory_ratio']:.2f}"


def searches() -> str:
    """Return the comparisons of `--recipe auto` as a table."""
    rows = []
    for run in runs_of("../few-rows"):
        if "comparison" in run:
            comparison = comparison_of(run)
            rows += [[run["task"], comparison.score, *candidate.cells()] for candidate in comparison.rows]
    if not rows:
        raise ValueError("No record has the comparison of a search.")
    return markdown_table(["rows", "score", "recipe", "value", "95 % interval", "seconds", "MB"], rows)


def recipes() -> str:
    """Return the recipes of all scripts as a table."""
    rows = []
    for script in SCRIPTS:
        for recipe in recipes_of(script):
            name = f"`{recipe.name}`" + (" (default)" if recipe.default else "")
            rows.append([f"`train {script}`", name, recipe.summary, f"{recipe.seconds:g}", recipe.measured])
    return markdown_table(["script", "recipe", "trains", "CPU seconds", "measured"], rows)


def tables() -> dict[str, str]:
    """Return the tables by name."""
    content = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    written = {}
    gains = {}
    head = ["rows and score", "model", "against", "model (runs)", "rival (runs)", "difference"]
    for table, comparisons in content["comparisons"].items():
        rows = []
        for name, entry in comparisons.items():
            texts = compared(entry["record"], entry["rival"])
            gains[name] = texts[-1]
            rows.append([entry["rows"], entry["model"], entry["against"], *texts])
        written[table] = markdown_table(head, rows)
    families = content["families"]
    cells = []
    for family in families:
        texts = {**family, "time, memory": cost_of(*family["time, memory"])}
        cells.append([text.format(**gains) for text in texts.values()])
    return {
        **written,
        "recipes": recipes(),
        "searches": searches(),
        "families": markdown_table(list(families[0]), cells),
    }


def render(page: Path) -> str:
    """Return the content of a page with its tables."""
    written = tables()
    return TABLE.sub(lambda match: match[1] + written[match[2]], page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(render(page), encoding="utf-8")
