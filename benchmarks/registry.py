"""Registry of benchmark cases. A case has several variants of one computation; the first is the peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

Step = Callable[[], None]


@dataclass(frozen=True)
class Scale:
    """Sizes of the models and inputs of a case.

    Attributes:
        encoder: Fields of the encoders; those of the base size by default.
        vocabulary: Number of token ids.
        longest: Upper limit of lengths and batches.
    """

    encoder: Mapping[str, int] = field(default_factory=dict)
    vocabulary: int = 30_000
    longest: int | None = None

    def limit(self, count: int) -> int:
        """Return a length or a size of a batch."""
        return count if self.longest is None else min(count, self.longest)

    def token_ids(self, batch: int, length: int) -> torch.Tensor:
        """Return random ids (B, L) of ordinary tokens."""
        return torch.randint(self.vocabulary // 30, self.vocabulary, (batch, length))

    def padded_batch(self, batch: int, length: int, padding: slice) -> dict[str, torch.Tensor]:
        """Return ids and their mask, each (B, L). Every other row has padding."""
        ids = self.token_ids(batch, length)
        mask = torch.ones(batch, length, dtype=torch.long)
        mask[::2, padding] = 0
        return {"input_ids": ids, "attention_mask": mask}


def train_step(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> None:
    """Compute the loss and the gradients of a batch."""
    model(**inputs).loss.backward()
    model.zero_grad(set_to_none=True)


MEASURED = Scale()
TINY = Scale(
    {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
    vocabulary=300,
    longest=12,
)
"""Sizes with which tests run each case."""

Variants = Callable[[torch.device, Scale], dict[str, Step]]


@dataclass(frozen=True)
class Case:
    """A benchmark. `variants` builds repeatable steps on a device, of a scale."""

    name: str
    what: str
    variants: Variants
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
) -> Callable[[Variants], Variants]:
    """Register a function that builds the variants of a case. The first variant is the peer of the others."""

    def register(variants: Variants) -> Variants:
        CASES[name] = Case(name, what, variants, time_targets or {}, memory_targets or {}, check, bounds)
        return variants

    return register
