"""Models with a baseline of sequential attention: two other poolings of the tokens of a text into one vector.

Source: Sequential Attention Module (Zhou et al.), sections 4.2 and 4.3. Each class cites the paper of its equations.

Shapes: B batch, L tokens, D input width, F width of one direction. A mask (B, L) is True at tokens and False at
padding. A row with only padding counts as a text of one token, the first.
"""

import torch
from torch import nn
from torch.nn import functional
from transformers.modeling_layers import GradientCheckpointingLayer

from .masking import ensure_nonempty_mask, masked_softmax
from .modeling_sam_roberta import *  # noqa: F403  # hands on the models
from .modeling_sam_roberta import POOLING_LAYERS
from .sam_bilstm import InitializedByTorch

SCORE_SCALE = 5.0
"""Bound c of DiSAN's scores, which are in -c .. c (the authors' value)."""


class RecurrentAttention(InitializedByTorch):
    """Attention over the states of a BiLSTM, `tanh(sum_i alpha_i h_i)` with `alpha = softmax_i(w . tanh(h_i))`.

    Source: Attention-Based Bidirectional Long Short-Term Memory Networks for Relation Classification (Zhou et al.,
    2016), equations 9-12.
    """

    def __init__(self, size: int):
        super().__init__()
        self.attention_scores = nn.Linear(size, 1, bias=False)  # w; the softmax would cancel a bias

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Map states (B, L, D) to a vector (B, D), the terms of its sum (B, L, D), and alpha (B, L)."""
        weights = masked_softmax(self.attention_scores(states.tanh()).squeeze(-1), ensure_nonempty_mask(mask))
        shares = states * weights.unsqueeze(-1)
        return shares.sum(1).tanh(), shares, weights


class DirectionalBlock(GradientCheckpointingLayer):
    """Directional self-attention block, in which every token attends to earlier or to later tokens for each feature.

    The output is `u = f h + (1 - f) s` with `f = sigmoid(Wf [s; h] + bf)`, `h = ELU(W x + b)` and
    `s_j = sum_i softmax_i(c tanh((W1 h_i + W2 h_j + b1) / c)) h_i` over tokens i < j (forward) or i > j (backward).
    Without such tokens s_j is 0. Time and memory are linear in F and quadratic in the length.

    Source: DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language Understanding (Shen et al., 2018), its
    section on directional self-attention. `looks_back` is the paper's forward mask, to earlier tokens.
    """

    def __init__(self, size: int, hidden_size: int, looks_back: bool):
        super().__init__()
        self.looks_back = looks_back
        self.hidden = nn.Linear(size, hidden_size)
        self.source = nn.Linear(hidden_size, hidden_size)
        self.target = nn.Linear(hidden_size, hidden_size, bias=False)  # `source` has the bias of the pair
        self.gate = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Map states (B, L, D) to (B, L, F)."""
        hidden = functional.elu(self.hidden(states))
        # Features first: softmax and sum over pairs (B, F, L, L) then run along the last dimension.
        source, target = (layer(hidden).transpose(1, 2) for layer in (self.source, self.target))
        scores = SCORE_SCALE * ((source.unsqueeze(-2) + target.unsqueeze(-1)) / SCORE_SCALE).tanh()
        weights = masked_softmax(scores, self.allowed(states, mask))
        attended = (weights @ hidden.transpose(1, 2).unsqueeze(-1)).squeeze(-1).transpose(1, 2)
        gate = self.gate(torch.cat([attended, hidden], dim=-1)).sigmoid()
        return gate * hidden + (1 - gate) * attended

    def allowed(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Return the mask (B or 1, 1, L, L) as [..., token, token to attend to]."""
        place = torch.arange(states.shape[1], device=states.device)
        before = place < place.unsqueeze(-1)
        allowed = (before if self.looks_back else before.T)[None, None]
        return allowed if mask is None else allowed & mask[:, None, None]


class DiSAN(InitializedByTorch):
    """Directional self-attention network: a block for each direction, and attention over tokens for each feature.

    `v = sum_i softmax_i(W2 ELU(W1 u_i + b1)) u_i` for each feature, with the concatenated outputs u of the blocks.

    Source: Shen et al. (2018), their network for sentences with the settings of their experiments (ELU, c = 5,
    F = 300), but without dropout inside: dropout comes before the classifier, as in sequential attention.
    """

    def __init__(self, size: int, hidden_size: int = 300):
        super().__init__()
        width = 2 * hidden_size
        self.blocks = nn.ModuleList(DirectionalBlock(size, hidden_size, looks_back) for looks_back in (True, False))
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width, bias=False)  # the softmax would cancel a bias

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Map states (B, L, D) to a vector (B, 2F), the terms of its sum (B, L, 2F), and `None` for token weights.

        Weights differ for each feature, so that there is no single weight of a token.
        """
        mask = ensure_nonempty_mask(mask)
        both = torch.cat([block(states, mask) for block in self.blocks], dim=-1)
        scores = self.outer(functional.elu(self.inner(both)))
        weights = masked_softmax(scores, None if mask is None else mask.unsqueeze(-1), dim=1)
        shares = both * weights
        return shares.sum(1), shares, None


POOLING_LAYERS["rba"] = lambda config: RecurrentAttention(config.encoded_size)
POOLING_LAYERS["disan"] = lambda config: DiSAN(config.encoded_size, config.disan_hidden_size)
