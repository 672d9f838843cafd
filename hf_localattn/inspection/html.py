"""Self-contained HTML page with maps and weights, without scripts or external files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from hf_localattn.inspection.maps import AttentionMap
from hf_localattn.inspection.weights import GateValues, TokenWeights, scale_label

# Colors (RGB), as in the pictures:
LIGHT = (247, 251, 255)  # at 0
MIDDLE = (107, 174, 214)  # at half the largest weight
DARK = (8, 48, 107)  # at the largest weight

ENVIRONMENT = Environment(
    loader=PackageLoader("hf_localattn.inspection"),
    undefined=StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


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
    by_layer = {}
    for name, values in (gates or {}).items():
        by_layer[name] = dict(zip(values.layers, values.means.tolist(), strict=True))
    weights = [attention_map.weights for _, attention_map in maps]
    weights += [of_text.weights for _, of_text in texts if of_text.tokens]
    most = max((float(array.max()) for array in weights), default=1.0 if gates else 0.0)
    label = "attention"
    if texts:
        label = scale_label([of_text for _, of_text in texts])
    elif gates:
        label = "gate"

    def share(weight: float) -> float:
        return min(max(weight / most, 0.0), 1.0) if most > 0 else 0.0

    return ENVIRONMENT.get_template("page.html").render(
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
        ends = zip(LIGHT, MIDDLE, strict=True)
        position = 2 * share
    else:
        ends = zip(MIDDLE, DARK, strict=True)
        position = 2 * share - 1
    channels = [round(low + (high - low) * position) for low, high in ends]
    return "#" + "".join(f"{channel:02x}" for channel in channels)
