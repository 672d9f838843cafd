"""Configuration of syntax-aware local attention (SLA)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from .configuration_local_attention import LocalAttentionConfig
from .fields_sla_bert import GATED, SlaBertFields

STRUCTURE = ("word_index", "dep_heads")
"""Names of the inputs that the tokenizer adds and the models read, one value per token."""


class SlaBertConfig(SlaBertFields, LocalAttentionConfig):
    """Configuration of an SLA model: an encoder with syntax-aware local attention in its layers."""

    model_type = "sla-bert"
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LocalAttentionConfig.keys_to_ignore_at_inference,
        "gates",
        "pooler_output",
    ]
    tested_backbones: ClassVar[Sequence[str]] = ("bert", "roberta", "electra")

    @property
    def entry_module(self) -> str:
        if self.local_mask == "distances":
            return "sla_distances"
        return "sla_baselines" if self.local_attention in ("sgnet", "lisa") else super().entry_module

    @property
    def local_mask(self) -> str:
        """Computation of the local mask: "distances", for a soft threshold or limited pairs of texts, or "tables"."""
        limits_pairs = self.local_attention == "syntax" and self.pair_attention != "all"
        return "distances" if self.local_attention == "soft" or limits_pairs else "tables"

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
