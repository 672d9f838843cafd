"""Configuration of SAM, sequential attention."""

from typing import Annotated, ClassVar, Literal

from .configuration_local_attention import LocalAttentionConfig, Positive, Probability, Range

Fraction = Annotated[float, Range("a number in [0, 1]", lambda value: 0 <= value <= 1)]

BASELINES = ("rba", "disan")
"""Poolings whose layers are in sam_baselines.py."""


class SamRobertaConfig(LocalAttentionConfig):
    """Configuration of a SAM model: a pretrained encoder with attention over the features and tokens of a text.

    Args:
        backbone_config (PreTrainedConfig or dict, *optional*, defaults to RoBERTa's): Configuration of the encoder.
        pooling (str, *optional*, defaults to "sam"): Pooling of a text into one vector: "sam", sequential attention,
            or a baseline of the paper: "none", the mean of the encoder's states; "rb", the mean of the states of a
            BiLSTM; "rba", attention over the states of a BiLSTM; "disan", directional self-attention.
        use_bilstm (bool, *optional*, defaults to True): Put a BiLSTM between the encoder and "sam", as in the paper.
        bilstm_hidden_size (int, *optional*, defaults to 256): Width of each direction of the BiLSTM.
        num_bilstm_layers (int, *optional*, defaults to 2): Number of layers of the BiLSTM.
        bilstm_merge (str, *optional*, defaults to "concat"): Combination of its two directions: "concat" or "sum".
        use_fam (bool, *optional*, defaults to True): Weight the features of a text with FAM, the feature-wise
            attention (equations 2-4).
        fam_reduction (int, *optional*, defaults to 16): Reduction of the hidden layer of FAM: its width is the number
            of features divided by this.
        fam_threshold (float, *optional*, defaults to 0.0): delta of equation 3, in [0, 1]. It is subtracted from the
            feature weights, and negative weights become 0. Initial weights are about 0.5: with a larger delta all
            features may be 0, and then nothing below the classifier is trained.
        learn_fam_threshold (bool, *optional*, defaults to False): Train delta. Its initial value is `fam_threshold`,
            or 0.1 if that is 0.
        use_tam (bool, *optional*, defaults to True): Weight the tokens of a text with TAM, the token-wise attention
            (equations 5 and 6).
        tam_ffn (str, *optional*, defaults to "position"): Network of TAM: "position" reads all positions at once;
            "token" reads one token at a time.
        tam_max_length (int, *optional*, defaults to 512): Number of positions that "position" reads. Longer texts
            raise an error.
        tam_hidden_size (int, *optional*): Width of the hidden layer of TAM. By default `tam_max_length // 16` for
            "position" and 16 for "token".
        tam_softmax (str, *optional*, defaults to "softmax"): Normalization of the token weights: "softmax"; or
            "entmax15", which gives many tokens the weight 0. It is not in the paper.
        attention_order (str, *optional*, defaults to "fam_tam"): "fam_tam", features before tokens; or "tam_fam".
        disan_hidden_size (int, *optional*, defaults to 300): Width of each direction of "disan".
        dropout (float, *optional*, defaults to 0.1): Dropout probability between the layers of the BiLSTM and before
            the last layer of the classification heads.
        freeze_backbone (bool, *optional*, defaults to False): Keep the encoder fixed, without gradients or dropout. A
            later change takes effect at the next call of `train()`.
        **kwargs: Fields of `LocalAttentionConfig` and `PreTrainedConfig`, such as `num_labels`.
    """

    model_type = "sam-roberta"
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LocalAttentionConfig.keys_to_ignore_at_inference,
        "feature_attention",
        "token_attention",
        "pooler_output",
    ]
    default_backbone: ClassVar[str] = "roberta"

    pooling: Literal["sam", "none", "rb", "rba", "disan"] = "sam"
    use_bilstm: bool = True
    bilstm_hidden_size: Positive = 256
    num_bilstm_layers: Positive = 2
    bilstm_merge: Literal["concat", "sum"] = "concat"
    use_fam: bool = True
    fam_reduction: Positive = 16
    fam_threshold: Fraction = 0.0
    learn_fam_threshold: bool = False
    use_tam: bool = True
    tam_ffn: Literal["position", "token"] = "position"
    tam_max_length: Positive = 512
    tam_hidden_size: Positive | None = None
    tam_softmax: Literal["softmax", "entmax15"] = "softmax"
    attention_order: Literal["fam_tam", "tam_fam"] = "fam_tam"
    disan_hidden_size: Positive = 300
    dropout: Probability = 0.1
    freeze_backbone: bool = False

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
