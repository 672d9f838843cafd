"""Results of an inspection as the content of a file: a picture, a page, JSON, or a table in Markdown."""

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
"""Side by side in a picture."""

SUFFIXES = (*(f".{form}" for form in FORMATS), ".html", ".json")


@dataclass(frozen=True)
class Findings:
    """Results of one kind from one model or two.

    Attributes:
        names: of the models.
        maps, texts: each with the name of its model.
        gates: by the name of the model.
        differences: rows that two models answer differently, of `num_rows`.
        num_rows: how many were asked.
    """

    names: tuple[str, ...]
    maps: list[tuple[str, AttentionMap]] = field(default_factory=list)
    texts: list[tuple[str, TokenWeights]] = field(default_factory=list)
    gates: dict[str, GateValues] = field(default_factory=dict)
    differences: list[Difference] | None = None
    num_rows: int = 0

    def render(self, suffix: str) -> str | bytes:
        """The content of a file of one of `SUFFIXES`.

        Raises:
            ValueError: there is no picture of this.
        """
        if suffix == ".json":
            return json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n"
        if suffix == ".html":
            return self.page()
        return self.picture(suffix.removeprefix("."))

    def picture(self, form: str) -> bytes:
        """A picture of all maps or texts, or of the gates."""
        if self.differences is not None:
            raise ValueError("there is no picture of rows that are answered differently: write .html or .json.")
        if self.gates:
            return picture(draw_gates(self.gates), form)
        if self.texts:
            names, texts = zip(*self.texts, strict=True)
            own = (*self.names, *[""] * (len(texts) - 1))  # one model is named above the first text
            return picture(draw_token_weights(texts, names if len(self.names) > 1 else own), form)
        if len(self.maps) > MOST_MAPS:
            raise ValueError(f"{len(self.maps)} maps do not fit into a picture, which shows {MOST_MAPS}: write .html.")
        names, maps = zip(*self.maps, strict=True)
        return picture(draw_maps(maps, names), form)

    def page(self) -> str:
        """A page with everything."""
        return render_page(
            "What " + " and ".join(self.names) + (" answer" if self.differences is not None else " looked at"),
            maps=[(f"{name}\n{one.title}", one) for name, one in self.maps],
            texts=[(name if len(self.names) > 1 else "", one) for name, one in self.texts],
            gates=self.gates,
            differences=self.differences,
            names=self.names,
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, with full numbers."""
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
        """The differences as a table in Markdown, below a line that counts them."""
        differences = self.differences or []
        rows = [("row", "question or text", "passage", "right", *self.names), ("---",) * 6]
        for one in differences:
            marks = [("✗ ", "✓ ")[right] for right in one.right] or ["", ""]
            answers = [mark + answer for mark, answer in zip(marks, one.answers, strict=True)]
            rows.append((one.name, one.question, one.context, " / ".join(one.gold), *answers))
        lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
        return "\n".join([self.summary(), *(["", *lines] if differences else [])])

    def summary(self) -> str:
        """Count the rows that are answered differently, and who is right there."""
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
    """The fields of a dataclass of arrays, as json holds them."""
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in vars(one).items()}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def labels(names: Sequence[str]) -> tuple[str, ...]:
    """Return short names of checkpoints: the last parts of their paths if these differ."""
    short = tuple(name.rstrip("/").rpartition("/")[2] or name for name in names)
    return short if len(set(short)) == len(short) else tuple(names)
