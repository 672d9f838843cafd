"""Results of an inspection as a picture, an HTML page, JSON, or a Markdown table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hf_localattn.inspection.differences import Difference
from hf_localattn.inspection.draw import FORMATS, draw_gates, draw_maps, draw_token_weights, picture
from hf_localattn.inspection.html import render_page
from hf_localattn.inspection.maps import AttentionMap
from hf_localattn.inspection.weights import GateValues, TokenWeights

MOST_MAPS = 6
"""Largest number of maps in a picture."""

SUFFIXES = (*(f".{form}" for form in FORMATS), ".html", ".json")


@dataclass(frozen=True)
class Findings:
    """Results of one kind from one or two models.

    Attributes:
        names: Names of the models.
        maps: Names of models and their maps.
        texts: Names of models and their token weights.
        gates: Gates by the name of the model.
        differences: Rows that two models answer differently.
        num_rows: Number of compared rows.
    """

    names: tuple[str, ...]
    maps: list[tuple[str, AttentionMap]] = field(default_factory=list)
    texts: list[tuple[str, TokenWeights]] = field(default_factory=list)
    gates: dict[str, GateValues] = field(default_factory=dict)
    differences: list[Difference] | None = None
    num_rows: int = 0

    def render(self, suffix: str) -> str | bytes:
        """Return the content of a file with one of `SUFFIXES`.

        Raises:
            ValueError: These results cannot be drawn.
        """
        if suffix == ".json":
            return json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n"
        if suffix == ".html":
            return self.page()
        return self.picture(suffix.removeprefix("."))

    def picture(self, form: str) -> bytes:
        """Return a picture of the maps, texts or gates."""
        if self.differences is not None:
            raise ValueError("there is no picture of rows that are answered differently: write .html or .json.")
        if self.gates:
            return picture(draw_gates(self.gates), form)
        if self.texts:
            names, texts = zip(*self.texts, strict=True)
            own = (*self.names, *[""] * (len(texts) - 1))  # the name of a single model is above the first text
            return picture(draw_token_weights(texts, names if len(self.names) > 1 else own), form)
        if len(self.maps) > MOST_MAPS:
            raise ValueError(
                f"{len(self.maps)} maps are too many for a picture, which has room for {MOST_MAPS}: write .html."
            )
        names, maps = zip(*self.maps, strict=True)
        return picture(draw_maps(maps, names), form)

    def page(self) -> str:
        """Return an HTML page with all results."""
        return render_page(
            ("Answers of " if self.differences is not None else "Attention of ") + " and ".join(self.names),
            maps=[(f"{name}\n{one.title}", one) for name, one in self.maps],
            texts=[(name if len(self.names) > 1 else "", one) for name, one in self.texts],
            gates=self.gates,
            differences=self.differences,
            names=self.names,
        )

    def as_json(self) -> dict[str, Any]:
        """Return all results as values for JSON, not rounded."""
        found: dict[str, Any] = {"models": list(self.names)}
        if self.maps:
            found["maps"] = [{"model": name, **_fields(one)} for name, one in self.maps]
        if self.texts:
            found["texts"] = [{"model": name, **_fields(one)} for name, one in self.texts]
        if self.gates:
            found["gates"] = {name: _fields(one) for name, one in self.gates.items()}
        if self.differences is not None:
            found |= {"rows": self.num_rows, "differences": [asdict(one) for one in self.differences]}
        return found

    def table(self) -> str:
        """Return a summary and a Markdown table of the differences."""
        differences = self.differences or []
        rows = [("row", "question or text", "passage", "right", *self.names), ("---",) * 6]
        for one in differences:
            marks = [("✗ ", "✓ ")[right] for right in one.right] or ["", ""]
            answers = [mark + answer for mark, answer in zip(marks, one.answers, strict=True)]
            rows.append((one.name, one.question, one.context, " / ".join(one.gold), *answers))
        lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
        return "\n".join([self.summary(), *(["", *lines] if differences else [])])

    def summary(self) -> str:
        """Return the number of rows with different answers, and how often each model is correct on these rows."""
        differences = self.differences or []
        judged = [one.right for one in differences if one.right]
        text = f"{len(differences)} of {self.num_rows} rows are answered differently"
        if not judged:
            return text + "."
        first, second = (sum(right == alone for right in judged) for alone in ((True, False), (False, True)))
        both, neither = (sum(set(right) == {value} for right in judged) for value in (True, False))
        return (
            f"{text}: {self.names[0]} alone is right on {first}, {self.names[1]} alone on {second}, both on {both},"
            f" neither on {neither}."
        )


def _fields(one: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with arrays as values for JSON."""
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in vars(one).items()}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def labels(names: Sequence[str]) -> tuple[str, ...]:
    """Return short names of checkpoints: the last parts of their paths, or the full paths if the parts are equal."""
    short = tuple(name.rstrip("/").rpartition("/")[2] or name for name in names)
    return short if len(set(short)) == len(short) else tuple(names)
