"""Write docs/results.md from the files in docs/results/, so that no number is copied by hand.

`hf-localattn reproduce TABLE` writes `TABLE.json`. An optional `TABLE.md` has remarks on the data and on the result.

Usage: python scripts/results.py
"""

from __future__ import annotations

import json
from pathlib import Path

from hf_localattn.reproduction.report import as_markdown
from hf_localattn.reproduction.tables import table_names

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEAD = """\
# Results

Tables of the papers as `hf-localattn reproduce` measured them, good or bad: what was published beside what came out,
in the paper's unit. "±" is the sample deviation over seeds or folds, p that of a paired t-test against the baseline's
same runs after Holm's correction for the table, n how many pairs there are ("-": one alone has no p). `$DATA` stands
for a folder of data sets and models.
Older runs are in [first_runs.md](first_runs.md). This page is written by `scripts/results.py` from
[the files of the runs](results).
"""


def render(folder: Path = DOCS / "results") -> str:
    """Return the page."""
    parts = [HEAD]
    for name in table_names():
        path, remarks = folder / f"{name}.json", folder / f"{name}.md"
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))
            parts.append(as_markdown(found))
            if remarks.is_file():
                parts.append(remarks.read_text(encoding="utf-8"))
    return "\n".join(parts)


if __name__ == "__main__":
    (DOCS / "results.md").write_text(render(), encoding="utf-8")
