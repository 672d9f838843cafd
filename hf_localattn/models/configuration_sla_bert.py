"""Configuration of SLA, syntax-aware local attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .configuration_local_attention import LocalAttentionConfig
from .sla_alignment import STRUCTURE

if TYPE_CHECKING:
    # Never run: see configuration_cool.py.
    from .modeling_sla_bert import SlaBertModel  # noqa: F401

GATED = ("syntax", "window")
"""Local attentions that are mixed with the global one by a gate."""

MOST_STEPS = 100
"""Edges and neighbors that are counted: each costs a pass over all pairs of tokens."""


class SlaBertConfig(LocalAttentionConfig):
    """Configuration of SLA: which tokens the local attention of each layer sees, or what it is compared with.

    Args:
        backbone_config: configuration of the encoder (BERT when absent).
        local_attention: "syntax", the paper's: words within reach in the dependency tree; "window" (WLA): words within
            a window; "none": the backbone alone; and the paper's baselines, which have no gates: "sgnet", one more
            layer on top whose words see themselves and their syntactic ancestors; "lisa", the last head of every layer
            taught to attend to the syntactic parent.
        syntax_threshold: m of equation 3, edges of the tree (the paper: 3 or 4).
        neighbor_window: words on either side from which the edges count too (equation 2: 1).
        connect_roots: join the roots of a text's sentences pairwise by edges.
        window_size: words on either side that "window" sees (the paper: 3, 4 and 5).
        sla_layers: numbers, from 0, of the layers that have local attention; all when absent.
        gate_bias_init: b of equation 5 at the beginning; with 0 a gate begins at about 0.5.
        lisa_loss_weight: what the supervision of "lisa" counts beside the task's loss.
        pooler_begins_afresh: the backbone's checkpoint has no pooler, so that the one here is not pretrained. Loading
            sets it; it decides which learning rate trains the pooler, here and wherever this model is loaded again.

    Raises:
        ValueError: a field has an impossible value; the message names it and the remedy.
    """

    model_type = "sla-bert"
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LocalAttentionConfig.keys_to_ignore_at_inference,
        "gates",
        "pooler_output",
    ]
    tested_backbones: ClassVar[Sequence[str]] = ("bert", "roberta", "electra")
    controlling_fields: ClassVar[Sequence[str]] = ("local_attention",)

    local_attention: str = "syntax"
    syntax_threshold: int = 3
    neighbor_window: int = 1
    connect_roots: bool = False
    window_size: int = 3
    sla_layers: list[int] | None = None
    gate_bias_init: float = 0.0
    lisa_loss_weight: float = 1.0
    pooler_begins_afresh: bool = False

    def active_fields(self) -> dict[tuple[str, ...], bool]:
        kind = self.local_attention
        return {
            ("syntax_threshold", "neighbor_window", "connect_roots"): kind == "syntax",
            ("window_size",): kind == "window",
            ("gate_bias_init",): kind in GATED,
            ("sla_layers",): kind in (*GATED, "lisa"),
            ("lisa_loss_weight",): kind == "lisa",
        }

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        return {"parser": None} if self.local_attention in ("window", "none") else {}

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """Structure of a text that the local attention reads; "lisa" if there are labels."""
        needed = {"syntax": STRUCTURE, "sgnet": STRUCTURE, "window": STRUCTURE[:1], "lisa": STRUCTURE[1:]}
        return needed.get(self.local_attention, ())

    @property
    def sla_layer_indices(self) -> list[int]:
        """The numbers of the layers that `sla_layers` means."""
        return list(range(self.num_hidden_layers)) if self.sla_layers is None else sorted(self.sla_layers)

    @property
    def num_active_local_layers(self) -> int:
        """Number of layers with local attention weights of their own."""
        if self.local_attention == "sgnet":
            return 1
        return len(self.sla_layer_indices) if self.local_attention in GATED else 0

    @property
    def classifier_dropout(self) -> float:
        """Dropout before the last linear layer of the heads: the backbone's."""
        own = getattr(self.backbone_config, "classifier_dropout", None)
        return self.backbone_config.hidden_dropout_prob if own is None else own

    @classifier_dropout.setter
    def classifier_dropout(self, value: float | None) -> None:
        """Set the backbone's."""
        self.backbone_config.classifier_dropout = value

    def check_fields(self) -> None:
        self._check_choice("local_attention", ("syntax", "window", "none", "sgnet", "lisa"))
        self._check_bools("connect_roots", "pooler_begins_afresh")
        self._check_at_least("syntax_threshold", 0, MOST_STEPS)
        self._check_at_least("neighbor_window", 0, MOST_STEPS)
        self._check_at_least("window_size", 0)
        self._check_number("gate_bias_init", -math.inf, math.inf)
        self._check_number("lisa_loss_weight", 0.0, math.inf)
        layers = self.sla_layers
        if layers is None:
            return
        count = self.num_hidden_layers
        numbers = isinstance(layers, list | tuple) and bool(layers) and all(type(layer) is int for layer in layers)
        if not numbers or len(set(layers)) != len(layers) or not all(0 <= layer < count for layer in layers):
            raise ValueError(
                f"`sla_layers` is {layers!r}; give a list of different layer numbers from 0 to {count - 1}."
            )
