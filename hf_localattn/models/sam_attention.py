"""Sequential attention: feature-wise and token-wise attention over a text, one after the other.

Source: Sequential Attention Module for Natural Language Processing (Zhou et al.), section 3.

Shapes: B batch, L tokens, D features. A mask (B, L) is True at tokens and False at padding on any side. By default all
are tokens. A row with only padding counts as a text of one token, the first.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from transformers import initialization as init

from .masking import ensure_nonempty_mask, masked_mean, masked_softmax

INITIAL_THRESHOLD = 0.1
"""Default initial value of a learned threshold (table 4)."""


def check_length(length: int, mask: torch.Tensor | None, max_length: int) -> None:
    """Raise `ValueError` if a text has more tokens than the network over positions has positions.

    Padding counts only in compiled and exported graphs, because these cannot depend on the mask.
    """
    if length <= max_length:  # usual case, without synchronization with the device
        return
    if mask is not None and not torch.compiler.is_compiling():
        length = int(mask.sum(-1).max())
    if length > max_length:
        raise ValueError(
            f"`tam_max_length` is {max_length}, but a text has {length} tokens. Truncate texts to that length "
            "(`truncation=True` and `max_length` of the tokenizer), set a larger `tam_max_length` before training, or "
            "use `tam_ffn='token'`, which takes any length."
        )


class PooledAttention(nn.Module):
    """Base class of both attentions: the sum of a feed-forward network over the maximum and over the mean.

    Args:
        size: Input and output width of the network (equation 1).
        hidden_size: Width between its two layers.
        bias: Add a bias to the second layer.
    """

    def __init__(self, size: int, hidden_size: int, bias: bool = True):
        super().__init__()
        self.inner = nn.Linear(size, hidden_size)
        self.outer = nn.Linear(hidden_size, size, bias=bias)

    def scores(self, maximum: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        """Map maximum and mean (..., size) to scores of the same shape."""
        return self.outer(self.inner(torch.stack((maximum, mean))).relu()).sum(0)


class FeatureAttention(PooledAttention):
    """Feature-wise attention module (FAM, equations 2-4).

    `X' = max(0, M - delta) X` with `M = sigmoid(FFN(max over tokens) + FFN(mean over tokens))`.

    Args:
        size: Number of features D.
        reduction: The hidden layer of the network has width D // reduction, at least 1.
        threshold: delta, in [0, 1]. It is subtracted from the weights, and negative weights become 0.
        learn_threshold: Train delta as the sigmoid of a parameter. Its initial value is `threshold`, or 0.1 if that is
            0. The parameter's name ends in "bias", so that Trainer excludes it from weight decay, which would pull
            delta to 0.5.
    """

    def __init__(self, size: int, reduction: int = 16, threshold: float = 0.0, learn_threshold: bool = False):
        super().__init__(size, max(size // reduction, 1))
        self.threshold = threshold
        self.threshold_bias = nn.Parameter(torch.empty(1)) if learn_threshold else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the learned threshold. The linear layers have their own `reset_parameters`."""
        if self.threshold_bias is not None:
            begin = self.threshold or INITIAL_THRESHOLD
            init.constant_(self.threshold_bias, math.log(begin / (1 - begin)))

    @property
    def delta(self) -> torch.Tensor | float:
        """Current threshold, fixed or learned."""
        return self.threshold if self.threshold_bias is None else self.threshold_bias.sigmoid().squeeze(0)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, threshold: float | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight the features of states.

        Args:
            states: (B, L, D).
            mask: (B, L).
            threshold: delta in place of the fixed one. Ignored if delta is learned.

        Returns:
            Weighted states (B, L, D), 0 at padding, and feature weights (B, D).
        """
        mask, lowered = ensure_nonempty_mask(mask), states
        if mask is not None:
            pads = ~mask.unsqueeze(-1)
            lowered = states.masked_fill(pads, torch.finfo(states.dtype).min)
            states = states.masked_fill(pads, 0.0)
        scores = self.scores(lowered.amax(1), masked_mean(states, mask))
        delta = self.delta if threshold is None or self.threshold_bias is not None else threshold
        attention = (scores.sigmoid() - delta).clamp(min=0)
        return states * attention.unsqueeze(1), attention


class TokenAttention(PooledAttention):
    """Token-wise attention module (TAM, equations 5 and 6).

    `X'' = M X'` with `M = softmax(FFN(max over features) + FFN(mean over features))` over tokens.

    Args:
        ffn: "position", a network over the values of all positions, counted from the first token and 0 after the last;
            or "token", a network over the value of one token.
        max_length: Number of positions of "position". "token" takes texts of any length.
        hidden_size: Width of the hidden layer. By default `max_length // 16` for "position", and 16 for "token".
    """

    def __init__(self, ffn: str = "position", max_length: int = 512, hidden_size: int | None = None):
        by_position = ffn == "position"
        # In "token" all tokens share the second bias, which the softmax would cancel.
        super().__init__(
            max_length if by_position else 1,
            hidden_size or (max(max_length // 16, 1) if by_position else 16),
            bias=by_position,
        )
        self.by_position, self.max_length = by_position, max_length

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight the tokens of states.

        Args:
            states: (B, L, D).
            mask: (B, L).

        Returns:
            Weighted states (B, L, D), and token weights (B, L) that sum to 1 in each row and are 0 at padding.

        Raises:
            ValueError: A text has more tokens than the network has positions.
        """
        mask = ensure_nonempty_mask(mask)
        maximum, mean = states.amax(-1), states.mean(-1)
        if not self.by_position:
            scores = self.scores(maximum.unsqueeze(-1), mean.unsqueeze(-1)).squeeze(-1)
        else:
            check_length(states.shape[1], mask, self.max_length)
            places = self.places(maximum, mask)
            scores = self.scores(self.aligned(maximum, places), self.aligned(mean, places))
            scores = scores.gather(1, places.clamp(max=self.max_length - 1))
        attention = masked_softmax(scores, mask)
        return states * attention.unsqueeze(-1), attention

    def places(self, values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Return the position (B, L) of each token in its text. Padding gets `max_length`."""
        if mask is None:
            return torch.arange(values.shape[1], device=values.device).expand_as(values)
        return (mask.cumsum(-1) - 1).masked_fill(~mask, self.max_length)

    def aligned(self, values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Move values (B, L) of tokens to their positions (B, max_length)."""
        past_the_last = 1  # extra position for padding, removed below
        positions = values.new_zeros(values.shape[0], self.max_length + past_the_last)
        return positions.scatter(1, places, values)[:, : self.max_length]


class SequentialAttention(nn.Module):
    """Sequential attention module (SAM, section 3.4): both attentions, one after the other.

    Args:
        size: Number of features D.
        order: "fam_tam", features before tokens; or "tam_fam" (section 4.5).
        use_fam, use_tam: Apply `FeatureAttention` and `TokenAttention`.
        reduction, threshold, learn_threshold: Arguments of `FeatureAttention`.
        ffn, max_length, hidden_size: Arguments of `TokenAttention`.
    """

    def __init__(
        self,
        size: int,
        order: str = "fam_tam",
        use_fam: bool = True,
        use_tam: bool = True,
        reduction: int = 16,
        threshold: float = 0.0,
        learn_threshold: bool = False,
        ffn: str = "position",
        max_length: int = 512,
        hidden_size: int | None = None,
    ):
        super().__init__()
        self.order = order
        self.fam = FeatureAttention(size, reduction, threshold, learn_threshold) if use_fam else None
        self.tam = TokenAttention(ffn, max_length, hidden_size) if use_tam else None

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, threshold: float | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Weight features and tokens of states.

        Args:
            states: (B, L, D).
            mask: (B, L).
            threshold: delta in place of the fixed one.

        Returns:
            Weighted states (B, L, D), feature weights (B, D) and token weights (B, L). Weights of an attention that is
            not used are `None`.
        """
        features = tokens = None
        for name in self.order.split("_"):
            if name == "fam" and self.fam is not None:
                states, features = self.fam(states, mask, threshold)
            if name == "tam" and self.tam is not None:
                states, tokens = self.tam(states, mask)
        return states, features, tokens
