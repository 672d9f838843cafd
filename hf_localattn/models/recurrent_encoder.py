"""A bidirectional LSTM over the real tokens of padded texts.

Shapes: B batch, L tokens, H input width, F width of one direction.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .masking import counted_tokens

MERGES = ("concat", "sum")


class RecurrentEncoder(nn.Module):
    """BiLSTM that sees neither pads nor where they are, on the left, the right or both sides of a text.

    Args:
        size: H.
        hidden_size: F.
        num_layers: LSTM layers; each reads both directions of the one below.
        dropout: between the layers.
        merge: how the two directions of the last layer are joined: "concat" (2F features), or "sum" (F features, as in
            Attention-Based Bidirectional LSTM Networks for Relation Classification, Zhou et al. 2016, equation 8).
    """

    def __init__(
        self, size: int, hidden_size: int = 256, num_layers: int = 2, dropout: float = 0.0, merge: str = "concat"
    ):
        super().__init__()
        if merge not in MERGES:
            raise ValueError(f"`merge` is {merge!r}; choose one of {', '.join(map(repr, MERGES))}.")
        self.merge = merge
        self.lstm = nn.LSTM(
            size,
            hidden_size,
            num_layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if num_layers > 1 else 0.0,  # torch warns of a dropout that has no place
        )

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Map states (B, L, H) to (B, L, 2F or F), 0 at pads.

        `mask` (B, L) is True at real tokens; a row without any counts as one of a single token, its first.
        """
        mask = counted_tokens(mask)
        encoded = self.lstm(states)[0] if mask is None else self._encode_real_tokens(states, mask)
        if self.merge == "concat":
            return encoded
        forward, backward = encoded.chunk(2, dim=-1)
        return forward + backward

    def _encode_real_tokens(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # Packing wants the tokens of each row first; their order stays.
        order = (~mask).to(torch.uint8).argsort(dim=-1, stable=True)
        rows = torch.arange(states.shape[0], device=states.device).unsqueeze(-1)
        packed = pack_padded_sequence(states[rows, order], mask.sum(-1).cpu(), batch_first=True, enforce_sorted=False)
        encoded, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=states.shape[1])
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        return encoded[rows, places].masked_fill(~mask.unsqueeze(-1), 0.0)
