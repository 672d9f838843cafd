"""Registry of benchmark cases. A case has several variants of one computation; the first is the peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

Step = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """A benchmark. `variants` builds repeatable steps on a device."""

    name: str
    what: str
    variants: Callable[[torch.device], dict[str, Step]]
    time_targets: dict[str, float] = field(default_factory=dict)
    """Target for the time ratio to the peer, by variant; smaller is better."""
    memory_targets: dict[str, float] = field(default_factory=dict)
    check: Callable[[torch.device], None] | None = None
    """Raises `AssertionError` if the variants do not compute the same. No speed is then reported."""
    bounds: Callable[[torch.device], dict[str, float]] | None = None
    """Measures lower bounds of the seconds of a step on this device, by name of the limit."""


CASES: dict[str, Case] = {}


def case(
    name: str,
    what: str,
    time_targets: dict[str, float] | None = None,
    memory_targets: dict[str, float] | None = None,
    check: Callable[[torch.device], None] | None = None,
    bounds: Callable[[torch.device], dict[str, float]] | None = None,
) -> Callable[[Callable[[torch.device], dict[str, Step]]], Callable[[torch.device], dict[str, Step]]]:
    """Register a function that builds the variants of a case. The first variant is the peer of the others."""

    def register(variants: Callable[[torch.device], dict[str, Step]]) -> Callable[[torch.device], dict[str, Step]]:
        CASES[name] = Case(name, what, variants, time_targets or {}, memory_targets or {}, check, bounds)
        return variants

    return register
