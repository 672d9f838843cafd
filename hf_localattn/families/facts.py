"""Facts about a family that the tests of all families need, and nothing else reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """Facts for tests, in `facts.py` of a family's folder.

    Attributes:
        tiny_fields: Fields that keep the new layers tiny, and without dropout: runs with it cannot be compared.
        rows: Further settings to test besides the ablations, by name.
        row_fields: Fields that all ablations and `rows` are tested with.
        traceable: Fields with which a model compiles to one graph.
        export_backbone: Backbone on which a model is exported, if it is not the default one.
        starts: Initial size of new parameters: fields, a regular expression of the names of parameters, and a function
            from a parameter to the root of its mean square.
        new_parameters: Numbers of new parameters on top of BERT-base, derived by hand from the paper's equations:
            fields and number.
    """

    tiny_fields: Fields = field(default_factory=dict)
    rows: Mapping[str, Fields] = field(default_factory=dict)
    row_fields: Fields = field(default_factory=dict)
    traceable: Fields = field(default_factory=dict)
    export_backbone: str | None = None
    starts: Sequence[tuple[Fields, str, Callable[[torch.Tensor], float]]] = ()
    new_parameters: Sequence[tuple[Fields, int]] = ()


def like_torch(weight: torch.Tensor) -> float:
    """Return the size of a weight that torch initializes, uniform up to 1 / sqrt(number of inputs)."""
    size: float = (3 * weight.shape[-1]) ** -0.5
    return size
