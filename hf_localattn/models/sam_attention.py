"""Sequential attention: the features of a text are weighed, then its tokens, or the other way round.

Source: Sequential Attention Module for Natural Language Processing (Zhou et al.), section 3.

Shapes: B batch, L tokens, D features. A mask (B, L) is True at real tokens, wherever the pads are; without one all are
real. A row of pads alone counts as a text of one token, its first.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from transformers import initialization as init

from .masking import ensure_nonempty_mask, masked_mean, masked_softmax

ATTENTION_ORDERS = ("fam_tam", "tam_fam")
TOKEN_FFNS = ("position", "token")
INITIAL_THRESHOLD = 0.1
"""Default initial value of a learned threshold (table 4)."""


class PooledAttention(nn.Module):
    """Base of both attentions: one feed-forward network for the maximum and the mean, and their sum.

    Args:
        size: values that the network (equation 1) reads and gives.
        hidden_size: width between its two layers.
        bias: give the second layer a bias.
    """

    def __init__(self, size: int, hidden_size: int, bias: bool = True):
        super().__init__()
        self.inner = nn.Linear(size, hidden_size)
        self.outer = nn.Linear(hidden_size, size, bias=bias)

    def scores(self, maximum: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        """Map both (..., size) to the argument of the sigmoid or the softmax, of the same shape."""
        return self.outer(self.inner(torch.stack((maximum, mean))).relu()).sum(0)


class FeatureAttention(PooledAttention):
    """FAM: `X' = max(0, M - delta) X`, `M = sigmoid(FFN(max over tokens) + FFN(mean over tokens))` (equations 2-4).

    Args:
        size: D.
        reduction: the network is D / reduction wide inside, at least 1.
        threshold: delta, in [0, 1]; features that weigh less are left out.
        learn_threshold: make delta the sigmoid of a parameter, so that it stays in (0, 1). It begins at `threshold`,
            or at 0.1 if that is 0. The parameter is a bias by name: trainers spare these the weight decay, which would
            pull delta to 0.5.

    Raises:
        ValueError: the threshold is outside [0, 1], or 1 where it is learned.
    """

    def __init__(self, size: int, reduction: int = 16, threshold: float = 0.0, learn_threshold: bool = False):
        super().__init__(size, max(size // reduction, 1))
        check_threshold(threshold, learn_threshold)
        self.threshold = threshold
        self.threshold_bias = nn.Parameter(torch.empty(1)) if learn_threshold else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give the learned threshold its first value; its linear layers have methods of their own."""
        if self.threshold_bias is not None:
            begin = self.threshold or INITIAL_THRESHOLD
            init.constant_(self.threshold_bias, math.log(begin / (1 - begin)))

    @property
    def delta(self) -> torch.Tensor | float:
        """The threshold, fixed or learned."""
        return self.threshold if self.threshold_bias is None else self.threshold_bias.sigmoid().squeeze(0)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, threshold: float | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the weighted states (B, L, D), 0 at pads, and the weights (B, D), from states (B, L, D).

        A `threshold` takes the place of a fixed one.
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
    """TAM: `X'' = M X'`, `M = softmax(FFN(max over features) + FFN(mean over features))` over tokens (equations 5, 6).

    Args:
        ffn: "position", one network that reads and gives the values of all positions, counted from the first real
            token, 0 beyond the last; or "token", one that reads and gives the value of one token.
        max_length: how many positions there are. "token" takes any length.
        hidden_size: width inside the network; by default 16, or for "position" a 16th of the positions, at least 1.
    """

    def __init__(self, ffn: str = "position", max_length: int = 512, hidden_size: int | None = None):
        if ffn not in TOKEN_FFNS:
            raise ValueError(f"`ffn` is {ffn!r}; choose one of {', '.join(map(repr, TOKEN_FFNS))}.")
        by_position = ffn == "position"
        # All tokens of a text share the second bias of "token", and the softmax would drop it.
        super().__init__(
            max_length if by_position else 1,
            hidden_size or (max(max_length // 16, 1) if by_position else 16),
            bias=by_position,
        )
        self.by_position, self.max_length = by_position, max_length

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the weighted states (B, L, D) and the weights (B, L), from states (B, L, D).

        The weights sum to 1 over the real tokens and are 0 at pads.

        Raises:
            ValueError: a text has more tokens than there are positions.
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
        """The position (B, L) whose value each token is; for pads one past the last."""
        if mask is None:
            return torch.arange(values.shape[1], device=values.device).expand_as(values)
        return (mask.cumsum(-1) - 1).masked_fill(~mask, self.max_length)

    def aligned(self, values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Values (B, L) of the tokens as values (B, max_length) of the positions."""
        past_the_last = 1  # a place for the values of pads, left out again
        positions = values.new_zeros(values.shape[0], self.max_length + past_the_last)
        return positions.scatter(1, places, values)[:, : self.max_length]


class SequentialAttention(nn.Module):
    """SAM: both attentions, one after the other (section 3.4); without either, the states as they are.

    Args:
        size: D.
        order: "fam_tam", features first, or "tam_fam" (section 4.5).
        use_fam, use_tam: leave the attention over features, or over tokens, out.
        reduction, threshold, learn_threshold: of `FeatureAttention`.
        ffn, max_length, hidden_size: of `TokenAttention`.
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
        if order not in ATTENTION_ORDERS:
            raise ValueError(f"`order` is {order!r}; choose one of {', '.join(map(repr, ATTENTION_ORDERS))}.")
        self.names = ("fam", "tam") if order == "fam_tam" else ("tam", "fam")
        self.fam = FeatureAttention(size, reduction, threshold, learn_threshold) if use_fam else None
        self.tam = TokenAttention(ffn, max_length, hidden_size) if use_tam else None

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, threshold: float | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Return the weighted states (B, L, D) and the weights of the features (B, D) and of the tokens (B, L).

        A `threshold` takes the place of a fixed one.
        """
        features = tokens = None
        for name in self.names:
            if name == "fam" and self.fam is not None:
                states, features = self.fam(states, mask, threshold)
            elif name == "tam" and self.tam is not None:
                states, tokens = self.tam(states, mask)
        return states, features, tokens


def check_threshold(threshold: float, is_learned: bool) -> None:
    """Raise `ValueError` for a threshold outside [0, 1], or for a learned one that cannot begin there."""
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not is_number or not 0 <= threshold <= 1:
        raise ValueError(f"`fam_threshold` is {threshold!r}; it must be a number in [0, 1].")
    if is_learned and threshold == 1:
        raise ValueError("`fam_threshold` is 1; a learned one has to begin below, as the sigmoid never gets there.")


def check_length(length: int, mask: torch.Tensor | None, max_length: int) -> None:
    """Raise `ValueError` if a text has more tokens than the network across positions has positions.

    Real tokens count, not pads; in a compiled or exported graph, which cannot look at the mask, pads do too.
    """
    if length <= max_length:  # nearly always: no waiting for the device to count
        return
    if mask is not None and not torch.compiler.is_compiling():
        length = int(mask.sum(-1).max())
    if length > max_length:
        raise ValueError(
            f"`tam_max_length` is {max_length}, but a text has {length} tokens. Cut texts to that length (the "
            "tokenizer's `truncation=True` with `max_length`), set a larger `tam_max_length` before training, or take "
            "`tam_ffn='token'`, which has no fixed length."
        )
