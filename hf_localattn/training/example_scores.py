"""Scores of single test examples, kept so that differences between runs can be tested again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets

from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json

NAME = "_example_scores"
"""Files are named by the prefix of their metrics, such as `eval_example_scores.json`."""


def fingerprint(rows: datasets.Dataset) -> dict[str, Any]:
    """Return the number of rows and their digest, to compare data."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str, ensure_ascii=False).encode())
    return {"rows": len(rows), "digest": f"sha256 {digest.hexdigest()}"}


def write_example_scores(
    folder: Path, prefix: str, rows: datasets.Dataset, scores: Mapping[str, Sequence[float]]
) -> None:
    """Write the scores of the examples of a split, in the order of its rows, and the digest of the rows.

    Args:
        folder: output folder.
        prefix: prefix of the metrics, such as "eval".
        rows: rows of the split.
        scores: scores of all examples by metric. The metric is their mean.
    """
    rounded = {name: [round(float(value), 4) for value in own] for name, own in scores.items()}
    numbers = {name: [int(value) if value.is_integer() else value for value in own] for name, own in rounded.items()}
    content = json.dumps({"data": fingerprint(rows), "scores": numbers}, separators=(",", ":"))
    atomic_write(folder / f"{prefix}{NAME}.json", content + "\n")


def copy_example_scores(source: Path, target: Path, suffix: str = "") -> None:
    """Copy the files of a folder. The suffix is that of the metrics, such as "@BioScope"."""
    for path in source.glob(f"*{NAME}.json"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / f"{path.stem}{suffix.replace('/', '_')}.json")


def read_example_scores(folder: Path) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Return the scores of examples by metric, such as "eval_f1", and the digest of the rows by prefix.

    Raises:
        ValueError: a file is not valid.
    """
    scores: dict[str, list[float]] = {}
    data: dict[str, Any] = {}
    for path in sorted(folder.glob(f"*{NAME}*.json")):
        prefix, _, suffix = path.stem.partition(NAME)
        found = read_json(path)
        try:
            scores |= {f"{prefix}_{name}{suffix}": list(map(float, own)) for name, own in found["scores"].items()}
            data[prefix + suffix] = found["data"]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(f"{path} does not hold scores of examples. Restore the original, or remove it.") from None
    return scores, data
