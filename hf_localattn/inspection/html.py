"""Self-contained HTML page with maps and weights, without scripts or external files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from hf_localattn.inspection.maps import AttentionMap
from hf_localattn.inspection.weights import GateValues, TokenWeights, scale_label

LIGHT, MIDDLE, DARK = (247, 251, 255), (107, 174, 214), (8, 48, 107)
"""Colors (RGB) at 0, at half the largest weight and at the largest weight, as in the pictures."""


def render_page(
    title: str,
    *,
    maps: Sequence[tuple[str, AttentionMap]] = (),
    texts: Sequence[tuple[str, TokenWeights]] = (),
    gates: Mapping[str, GateValues] | None = None,
) -> str:
    """Render results as an HTML page with one color scale. Hovering over a cell shows the value.

    Args:
        title: Title of the page.
        maps (*optional*): Headings and maps.
        texts (*optional*): Headings and token weights.
        gates (*optional*): Gates by the name of the model.

    Returns:
        The page.
    """
    by_layer = {name: dict(zip(one.layers, one.means.tolist(), strict=True)) for name, one in (gates or {}).items()}
    weights = [one.weights for _, one in maps] + [one.weights for _, one in texts if one.tokens]
    most = max((float(one.max()) for one in weights), default=1.0 if gates else 0.0)
    label = "attention"
    if texts:
        label = scale_label([one for _, one in texts])
    elif gates:
        label = "gate"

    def share(weight: float) -> float:
        return min(max(weight / most, 0.0), 1.0) if most > 0 else 0.0

    environment = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = files("hf_localattn.inspection").joinpath("templates", "page.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=title,
        maps=maps,
        texts=texts,
        gates=by_layer,
        layers=sorted({layer for values in by_layer.values() for layer in values}),
        most=most if weights or gates else None,
        scale_label=label,
        color=lambda weight: color(share(weight)),
        ink=lambda weight: "#fff" if share(weight) > 0.6 else "#111",
        gradient=", ".join(map(color, (0.0, 0.25, 0.5, 0.75, 1.0))),
    )


def color(share: float) -> str:
    """Return the CSS color of a share of the largest weight, from 0 to 1."""
    if share < 0.5:
        begin, end, position = LIGHT, MIDDLE, 2 * share
    else:
        begin, end, position = MIDDLE, DARK, 2 * share - 1
    channels = [round(low + (high - low) * position) for low, high in zip(begin, end, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in channels)
