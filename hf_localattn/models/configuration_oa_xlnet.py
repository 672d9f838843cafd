"""Configuration of OA, orthogonal attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .configuration_local_attention import LocalAttentionConfig
from .oa_attention import check_heads, possible_heads
from .oa_interaction import BIDIRECTIONAL, CONVOLUTIONAL, INTERACTIONS, KV_SHARING, QUERY_SUMMARIES

PAPERS_HEADS = 12
"""Number of heads of XLNet-base, the paper's encoder."""


class OaXLNetConfig(LocalAttentionConfig):
    """Configuration of an OA model: a pretrained encoder with blocks of orthogonal attention.

    In a block every token attends to the tokens of a query, such as a question or the cue of a negation.

    Args:
        backbone_config (PreTrainedConfig or dict, *optional*, defaults to XLNet's): Configuration of the encoder.
        local_attention (str, *optional*, defaults to "emb"): Interaction of a token with a query token: "em",
            element-wise multiplication; "c", convolution; "emb" and "ca", the same with query vectors that depend on
            the text; or "none", the encoder alone (the paper's baseline).
        num_oa_layers (int, *optional*, defaults to 2): Number of blocks.
        oa_num_heads (int, *optional*): Number of attention heads of a block. It must divide the hidden size; for "c"
            and "ca" the width of a head must be a square. By default 12, else the backbone's number of heads, else the
            valid number closest to 12.
        oa_intermediate_size (int, *optional*): Width between the two linear layers of a block. By default the
            backbone's hidden size.
        oa_dropout (float, *optional*, defaults to 0.3): Dropout probability of the attention weights, of the input of
            the first block and of the output of the last one.
        kv_sharing (str, *optional*, defaults to "trunk"): Layers that keys and values share: "trunk", all but the last
            one; "none"; or "all".
        share_context_projection (bool, *optional*, defaults to False): Use the keys' features of the text in the query
            vectors of "emb" and "ca", too.
        conv_num_filters (int, *optional*): Number of filters of the convolution in "c" and "ca". Defaults to the size
            of a filter; 1 is the printed equation.
        query_summary (str, *optional*, defaults to "tanh"): Summary of the text for a query token in "emb" and "ca":
            "tanh", with the output layer of PyTorch-NLP's attention; or "plain", without it.
        oa_chunk_size (int, *optional*): Number of tokens whose attention is computed at a time, and recomputed in the
            backward pass. Chunks save memory with long queries (question answering) but are slower; the result is the
            same. By default all tokens at once.
        classifier_dropout (float, *optional*, defaults to 0.3): Dropout probability before the last layer of the
            heads.
        **kwargs: Fields of `LocalAttentionConfig` and `PreTrainedConfig`, such as `num_labels`.

    Raises:
        ValueError: A field has an invalid value. The message names the field, the value and valid ones.

    Example:
        >>> from hf_localattn import OaXLNetConfig
        >>> config = OaXLNetConfig(local_attention="ca", num_oa_layers=1)
        >>> config.oa_num_heads
        16
    """

    model_type = "oa-xlnet"
    default_backbone = "xlnet"
    controlling_fields: ClassVar[Sequence[str]] = ("local_attention",)
    attribute_map: ClassVar[dict[str, str]] = {"variant": "local_attention", "dot_attention": "query_summary"}
    renamed_values: ClassVar[Mapping[str, Mapping[str, str]]] = {"query_summary": {"torchnlp": "tanh"}}

    local_attention: str = "emb"
    num_oa_layers: int = 2
    oa_num_heads: int | None = None
    oa_intermediate_size: int | None = None
    oa_dropout: float = 0.3
    kv_sharing: str = "trunk"
    share_context_projection: bool = False
    conv_num_filters: int | None = None
    query_summary: str = "tanh"
    oa_chunk_size: int | None = None
    classifier_dropout: float = 0.3

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.oa_num_heads is None:
            self.oa_num_heads = self.block_heads

    def active_fields(self) -> dict[tuple[str, ...], bool]:
        blocks = ("num_oa_layers", "oa_intermediate_size", "oa_dropout", "kv_sharing", "oa_chunk_size")
        return {
            blocks: self.local_attention != "none",
            ("conv_num_filters",): self.local_attention in CONVOLUTIONAL,
            ("share_context_projection", "query_summary"): self.local_attention in BIDIRECTIONAL,
        }

    @property
    def required_inputs(self) -> tuple[str, ...]:
        return () if self.local_attention == "none" else ("query_mask",)

    @property
    def num_active_local_layers(self) -> int:
        """Number of blocks that the model has."""
        return 0 if self.local_attention == "none" else self.num_oa_layers

    @property
    def block_heads(self) -> int:
        """Number of heads of a block, set or default."""
        if self.oa_num_heads is not None:
            return self.oa_num_heads
        possible = possible_heads(self.backbone_config.hidden_size, self.local_attention)
        for usual in (PAPERS_HEADS, self.num_attention_heads):
            if usual in possible:
                return usual
        return min(possible, key=lambda heads: abs(heads - PAPERS_HEADS))

    @property
    def qa_dropout(self) -> float:
        """Dropout probability before the last layer of the question answering head (section 4)."""
        return self.classifier_dropout

    def check_fields(self) -> None:
        self._check_choice("local_attention", (*INTERACTIONS, "none"))
        self._check_choice("kv_sharing", KV_SHARING)
        self._check_choice("query_summary", QUERY_SUMMARIES)
        self._check_bools("share_context_projection")
        self._check_at_least("num_oa_layers", 1)
        for field in ("oa_num_heads", "oa_intermediate_size", "conv_num_filters", "oa_chunk_size"):
            if getattr(self, field) is not None:
                self._check_at_least(field, 1)
        self._check_number("oa_dropout", 0.0, 1.0)
        self._check_number("classifier_dropout", 0.0, 1.0)
        if self.local_attention != "none":
            check_heads(self.backbone_config.hidden_size, self.block_heads, self.local_attention)
