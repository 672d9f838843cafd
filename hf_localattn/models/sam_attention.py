"""Sequential attention: feature-wise and token-wise attention over a text, one after the other.

Source: Sequential Attention Module for Natural Language Processing (Zhou et al.), section 3.

Shapes: B batch, L tokens, D features. A mask (B, L) is True at tokens and False at padding on any side. By default all
are tokens. A row with only padding counts as a text of one token, the first.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from transformers import initialization as init

from .configuration_sam_roberta import SamRobertaConfig
from .masking import ensure_nonempty_mask, masked_mean, masked_softmax
from .sam_bilstm import InitializedByTorch

INITIAL_THRESHOLD = 0.1
"""Default initial value of a learned threshold (table 4)."""

SOFTMAXES: dict[str, Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]] = {"softmax": masked_softmax}
"""Functions from scores (B, L) and a mask to the weights of tokens, by `tam_softmax`. sam_entmax.py adds one."""


class PooledAttention(nn.Module):
    """Base class of both attentions: the sum of a feed-forward network over the maximum and the mean (equation 1)."""

    def __init__(self, size: int, hidden_size: int, bias: bool = True):
        super().__init__()
        self.inner = nn.Linear(size, hidden_size)
        self.outer = nn.Linear(hidden_size, size, bias=bias)

    def scores(self, maximum: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        """Map maximum and mean (..., size) to scores of the same shape."""
        return self.outer(self.inner(torch.stack((maximum, mean))).relu()).sum(0)


class FeatureAttention(PooledAttention):
    """Feature-wise attention module (FAM, equations 2-4).

    `X' = max(0, M - delta) X` with `M = sigmoid(FFN(max over tokens) + FFN(mean over tokens))`. A learned delta is the
    sigmoid of a parameter, whose name ends in "bias": Trainer's weight decay would pull delta to 0.5.
    """

    def __init__(self, config: SamRobertaConfig):
        super().__init__(config.encoded_size, max(config.encoded_size // config.fam_reduction, 1))
        self.config = config
        self.threshold_bias = nn.Parameter(torch.empty(1)) if config.learn_fam_threshold else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the learned threshold. The linear layers have their own `reset_parameters`."""
        if self.threshold_bias is not None:
            begin = self.config.fam_threshold or INITIAL_THRESHOLD
            init.constant_(self.threshold_bias, math.log(begin / (1 - begin)))

    @property
    def delta(self) -> torch.Tensor | float:
        """Current threshold, learned or that of the configuration, which users change to compare thresholds."""
        return self.config.fam_threshold if self.threshold_bias is None else self.threshold_bias.sigmoid().squeeze(0)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Map states (B, L, D) to weighted states (B, L, D), 0 at padding, and feature weights (B, D)."""
        mask = ensure_nonempty_mask(mask)
        lowered = states
        if mask is not None:
            pads = ~mask.unsqueeze(-1)
            lowered = states.masked_fill(pads, torch.finfo(states.dtype).min)
            states = states.masked_fill(pads, 0.0)
        scores = self.scores(lowered.amax(1), masked_mean(states, mask))
        attention = (scores.sigmoid() - self.delta).clamp(min=0)
        return states * attention.unsqueeze(1), attention


class TokenAttention(PooledAttention):
    """Token-wise attention module (TAM, equations 5 and 6).

    `X'' = M X'` with `M = softmax(FFN(max over features) + FFN(mean over features))` over tokens. `tam_softmax` may
    name another function than softmax.

    The network reads the values of all positions, counted from the first token and 0 after the last; or, with
    `tam_ffn="token"`, the value of one token.
    """

    def __init__(self, config: SamRobertaConfig):
        by_position = config.tam_ffn == "position"
        max_length = config.tam_max_length
        # With "token" all tokens share the second bias, which the softmax would cancel.
        super().__init__(
            max_length if by_position else 1,
            config.tam_hidden_size or (max(max_length // 16, 1) if by_position else 16),
            bias=by_position,
        )
        self.by_position = by_position
        self.max_length = max_length
        self.softmax = config.choose_layer("tam_softmax", SOFTMAXES)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Map states (B, L, D) to weighted states (B, L, D) and token weights (B, L).

        The weights sum to 1 in each row and are 0 at padding. No text may have more tokens than `tam_max_length`.
        """
        mask = ensure_nonempty_mask(mask)
        maximum = states.amax(-1)
        mean = states.mean(-1)
        if not self.by_position:
            scores = self.scores(maximum.unsqueeze(-1), mean.unsqueeze(-1)).squeeze(-1)
        else:
            places = self.places(maximum, mask)
            scores = self.scores(self.aligned(maximum, places), self.aligned(mean, places))
            scores = scores.gather(1, places.clamp(max=self.max_length - 1))
        attention = self.softmax(scores, mask)
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


class SequentialAttention(InitializedByTorch):
    """Sequential attention module (SAM, section 3.4): both attentions, or one, in the order that the fields select."""

    def __init__(self, config: SamRobertaConfig):
        super().__init__()
        self.order = config.attention_order.split("_")
        self.fam = FeatureAttention(config) if config.use_fam else None
        self.tam = TokenAttention(config) if config.use_tam else None

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Weight features and tokens of states (B, L, D).

        Returns:
            Weighted states (B, L, D), feature weights (B, D) and token weights (B, L). Weights of an attention that is
            not used are `None`.
        """
        features = tokens = None
        for name in self.order:
            if name == "fam" and self.fam is not None:
                states, features = self.fam(states, mask)
            if name == "tam" and self.tam is not None:
                states, tokens = self.tam(states, mask)
        return states, features, tokens
