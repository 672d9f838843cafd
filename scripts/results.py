"""Write docs/results.md and docs/studies/index.md from result files, so that no number is copied by hand.

`python -m reproduction TABLE` writes `TABLE.json`. An optional `TABLE.md` has remarks on the data and on the result.

Usage: python -m scripts.results
"""

from __future__ import annotations

import json
from pathlib import Path

from reproduction.report import as_markdown
from reproduction.tables import table_names

DOCS = Path(__file__).resolve().parent.parent / "docs"
RESULTS = """\
# Results

Tables of the papers: the published scores, and those that `python -m reproduction` measured, in the paper's unit.

* "±" is the sample standard deviation over seeds or folds.
* "Against" is the mean difference from the baseline in the same runs. Its 95 % interval and p-value are those of the
  paired t-test of `hf-localattn compare`; p is after Holm's correction for all comparisons of the table. n is the
  number of pairs; a single pair has neither interval nor p ("-").
* `$DATA` is a folder of data sets and models.

[First runs](first_runs.md) has older runs. `scripts/results.py` writes this page from
[the files of the runs](results).
"""
STUDIES = """\
# Studies

What the families gain on small training sets, by a [plan](PLAN.md) that was committed before the first run. "±" is
the sample deviation over seeds. The interval is that of the mean difference from the row's baseline in the same
runs, by the paired t-test of `hf-localattn compare`, for the same test rows; p is after Holm's correction for the
table, and n is the number of pairs. (The plan's interval also covered other test rows, which needs a score for
each of them: it was wider, by at most 0.3 points at an end.) The encoder is small and the training sets are
samples: no score is an official one. `$DATA` stands for a folder of data sets and models. `hf-localattn compare`
reads [the files of the runs](results).

This page is written by `scripts/results.py`. [Which family](../which-family.md) has the conclusions.
"""

PAGES = {"results.md": (RESULTS, "results"), "studies/index.md": (STUDIES, "studies/results")}
"""Pages in the folder of the documentation, each with its head and the folder of its files."""


def render(page: str, docs: Path = DOCS) -> str:
    """Return the content of a page."""
    head, folder = PAGES[page][0], docs / PAGES[page][1]
    parts = [head]
    for name in table_names():
        path, remarks = folder / f"{name}.json", folder / f"{name}.md"
        if path.is_file():
            parts.append(as_markdown(json.loads(path.read_text(encoding="utf-8"))))
            if remarks.is_file():
                parts.append(remarks.read_text(encoding="utf-8"))
    return "\n".join(parts)


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(render(name), encoding="utf-8")
