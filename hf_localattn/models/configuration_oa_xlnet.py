"""Configuration of OA, orthogonal attention."""

import math
from typing import Any

from .configuration_local_attention import LocalAttentionConfig
from .fields_oa_xlnet import INTERACTIONS, Interaction, OaXLNetFields

PAPERS_HEADS = 12
"""Number of heads of XLNet-base, the paper's encoder."""


class OaXLNetConfig(OaXLNetFields, LocalAttentionConfig):
    """Configuration of an OA model: a pretrained encoder with blocks of orthogonal attention.

    In a block every token attends to the tokens of a query, such as a question or the cue of a negation.

    """

    model_type = "oa-xlnet"
    default_backbone = "xlnet"

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.oa_num_heads is None:
            self.oa_num_heads = self.block_heads

    @property
    def required_inputs(self) -> tuple[str, ...]:
        return () if self.local_attention == "none" else ("query_mask",)

    @property
    def has_blocks(self) -> bool:
        """True if the model has blocks of orthogonal attention."""
        return self.local_attention != "none"

    @property
    def alpha(self) -> str:
        """Kind of the interaction alpha, empty without blocks."""
        return INTERACTIONS.get(self.local_attention, Interaction("", "")).alpha

    @property
    def beta(self) -> str:
        """Kind of the query vectors beta, empty without blocks."""
        return INTERACTIONS.get(self.local_attention, Interaction("", "")).beta

    @property
    def is_convolutional(self) -> bool:
        """True if alpha or beta is a convolution."""
        return "convolution" in (self.alpha, self.beta)

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
