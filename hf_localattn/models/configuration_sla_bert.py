"""Configuration of syntax-aware local attention (SLA)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from .configuration_local_attention import Count, LocalAttentionConfig, NonNegative, Positive

STRUCTURE = ("word_index", "dep_heads")
"""Names of the inputs that the tokenizer adds and the models read, one value per token."""

GATED = ("syntax", "window", "soft")
"""Kinds of local attention that a gate mixes with global attention."""


class SlaBertConfig(LocalAttentionConfig):
    """Configuration of an SLA model: an encoder with syntax-aware local attention in its layers.

    Args:
        backbone_config (PreTrainedConfig or dict, *optional*, defaults to BERT's): Configuration of the encoder.
        local_attention (str, *optional*, defaults to "syntax"): Local attention, or a baseline of the paper:

            * "syntax": words attend to words that are near in the dependency tree (the paper's SLA).
            * "window": words attend to words that are near in the text (the paper's WLA).
            * "soft": as "syntax", but in place of a limit the scores fall with the distance in the tree, by a slope
              that each layer learns. It is not in the paper.
            * "none": the backbone without local attention.
            * "sgnet": more layers on top of the encoder, without gates, in which words attend to themselves and to
              their syntactic ancestors.
            * "lisa": no gates; the last head of each layer is trained to attend to the syntactic parent.
        syntax_threshold (int, *optional*, defaults to 3): Largest distance in edges of the dependency tree, m of
            equation 3. The paper uses 3 and 4. For "soft" larger distances count as m + 1. Only for "syntax" and
            "soft", as are the next three fields.
        neighbor_window (int, *optional*, defaults to 1): Number of neighbors on each side of a word. Distances in the
            tree are measured from the word or from the nearest of its neighbors (equation 2).
        connect_roots (bool, *optional*, defaults to False): If True, edges connect the roots of all sentences of a
            text. The paper treats several sentences as one (ChnSentiCorp) and does not say how their trees are joined.
        pair_attention (str, *optional*, defaults to "all"): Words that a word attends to in the other text of a pair:
            "all", as in the paper; or "shared_words", those near a word that both texts have: the distance is the sum
            of the distances to that word in both trees.
        window_size (int, *optional*, defaults to 3): Number of visible words on each side. The paper uses 3, 4 and 5.
            Only for "window".
        sla_layers (list of int, *optional*, defaults to all layers): Indices of the layers that have local attention,
            from 0. Only for "syntax", "soft", "window" and "lisa".
        gate_bias_init (float, *optional*, defaults to 0.0): Initial value of the gates' bias, b of equation 5. Gates
            start near 0.5 with 0. Only for "syntax", "soft" and "window".
        num_sgnet_layers (int, *optional*, defaults to 1): Number of layers on top of the encoder. With BERT-base, 1
            makes 116.6 million parameters and 3 make 130.7; the paper has 133. Only for "sgnet".
        lisa_loss_weight (float, *optional*, defaults to 1.0): Weight of the loss of "lisa" in the sum with the task
            loss.
        pooler_begins_afresh (bool, *optional*, defaults to False): True if the pooler is new, because the backbone's
            checkpoint has none. Set when a backbone is loaded.
    """

    model_type = "sla-bert"
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LocalAttentionConfig.keys_to_ignore_at_inference,
        "gates",
        "pooler_output",
    ]
    tested_backbones: ClassVar[Sequence[str]] = ("bert", "roberta", "electra")

    local_attention: Literal["syntax", "window", "soft", "none", "sgnet", "lisa"] = "syntax"
    syntax_threshold: Count = 3
    neighbor_window: Count = 1
    connect_roots: bool = False
    pair_attention: Literal["all", "shared_words"] = "all"
    window_size: Count = 3
    sla_layers: list[int] | None = None
    gate_bias_init: float = 0.0
    num_sgnet_layers: Positive = 1
    lisa_loss_weight: NonNegative = 1.0
    pooler_begins_afresh: bool = False

    @property
    def entry_module(self) -> str:
        if self.has_own_mask:
            return "sla_distances"
        return "sla_baselines" if self.local_attention in ("sgnet", "lisa") else super().entry_module

    @property
    def has_own_mask(self) -> bool:
        """True if the local mask is computed from distances, for a soft threshold or for pairs of texts."""
        limits_pairs = self.local_attention == "syntax" and self.pair_attention != "all"
        return self.local_attention == "soft" or limits_pairs

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that local attention needs; "lisa" needs them only in training."""
        if self.local_attention in ("syntax", "soft", "sgnet"):
            return STRUCTURE
        return {"window": STRUCTURE[:1], "lisa": STRUCTURE[1:]}.get(self.local_attention, ())

    @property
    def sla_layer_indices(self) -> list[int]:
        """Sorted indices of the layers that `sla_layers` selects."""
        return list(range(self.num_hidden_layers)) if self.sla_layers is None else sorted(self.sla_layers)

    @property
    def num_active_local_layers(self) -> int:
        """Number of layers with weights for local attention."""
        if self.local_attention == "sgnet":
            return self.num_sgnet_layers
        return len(self.sla_layer_indices) if self.local_attention in GATED else 0

    @property
    def classifier_dropout(self) -> float:
        """Dropout before the last linear layer of the heads, as in the backbone."""
        dropout = getattr(self.backbone_config, "classifier_dropout", None)
        return self.backbone_config.hidden_dropout_prob if dropout is None else dropout

    @classifier_dropout.setter
    def classifier_dropout(self, value: float | None) -> None:
        """Set the dropout in the backbone's configuration."""
        self.backbone_config.classifier_dropout = value

    def pipelines(self) -> dict[str, Any]:
        for task, head in (("text", "Sequence"), ("token", "Token")):
            if "".join(self.architectures or ()).endswith(f"For{head}Classification"):
                implementation = f"pipeline_parsing.Parsing{task.title()}ClassificationPipeline"
                entry = {"impl": implementation, "pt": [f"AutoModelFor{head}Classification"]}
                return {**super().pipelines(), f"{task}-classification": entry}
        return super().pipelines()

    def check_fields(self) -> None:
        if self.mlm_residual:
            raise ValueError(
                "`mlm_residual` is True, but the local attention is inside the backbone: set it to False. To start "
                "near the backbone's predictions, set `gate_bias_init` to a low value, such as -10."
            )
        if self.sla_layers is None:
            return
        count = self.num_hidden_layers
        distinct = set(self.sla_layers)
        is_valid = distinct and len(distinct) == len(self.sla_layers) and distinct <= set(range(count))
        if not is_valid:
            raise ValueError(
                f"`sla_layers` is {self.sla_layers!r}; give a list of distinct layer indices from 0 to {count - 1}."
            )
