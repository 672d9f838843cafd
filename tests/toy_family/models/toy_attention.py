"""Attention of each token over the tokens next to it."""

import torch
from torch import nn

from .masking import masked_softmax


class WindowAttention(nn.Module):
    """One head of attention within a window."""

    def __init__(self, size: int, window: int):
        super().__init__()
        self.window = window
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size, bias=False)  # a bias would cancel in the softmax
        self.value = nn.Linear(size, size)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return new states (B, L, D) and weights (B, 1, L, L), from states and a mask of real tokens (B, L)."""
        places = torch.arange(states.shape[1], device=states.device)
        near = (places[:, None] - places).abs() <= self.window
        scores = self.query(states) @ self.key(states).transpose(1, 2) / states.shape[-1] ** 0.5
        weights = masked_softmax(scores, near if mask is None else near & mask[:, None])
        return states + weights @ self.value(states), weights[:, None]
