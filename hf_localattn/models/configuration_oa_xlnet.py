"""Configuration of OA, orthogonal attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .configuration_local_attention import LocalAttentionConfig
from .oa_attention import check_heads, possible_heads
from .oa_interaction import BIDIRECTIONAL, CONVOLUTIONAL, INTERACTIONS, KV_SHARING, QUERY_SUMMARIES

PAPERS_HEADS = 12
"""Default of XLNet-base, the paper's encoder."""

if TYPE_CHECKING:
    # Never run: see configuration_cool.py.
    from .modeling_oa_xlnet import OaXLNetModel  # noqa: F401


class OaXLNetConfig(LocalAttentionConfig):
    """Configuration of OA: blocks of orthogonal attention, in which every token attends over the tokens of a query.

    Args:
        backbone_config: configuration of the encoder (XLNet when absent).
        local_attention: how a token interacts with a query token, and whether the query has seen the text: "em",
            element by element; "emb", element by element and both ways; "c", by convolution; "ca", by convolution and
            both ways; "none", the backbone alone, the paper's baseline.
        num_oa_layers: blocks.
        oa_num_heads: attention heads of a block. They divide the width, and for "c" and "ca" a head is a square wide.
            When absent 12, or as many as the backbone has, or the nearest number to 12, whichever is first possible.
        oa_intermediate_size: width between the two linear layers of a block; the backbone's width when absent.
        oa_dropout: of attention weights, before the blocks and after them.
        kv_sharing: what keys and values have in common: "trunk", all but their last layer; "none"; "all".
        share_context_projection: let the query vectors of "emb" and "ca" use the keys' features of the text.
        conv_num_filters: filters of the convolution of "c" and "ca" that makes keys and values; when absent, as many
            as they are wide; 1 is the equation as printed.
        query_summary: how "emb" and "ca" summarize the text for a query token: "tanh", with the output layer of
            PyTorch-NLP's attention, or "plain", without it.
        oa_chunk_size: compute the attention for so many tokens at a time, again in the backward pass: slower, the same
            result, and memory for long queries (question answering); all at once when absent.
        classifier_dropout: before the last layer of the heads.

    Raises:
        ValueError: a field has an impossible value; the message names it and the remedy.
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
        """Number of blocks."""
        return 0 if self.local_attention == "none" else self.num_oa_layers

    @property
    def block_heads(self) -> int:
        """Number of heads of a block, given or by default."""
        if self.oa_num_heads is not None:
            return self.oa_num_heads
        possible = possible_heads(self.hidden_size, self.local_attention)
        for usual in (PAPERS_HEADS, self.num_attention_heads):
            if usual in possible:
                return usual
        return min(possible, key=lambda heads: abs(heads - PAPERS_HEADS))

    @property
    def qa_dropout(self) -> float:
        """Before the last layer, in question answering as in all heads (section 4)."""
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
            check_heads(self.hidden_size, self.block_heads, self.local_attention)
