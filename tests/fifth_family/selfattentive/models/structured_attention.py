"""Structured self-attention (A Structured Self-attentive Sentence Embedding, Lin et al. 2017).

Shapes: B batch, L tokens, D width of the states, R hops.
"""

import torch
from torch import nn

from .masking import masked_softmax
from .sam_bilstm import InitializedByTorch


class StructuredAttention(InitializedByTorch):
    """Attentions over the tokens of a text, `softmax(W_s2 tanh(W_s1 H^T))` of equation 6.

    Args:
        size: Width D of the states.
        hidden_size: Width of the hidden layer.
        hops: Number R of attentions.
    """

    def __init__(self, size: int, hidden_size: int, hops: int):
        super().__init__()
        self.hidden = nn.Linear(size, hidden_size, bias=False)
        self.scores = nn.Linear(hidden_size, hops, bias=False)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return an embedding of the text by each hop (B, R, D), and the weights (B, R, L), 0 at padding."""
        scores = self.scores(self.hidden(states).tanh()).transpose(1, 2)
        weights = masked_softmax(scores, None if mask is None else mask[:, None])
        return weights @ states, weights


def redundancy(weights: torch.Tensor) -> torch.Tensor:
    """Return the penalty `||A A^T - I||^2` of equation 8, the mean over texts, from the weights (B, R, L)."""
    identity = torch.eye(weights.shape[1], dtype=weights.dtype, device=weights.device)
    return (weights @ weights.transpose(1, 2) - identity).square().sum((1, 2)).mean()
