"""Configuration of OA, orthogonal attention."""

import math
from typing import Annotated, Any, Literal, NamedTuple

from .configuration_local_attention import LocalAttentionConfig, Positive, Probability, Range

PAPERS_HEADS = 12
"""Number of heads of XLNet-base, the paper's encoder."""


class Interaction(NamedTuple):
    """Interaction of context and query tokens, as names in the tables `ALPHAS` and `BETAS` of `oa_interaction`."""

    alpha: str
    beta: str


INTERACTIONS = {
    "em": Interaction("product", "query"),
    "emb": Interaction("product", "product"),
    "c": Interaction("convolution", "query"),
    "ca": Interaction("convolution", "convolution"),
}
"""Interactions by `local_attention`. A program may add its own."""

Name = Annotated[
    str,
    Range("'em', 'emb', 'c', 'ca', 'none' or a name in `INTERACTIONS`", lambda name: name in (*INTERACTIONS, "none")),
]


class OaXLNetConfig(LocalAttentionConfig):
    """Configuration of an OA model: a pretrained encoder with blocks of orthogonal attention.

    In a block every token attends to the tokens of a query, such as a question or the cue of a negation.

    Args:
        backbone_config (PreTrainedConfig or dict, *optional*, defaults to XLNet's): Configuration of the encoder.
        local_attention (str, *optional*, defaults to "emb"): Interaction of a token with a query token: "em",
            element-wise multiplication; "c", convolution; "emb" and "ca", the same with query vectors that depend on
            the text; "none", the encoder alone (the paper's baseline); or a name that a program has added to
            `INTERACTIONS`.
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
            vectors of "emb" and "ca", too. In "ca" the paper's numbering of weights (W0, then W4 to W6) says so. At
            width 768 a block of "ca" then has 6.23 million parameters, and 6.83 without.
        text_in_query (bool, *optional*, defaults to False): Add the mean of the text's states to the query, as one
            more token. With a query of one token, beta is trained only with this.
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
    """

    model_type = "oa-xlnet"
    default_backbone = "xlnet"

    local_attention: Name = "emb"
    num_oa_layers: Positive = 2
    oa_num_heads: Positive | None = None
    oa_intermediate_size: Positive | None = None
    oa_dropout: Probability = 0.3
    kv_sharing: Literal["trunk", "none", "all"] = "trunk"
    share_context_projection: bool = False
    text_in_query: bool = False
    conv_num_filters: Positive | None = None
    query_summary: Literal["tanh", "plain"] = "tanh"
    oa_chunk_size: Positive | None = None
    classifier_dropout: Probability = 0.3

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.oa_num_heads is None:
            self.oa_num_heads = self.block_heads

    @property
    def required_inputs(self) -> tuple[str, ...]:
        return () if self.local_attention == "none" else ("query_mask",)

    @property
    def is_convolutional(self) -> bool:
        """True if alpha or beta is a convolution."""
        return "convolution" in INTERACTIONS.get(self.local_attention, ())

    @property
    def num_active_local_layers(self) -> int:
        """Number of blocks that the model has."""
        return 0 if self.local_attention == "none" else self.num_oa_layers

    @property
    def block_heads(self) -> int:
        """Number of heads of a block, set or default."""
        if self.oa_num_heads is not None:
            return self.oa_num_heads
        possible = self.possible_heads()
        usual = [heads for heads in (PAPERS_HEADS, self.num_attention_heads) if heads in possible]
        return usual[0] if usual else min(possible, key=lambda heads: abs(heads - PAPERS_HEADS))

    @property
    def qa_dropout(self) -> float:
        """Dropout probability before the last layer of the question answering head (section 4)."""
        return self.classifier_dropout

    def check_fields(self) -> None:
        possible = self.possible_heads()
        if self.local_attention != "none" and self.block_heads not in possible:
            square = ", with heads of a square width" if self.is_convolutional else ""
            raise ValueError(
                f"`oa_num_heads` is {self.block_heads}; for the width {self.encoder_size} use one of"
                f" {', '.join(map(str, possible))}{square}."
            )

    def possible_heads(self) -> list[int]:
        """Return the numbers of heads that divide the width. Heads of convolutions must have a square width."""
        size = self.encoder_size
        divisors = [heads for heads in range(1, size + 1) if size % heads == 0]
        if not self.is_convolutional:
            return divisors
        return [heads for heads in divisors if math.isqrt(size // heads) ** 2 == size // heads]
