"""Write the tables of costs in the documentation from the files in benchmarks/results/.

A table is between the lines `<!-- written by scripts/costs.py: CASE ... -->` and `<!-- end -->`; `serving` stands for
all results of `python -m benchmarks.serving`.

Usage: python scripts/costs.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "docs" / "costs.md", ROOT / "docs" / "adapting.md")
BLOCK = re.compile(r"(<!-- written by scripts/costs\.py: (.*?) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
SERVING = "serving"


def render(text: str) -> str:
    """Return the text of a page with its tables written anew."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{tables(block[2].split())}\n{block[3]}", text)


def tables(names: list[str]) -> str:
    """Return the tables of cases in Markdown.

    Raises:
        FileNotFoundError: A case has no result.
    """
    parts = []
    for name in names:
        files = sorted(RESULTS.glob(f"{SERVING}/*.json" if name == SERVING else f"{name}--*.json"))
        if not files:
            raise FileNotFoundError(f"{name!r} has no result in {RESULTS.name}/: run `python -m benchmarks {name}`.")
        found = [json.loads(path.read_text(encoding="utf-8")) for path in files]
        parts += [serving_table(found)] if name == SERVING else map(ratio_table, found)
    return "\n".join(parts)


def ratio_table(result: dict[str, Any]) -> str:
    """Return the ratios of a case's variants to their peer, with its description and environment."""
    peer, *others = result["variants"]
    lines = [
        f"{result['what']} ({machine(result)}).\n",
        f"| relative to `{peer}` | time | median time | round by round | peak memory |",
        "|---|---|---|---|---|",
    ]
    for name in others:
        one = result["variants"][name]
        rounds = [a / b for a, b in zip(one["seconds"], result["variants"][peer]["seconds"], strict=True)]
        times = f"{one['time_ratio']:.2f} | {one['median_time_ratio']:.2f} | {min(rounds):.2f} to {max(rounds):.2f}"
        memory = f"{one['memory_ratio']:.2f}" if one["memory_ratio"] else "-"
        lines.append(f"| `{name}` | {times} | {memory} |")
    if bounds := result.get("bounds"):
        limit = max(bounds, key=lambda name: bounds[name])
        shares = ", ".join(f"`{name}` reaches {one['share_of_bound']:.0%}" for name, one in result["variants"].items())
        lines += ["", f"The step is bound by {limit}: {shares} of the bound that was measured in the same run."]
    return "\n".join([*lines, ""])


def serving_table(results: list[dict[str, Any]]) -> str:
    """Return scores, speeds and sizes of exported checkpoints; scores in percent."""
    lines = ["| checkpoint | form | score | speed | size |", "|---|---|---|---|---|"]
    for result in results:
        label = f"{result['name']} ({result['rows']:,} rows, {result['metric']})"
        unit = 1 if result["task"] == "question-answering" else 100  # the metrics of SQuAD are percentages
        for name, one in result["variants"].items():
            score = "" if one["scores"] is None else f"{unit * one['scores'][result['metric']]:.1f}"
            lines.append(f"| {label} | {name} | {score} | {one['speed_ratio']:.2f} | {one['megabytes']:.0f} MB |")
            label = ""
    vnni = "with" if results[0]["environment"]["vnni"] else "without"
    return "\n".join([*lines, "", f"Measured on {machine(results[0])}, {vnni} VNNI.", ""])


def machine(result: dict[str, Any]) -> str:
    """Describe the environment of a result."""
    place = result["environment"]
    return f"{place['device']}, {place['threads']} threads, torch {place['torch']}, {place['date']}"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(render(page.read_text(encoding="utf-8")), encoding="utf-8")
