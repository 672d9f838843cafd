"""The same maps and weights as one page for a browser, which needs nothing else: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from hf_localattn.inspection.differences import Difference
from hf_localattn.inspection.maps import AttentionMap
from hf_localattn.inspection.weights import GateValues, TokenWeights

LIGHT, MIDDLE, DARK = (247, 251, 255), (107, 174, 214), (8, 48, 107)
"""Red, green and blue at 0, half way and at the largest weight: those of the pictures."""


def render_page(
    title: str,
    *,
    maps: Sequence[tuple[str, AttentionMap]] = (),
    texts: Sequence[tuple[str, TokenWeights]] = (),
    gates: Mapping[str, GateValues] | None = None,
    differences: Sequence[Difference] | None = None,
    names: Sequence[str] = ("first", "second"),
) -> str:
    """Return a page with whatever is given; hovering over a color tells its number.

    Args:
        title: of the page.
        maps: each with its heading; all in one scale of colors, as are texts and gates.
        texts: likewise.
        gates: by name of the model.
        differences: rows to which two models answer differently.
        names: of these models.
    """
    by_layer = {name: dict(zip(one.layers, one.means.tolist(), strict=True)) for name, one in (gates or {}).items()}
    weights = [one.weights for _, one in maps] + [one.weights for _, one in texts if one.tokens]
    most = max((float(one.max()) for one in weights), default=1.0 if gates else 0.0)

    def share(weight: float) -> float:
        return min(weight / most, 1.0) if most else 0.0

    environment = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = files("hf_localattn.inspection").joinpath("templates", "page.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=title,
        maps=maps,
        texts=texts,
        gates=by_layer,
        layers=sorted({layer for values in by_layer.values() for layer in values}),
        differences=differences,
        names=names,
        most=most if weights or gates else None,
        scale_label="weight of a token" if texts else "gate" if gates else "attention",
        color=lambda weight: color(share(weight)),
        ink=lambda weight: "#fff" if share(weight) > 0.6 else "#111",
        gradient=", ".join(map(color, (0.0, 0.25, 0.5, 0.75, 1.0))),
    )


def color(share: float) -> str:
    """The color of a share of the largest weight, from 0 to 1, as a style sheet writes it."""
    (begin, end), place = ((LIGHT, MIDDLE), 2 * share) if share < 0.5 else ((MIDDLE, DARK), 2 * share - 1)
    return "#" + "".join(f"{round(low + (high - low) * place):02x}" for low, high in zip(begin, end, strict=True))
