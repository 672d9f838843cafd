"""Benchmark cases: each a handful of variants of one computation, the first of which is the peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

Step = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """One benchmark: variants are built on a device and return a step that can be run again and again."""

    name: str
    what: str
    variants: Callable[[torch.device], dict[str, Step]]
    time_targets: dict[str, float] = field(default_factory=dict)
    """The largest time ratio to the peer that a variant should have."""
    memory_targets: dict[str, float] = field(default_factory=dict)


CASES: dict[str, Case] = {}


def case(
    name: str,
    what: str,
    time_targets: dict[str, float] | None = None,
    memory_targets: dict[str, float] | None = None,
) -> Callable[[Callable[[torch.device], dict[str, Step]]], Callable[[torch.device], dict[str, Step]]]:
    """Register a function that builds a case's variants; the first one is the peer of all others."""

    def register(variants: Callable[[torch.device], dict[str, Step]]) -> Callable[[torch.device], dict[str, Step]]:
        CASES[name] = Case(name, what, variants, time_targets or {}, memory_targets or {})
        return variants

    return register
