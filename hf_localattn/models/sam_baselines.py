"""Baselines of sequential attention: two other ways from the tokens of a text to one vector.

Source: Sequential Attention Module for Natural Language Processing (Zhou et al.), sections 4.2 and 4.3; every class
names the paper whose equations it follows.

Shapes: B batch, L tokens, D input width, F width of one direction. A mask (B, L) is True at real tokens; a row of pads
alone counts as a text of one token, its first.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from transformers.modeling_layers import GradientCheckpointingLayer

from .masking import ensure_nonempty_mask, masked_softmax

SCORE_SCALE = 5.0
"""c, which bounds the scores of DiSAN's pairs to -c .. c (the authors' value)."""


class RecurrentAttention(nn.Module):
    """Attention over the states of a BiLSTM: `tanh(sum_i alpha_i h_i)`, `alpha = softmax(w . tanh(h))` over tokens.

    Source: Attention-Based Bidirectional Long Short-Term Memory Networks for Relation Classification (Zhou et al.,
    2016), equations 9-12.

    Args:
        size: D.
    """

    def __init__(self, size: int):
        super().__init__()
        self.output_size = size
        self.score = nn.Linear(size, 1, bias=False)  # w; the softmax would drop a bias

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Map states (B, L, D) to a vector (B, D), what each token adds before tanh (B, L, D), and alpha (B, L)."""
        weights = masked_softmax(self.score(states.tanh()).squeeze(-1), ensure_nonempty_mask(mask))
        shares = states * weights.unsqueeze(-1)
        return shares.sum(1).tanh(), shares, weights


class DirectionalBlock(GradientCheckpointingLayer):
    """Every token reads, feature by feature, those before it, or those behind it, and is fused with what it read.

    `h = ELU(W x + b)`; `s_j = sum_i softmax_i(c tanh((W1 h_i + W2 h_j + b1) / c)) h_i` over tokens i < j (the paper's
    forward mask) or i > j (backward), 0 where there are none; `f = sigmoid(Wf [s; h] + bf)`; `u = f h + (1 - f) s`.
    Time and memory grow with F and the square of the length.

    Source: DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language Understanding (Shen et al., 2018), its
    section on directional self-attention.

    Args:
        size: D.
        hidden_size: F.
        looks_back: attend over the tokens before; otherwise over those behind.
    """

    def __init__(self, size: int, hidden_size: int, looks_back: bool):
        super().__init__()
        self.looks_back = looks_back
        self.hidden = nn.Linear(size, hidden_size)
        self.source = nn.Linear(hidden_size, hidden_size)
        self.target = nn.Linear(hidden_size, hidden_size, bias=False)  # the source's bias is that of the pair
        self.gate = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Map states (B, L, D) to (B, L, F)."""
        hidden = functional.elu(self.hidden(states))
        # Features first, so that what every pair has, (B, F, L, L), is normalized and summed along its last dimension.
        source, target = (layer(hidden).transpose(1, 2) for layer in (self.source, self.target))
        scores = SCORE_SCALE * ((source.unsqueeze(-2) + target.unsqueeze(-1)) / SCORE_SCALE).tanh()
        weights = masked_softmax(scores, self.allowed(states, mask))
        attended = (weights @ hidden.transpose(1, 2).unsqueeze(-1)).squeeze(-1).transpose(1, 2)
        gate = self.gate(torch.cat([attended, hidden], dim=-1)).sigmoid()
        return gate * hidden + (1 - gate) * attended

    def allowed(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Return the mask (B or 1, 1, L, L) of the tokens, its last dimension, that each token attends over."""
        place = torch.arange(states.shape[1], device=states.device)
        before = place < place.unsqueeze(-1)
        allowed = (before if self.looks_back else before.T)[None, None]
        return allowed if mask is None else allowed & mask[:, None, None]


class DiSAN(nn.Module):
    """Directional self-attention network: a block for either direction, and attention over tokens for every feature.

    `v = sum_i softmax_i(W2 ELU(W1 u_i + b1)) u_i`, feature by feature, over the blocks' outputs u side by side.

    Source: Shen et al. (2018), their network for sentences with the settings of their experiments (ELU, c = 5,
    F = 300), and without their dropout inside: as in sequential attention, dropout stands before the classifier.

    Args:
        size: D.
        hidden_size: F.
    """

    def __init__(self, size: int, hidden_size: int = 300):
        super().__init__()
        self.output_size = 2 * hidden_size
        self.blocks = nn.ModuleList(DirectionalBlock(size, hidden_size, looks_back) for looks_back in (True, False))
        self.inner = nn.Linear(self.output_size, self.output_size)
        self.outer = nn.Linear(self.output_size, self.output_size, bias=False)  # the softmax would drop a bias

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Map states (B, L, D) to a vector (B, 2F), and what each token adds to it (B, L, 2F).

        No number weighs a token as a whole: the weights are (B, L, 2F).
        """
        mask = ensure_nonempty_mask(mask)
        both = torch.cat([block(states, mask) for block in self.blocks], dim=-1)
        scores = self.outer(functional.elu(self.inner(both)))
        weights = masked_softmax(scores, None if mask is None else mask.unsqueeze(-1), dim=1)
        shares = both * weights
        return shares.sum(1), shares, None
