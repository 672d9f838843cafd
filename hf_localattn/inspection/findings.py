"""Results of an inspection as a picture, an HTML page, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
    """

    names: tuple[str, ...]
    maps: list[tuple[str, AttentionMap]] = field(default_factory=list)
    texts: list[tuple[str, TokenWeights]] = field(default_factory=list)
    gates: dict[str, GateValues] = field(default_factory=dict)

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
            "Attention of " + " and ".join(self.names),
            maps=[(f"{name}\n{one.title}", one) for name, one in self.maps],
            texts=[(name if len(self.names) > 1 else "", one) for name, one in self.texts],
            gates=self.gates,
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
        return found


def _fields(one: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with arrays as values for JSON."""
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in vars(one).items()}


def labels(names: Sequence[str]) -> tuple[str, ...]:
    """Return short names of checkpoints: the last parts of their paths, or the full paths if the parts are equal."""
    short = tuple(name.rstrip("/").rpartition("/")[2] or name for name in names)
    return short if len(set(short)) == len(short) else tuple(names)
