"""Configuration of SAM, sequential attention."""

from typing import ClassVar

from .configuration_local_attention import LocalAttentionConfig
from .fields_sam_roberta import BASELINES, SamRobertaFields


class SamRobertaConfig(SamRobertaFields, LocalAttentionConfig):
    """Configuration of a SAM model: a pretrained encoder with attention over the features and tokens of a text."""

    model_type = "sam-roberta"
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LocalAttentionConfig.keys_to_ignore_at_inference,
        "feature_attention",
        "token_attention",
        "pooler_output",
    ]
    default_backbone: ClassVar[str] = "roberta"

    @property
    def entry_module(self) -> str:
        if self.pooling in BASELINES:
            return "sam_baselines"
        return "sam_entmax" if self.has_tam and self.tam_softmax == "entmax15" else super().entry_module

    @property
    def has_bilstm(self) -> bool:
        """True if the model has a BiLSTM."""
        return self.pooling in ("rb", "rba") or (self.pooling == "sam" and self.use_bilstm)

    @property
    def has_tam(self) -> bool:
        """True if the model has token-wise attention."""
        return self.pooling == "sam" and self.use_tam

    @property
    def max_tokens(self) -> int | None:
        return self.tam_max_length if self.has_tam and self.tam_ffn == "position" else None

    @property
    def encoded_size(self) -> int:
        """Width D of the states that are pooled, those of the BiLSTM or of the encoder."""
        if not self.has_bilstm:
            return self.encoder_size
        return self.bilstm_hidden_size * (2 if self.bilstm_merge == "concat" else 1)

    @property
    def output_size(self) -> int:
        """Width of the last hidden states and of the pooled vectors."""
        return 2 * self.disan_hidden_size if self.pooling == "disan" else self.encoded_size

    @property
    def classifier_dropout(self) -> float:
        """Dropout probability before the last layer of the classification heads."""
        return self.dropout

    def check_fields(self) -> None:
        if self.learn_fam_threshold and self.fam_threshold == 1:
            raise ValueError("`fam_threshold` is 1; a learned threshold is a sigmoid and must be less than 1.")
