"""Configuration of SAM, sequential attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from transformers.utils import logging

from .configuration_local_attention import LocalAttentionConfig
from .sam_attention import ATTENTION_ORDERS, TOKEN_FFNS, check_threshold
from .sam_bilstm import MERGES

if TYPE_CHECKING:
    # Never run: see configuration_cool.py.
    from .modeling_sam_roberta import SamRobertaModel  # noqa: F401

logger = logging.get_logger(__name__)

COMMON_WEIGHT = 0.5
"""Feature weight of an untrained network: the sigmoid of about 0."""
POOLINGS = ("sam", "none", "rb", "rba", "disan")


class SamRobertaConfig(LocalAttentionConfig):
    """Configuration of SAM: how features and tokens are weighed on top of an encoder, or what this is compared with.

    Args:
        backbone_config: configuration of the encoder (RoBERTa when absent).
        pooling: how a text becomes one vector: "sam", the paper's; or its baselines: "none", the mean of the encoder's
            states; "rb", the mean of those of a BiLSTM above it; "rba", attention over the states of the BiLSTM;
            "disan", a directional self-attention network on the encoder.
        use_bilstm: let "sam" read a BiLSTM on the encoder, as in the paper, not the encoder itself.
        bilstm_hidden_size: width of each direction of the BiLSTM.
        num_bilstm_layers: its layers.
        bilstm_merge: how its directions are joined: "concat", or "sum".
        use_fam: weigh the features of a text (equations 2-4).
        fam_reduction: the network that does has a hidden layer so many times narrower than its input.
        fam_threshold: delta of equation 3, in [0, 1]: features that weigh less are left out. Weights begin about 0.5.
        learn_fam_threshold: train delta, which begins at `fam_threshold`, or at 0.1 if that is 0.
        use_tam: weigh the tokens of a text (equations 5 and 6).
        tam_ffn: what the network that does reads: "position", all positions at once, or "token", one token at a time.
        tam_max_length: positions that "position" has; longer texts are refused.
        tam_hidden_size: width of its hidden layer; when absent 16, or for "position" a 16th of the positions.
        attention_order: "fam_tam", or "tam_fam", tokens first.
        disan_hidden_size: width of each direction of "disan".
        dropout: between the layers of the BiLSTM, and before the last layer of the classifying heads.
        freeze_backbone: use the encoder as it is, without training or dropout. Changed later it counts from the next
            call of `train()` on.

    Raises:
        ValueError: a field has an impossible value; the message names it and the remedy.
    """

    model_type = "sam-roberta"
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LocalAttentionConfig.keys_to_ignore_at_inference,
        "feature_attention",
        "token_attention",
        "pooler_output",
    ]
    default_backbone: ClassVar[str] = "roberta"
    attribute_map: ClassVar[dict[str, str]] = {"head": "pooling", "order": "attention_order"}
    controlling_fields: ClassVar[Sequence[str]] = ("pooling", "use_bilstm", "use_fam", "use_tam", "tam_ffn")

    pooling: str = "sam"
    use_bilstm: bool = True
    bilstm_hidden_size: int = 256
    num_bilstm_layers: int = 2
    bilstm_merge: str = "concat"
    use_fam: bool = True
    fam_reduction: int = 16
    fam_threshold: float = 0.0
    learn_fam_threshold: bool = False
    use_tam: bool = True
    tam_ffn: str = "position"
    tam_max_length: int = 512
    tam_hidden_size: int | None = None
    attention_order: str = "fam_tam"
    disan_hidden_size: int = 300
    dropout: float = 0.1
    freeze_backbone: bool = False

    def active_fields(self) -> dict[tuple[str, ...], bool]:
        return {
            ("use_bilstm", "use_fam", "use_tam"): self.pooling == "sam",
            ("bilstm_hidden_size", "num_bilstm_layers", "bilstm_merge"): self.has_bilstm,
            ("fam_reduction", "fam_threshold", "learn_fam_threshold"): self.has_fam,
            ("tam_ffn", "tam_hidden_size"): self.has_tam,
            ("tam_max_length",): self.max_tokens is not None,
            ("attention_order",): self.has_fam and self.has_tam,
            ("disan_hidden_size",): self.pooling == "disan",
        }

    @property
    def has_bilstm(self) -> bool:
        """True if a BiLSTM reads the encoder's states."""
        return self.pooling in ("rb", "rba") or (self.pooling == "sam" and self.use_bilstm)

    @property
    def has_fam(self) -> bool:
        """True if features are weighed."""
        return self.pooling == "sam" and self.use_fam

    @property
    def has_tam(self) -> bool:
        """True if tokens are weighed by sequential attention."""
        return self.pooling == "sam" and self.use_tam

    @property
    def max_tokens(self) -> int | None:
        return self.tam_max_length if self.has_tam and self.tam_ffn == "position" else None

    @property
    def encoded_size(self) -> int:
        """D, the width of what is pooled: the states of the BiLSTM, or of the encoder."""
        if not self.has_bilstm:
            return self.hidden_size
        return self.bilstm_hidden_size * (2 if self.bilstm_merge == "concat" else 1)

    @property
    def num_active_local_layers(self) -> int:
        """Number of layers with local attention weights: 0, as those of SAM are over a whole text."""
        return 0

    @property
    def classifier_dropout(self) -> float:
        """Dropout before the last layer of the classifying heads."""
        return self.dropout

    def check_fields(self) -> None:
        self._check_choice("pooling", POOLINGS)
        self._check_choice("bilstm_merge", MERGES)
        self._check_choice("tam_ffn", TOKEN_FFNS)
        self._check_choice("attention_order", ATTENTION_ORDERS)
        self._check_bools("use_bilstm", "use_fam", "learn_fam_threshold", "use_tam", "freeze_backbone")
        for field in (
            "bilstm_hidden_size",
            "num_bilstm_layers",
            "fam_reduction",
            "tam_max_length",
            "disan_hidden_size",
        ):
            self._check_at_least(field, 1)
        if self.tam_hidden_size is not None:
            self._check_at_least("tam_hidden_size", 1)
        self._check_number("dropout", 0.0, 1.0)
        check_threshold(self.fam_threshold, self.learn_fam_threshold)
        if self.has_fam and self.fam_threshold > COMMON_WEIGHT:
            logger.warning_once(
                f"`fam_threshold` is {self.fam_threshold}, but the weights of features begin about {COMMON_WEIGHT}: "
                "it may leave all of them out, and then nothing below the classifier is trained."
            )
