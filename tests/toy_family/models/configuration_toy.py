"""Configuration of the toy family."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from .configuration_local_attention import LocalAttentionConfig
from .fields_toy import ToyFields


class ToyConfig(ToyFields, LocalAttentionConfig):
    """Configuration of the toy family."""

    model_type = "toy"
    tested_backbones: ClassVar[Sequence[str]] = ("bert",)

    heads: ClassVar[Mapping[str, str]] = {
        "AutoModel": "Model",
        "AutoModelForSequenceClassification": "ForSequenceClassification",
    }

    @property
    def num_active_local_layers(self) -> int:
        """Number of layers with local attention weights."""
        return self.num_toy_layers
