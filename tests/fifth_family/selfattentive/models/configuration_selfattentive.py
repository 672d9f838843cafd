"""Configuration of structured self-attentive embeddings."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from .configuration_local_attention import LocalAttentionConfig
from .fields_selfattentive import SelfAttentiveFields


class SelfAttentiveConfig(SelfAttentiveFields, LocalAttentionConfig):
    """Configuration of an encoder with structured self-attentive embeddings of texts."""

    model_type = "selfattentive"
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LocalAttentionConfig.keys_to_ignore_at_inference,
        "pooler_output",
    ]
    tested_backbones: ClassVar[Sequence[str]] = ("bert", "roberta")
    heads: ClassVar[Mapping[str, str]] = {
        "AutoModel": "Model",
        "AutoModelForSequenceClassification": "ForSequenceClassification",
        "AutoModelForMultipleChoice": "ForMultipleChoice",
    }

    num_active_local_layers = 1

    @property
    def output_size(self) -> int:
        """Width of the hidden states and of the embeddings."""
        return 2 * self.bilstm_hidden_size if self.use_bilstm else self.encoder_size
