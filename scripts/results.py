"""Write docs/results.md and docs/studies/index.md from result files, so that no number is copied by hand.

`python -m reproduction TABLE` writes `TABLE.json`. An optional `TABLE.md` has remarks on the data and on the result.
The files are written again, too, with the names, notes and statistics that their runs have today.

Usage: python -m scripts.results
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from hf_localattn.studies.results import write_results
from reproduction.__main__ import parser, selection_of
from reproduction.report import as_markdown, report_of
from reproduction.tables import table_names

DOCS = Path(__file__).resolve().parent.parent / "docs"
RESULTS = """\
# Results

No table of the papers was run as in the papers: neither with their encoders nor on all their data. Some rows of the
tables below were run, with a small encoder (all-MiniLM-L6-v2: 6 layers, 384 wide) and a part of the data. These scores
show that recipes run and learn. They confirm and refute nothing; the [studies](studies/index.md) have more seeds.

{runs}

* Rows are named after the encoder that ran. The published number beside it is that of the paper's encoder.
* "±" is the sample standard deviation over seeds or folds.
* "Against" is the mean difference from the baseline in the same runs. Its interval and p-value are those of the paired
  t-test of `hf-localattn compare`, of main scores alone, both after Holm's correction for the main scores of the
  table. n is the number of pairs; a single pair has neither interval nor p ("-").
* Each table says with which version it was measured. Scores of 0.1.0 were not measured again with a later version.
* `$DATA` is a folder of data sets and models.

`scripts/results.py` writes this page from
[the files of the runs](results).
"""
STUDIES = """\
# Studies

What the families gain on small training sets, by a [plan](PLAN.md) that was committed before the first run. "±" is
the sample deviation over seeds. The interval is that of the mean difference from the row's baseline in the same
runs, by the paired t-test of `hf-localattn compare`, for the same test rows. Interval and p have Holm's correction
for the main scores of the table: an interval excludes 0 exactly if p is below 0.05. n is the number of pairs. (The
plan's interval also covered other test rows, which needs a score for each of them: without the correction it was
wider, by at most 0.3 points at an end.) The encoder is small, in part e of base size, and the training sets are
samples: no score is an official one. `$DATA` stands for a folder of data sets and models. `hf-localattn compare`
reads [the files of the runs](results). Never run: `sam-study-3` (HaHackathon's ratings), `pairs-study-1` and
`questions-study-1`, whose question part g of the plan answers with other draws. Each section ends with what was not
run of it.

This page is written by `scripts/results.py`. [Which family](../which-family.md) has the conclusions.
"""

PAGES = {"results.md": (RESULTS, "results"), "studies/index.md": (STUDIES, "studies/results")}
"""Pages in the folder of the documentation, each with its head and the folder of its files."""


def read_report(path: Path) -> dict[str, Any]:
    """Return the report of a file's runs, with the names and notes that its table has today."""
    content = json.loads(path.read_text(encoding="utf-8"))
    words = shlex.split(content["command"].removesuffix(" --search"))[3:]
    selection = selection_of(parser().parse_args(words))
    return {**report_of(selection, content["runs"], content["searches"]), "command": content["command"]}


def render(page: str, docs: Path = DOCS) -> str:
    """Return the content of a page."""
    head, folder = PAGES[page]
    reports = {}
    for name in table_names():
        path = docs / folder / f"{name}.json"
        if path.is_file():
            reports[name] = read_report(path)
    parts = [head.replace("{runs}", _overview(reports))]
    for name, report in reports.items():
        parts.append(as_markdown(report))
        remarks = docs / folder / f"{name}.md"
        if remarks.is_file():
            parts.append(remarks.read_text(encoding="utf-8"))
    return "\n".join(parts)


def _overview(reports: dict[str, dict[str, Any]]) -> str:
    """Return a list of the tables that were run, and of those that were not."""
    lines = []
    for name, report in reports.items():
        measured = [cell for cell in report["scores"] if cell["runs"]]
        rows = ", ".join(dict.fromkeys(cell["row_title"] for cell in measured))
        tasks = ", ".join(dict.fromkeys(cell["task_title"] for cell in measured))
        counts = {cell["runs"] for cell in measured}
        versions = ", ".join(dict.fromkeys(run["versions"]["hf_localattn"] for run in report["runs"]))
        lines.append(
            f"* `{name}`, {report['title']}: {rows}; {tasks}; {max(counts)} {'run' if counts == {1} else 'runs'} each;"
            f" version {versions}."
        )
    never = [f"`{name}`" for name in table_names() if name not in reports and "study" not in name]
    return "\n".join([*lines, f"* Never run, but on a few sample rows: {', '.join(never)}."])


if __name__ == "__main__":
    for name, (_, results) in PAGES.items():
        for path in sorted((DOCS / results).glob("*.json")):
            write_results(path, read_report(path))
        (DOCS / name).write_text(render(name), encoding="utf-8")
