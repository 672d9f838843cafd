"""A bidirectional LSTM over the tokens of padded texts, for SAM and other families.

Shapes: B batch, L tokens, H input width, F width of one direction.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .masking import argsort_mask_first, ensure_nonempty_mask, gather_tokens


class InitializedByTorch(nn.Module):
    """Base class of layers whose initial weights are those of torch.

    torch preserves the scale of the input. These narrow networks of two layers would hardly learn with the small
    initial weights of encoders.
    """

    def initialize(self) -> None:
        """Initialize all submodules as torch does."""
        for module in self.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()


def scan_tokens(states: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Map states (B, L, H) to (B, L, F) like `torch.lstm`, as a loop in the graph: export unrolls `torch.lstm`.

    The weights are (4F, H), (4F, F) and two biases (4F,) of `nn.LSTM`, for input, forget, cell and output gates.
    """
    from torch._higher_order_ops.scan import scan

    input_weight, hidden_weight, input_bias, hidden_bias = weights

    def step(
        carried: tuple[torch.Tensor, torch.Tensor], gates: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        hidden, cell = carried
        opened, kept, new, shown = (gates + hidden @ hidden_weight.T).chunk(4, dim=-1)
        cell = kept.sigmoid() * cell + opened.sigmoid() * new.tanh()
        hidden = shown.sigmoid() * cell.tanh()
        return (hidden, cell), hidden.clone()  # an output may not be the state itself

    start = states.new_zeros(states.shape[0], hidden_weight.shape[1])
    gates = functional.linear(states, input_weight, input_bias + hidden_bias)
    read: torch.Tensor = scan(step, (start, start.clone()), gates.transpose(0, 1))[1]
    return read.transpose(0, 1)


def reading_order(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the positions (B, L) of tokens, then of padding, and the index (B, L) of each token in that order.

    The mask (B, L) is True at tokens. The index of padding is undefined.
    """
    return argsort_mask_first(mask), (mask.cumsum(-1) - 1).clamp(min=0)


class PaddedLSTM(nn.LSTM):
    """Bidirectional `nn.LSTM` over padded texts, which reads its weights only in `forward`, as offloading requires."""

    def forward(  # type: ignore[override]  # takes a mask, and returns no final state
        self, states: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Map states (B, L, H) to (B, L, 2F), 0 where the mask (B, L) is False. Each row has at least one token."""
        states = states.to(self.all_weights[0][0].dtype)
        is_exporting = torch.compiler.is_exporting()
        if mask is None and is_exporting:
            mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        with torch.autocast("cpu", enabled=False):  # where torch's LSTM fails with float32 states
            if mask is None:
                return super().forward(states)[0]
            # On a CPU torch runs packed sequences without oneDNN, more than twice as slowly.
            by_direction = states.device.type == "cpu" or is_exporting
            encode = self.encode_by_direction if by_direction else self.encode_packed
            return encode(states, mask).masked_fill(~mask.unsqueeze(-1), 0.0)

    def encode_packed(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map states (B, L, H) to (B, L, 2F) with packed sequences. Values at padding are undefined."""
        order, places = reading_order(mask)
        packed = pack_padded_sequence(
            gather_tokens(states, order), mask.sum(-1).cpu(), batch_first=True, enforce_sorted=False
        )
        encoded, _ = pad_packed_sequence(super().forward(packed)[0], batch_first=True, total_length=states.shape[1])
        return gather_tokens(encoded, places)

    def encode_by_direction(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map states like `encode_packed`, with a run for each layer and direction that reads the padding last."""
        for layer in range(self.num_layers):
            if layer > 0:
                states = functional.dropout(states, self.dropout, self.training)
            ahead, back = self.all_weights[2 * layer : 2 * layer + 2]
            read_back = self._read(states.flip(1), mask.flip(1), back).flip(1)
            states = torch.cat([self._read(states, mask, ahead), read_back], dim=-1)
        return states

    def _read(self, states: torch.Tensor, mask: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
        order, places = reading_order(mask)
        if torch.compiler.is_exporting():
            return gather_tokens(scan_tokens(gather_tokens(states, order), weights), places)
        start = states.new_zeros(1, states.shape[0], self.hidden_size)
        read, _, _ = torch.lstm(
            gather_tokens(states, order),
            (start, start),
            list(weights),
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=self.training,
            bidirectional=False,
            batch_first=True,
        )
        return gather_tokens(read, places)


class RecurrentEncoder(InitializedByTorch):
    """BiLSTM whose outputs do not depend on padding, on the left, the right or both sides of a text.

    The output has both directions of the last layer (2F features) or, with `merge="sum"`, their sum (F, as in
    Attention-Based Bidirectional LSTM Networks for Relation Classification, Zhou et al. 2016, equation 8).

    Args:
        size: Width H of the input.
        hidden_size: Width F of one direction.
        num_layers (*optional*, defaults to 1): Number of layers.
        merge (*optional*, defaults to "concat"): Combination of the directions: "concat" or "sum".
        dropout (*optional*, defaults to 0.0): Dropout probability between layers.
    """

    def __init__(self, size: int, hidden_size: int, num_layers: int = 1, merge: str = "concat", dropout: float = 0.0):
        super().__init__()
        self.merge = merge
        self.lstm = PaddedLSTM(
            size,
            hidden_size,
            num_layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if num_layers > 1 else 0.0,  # torch warns about dropout with a single layer
        )

    @torch.compiler.disable(reason="Dynamo traces no nn.LSTM, and would make a graph of each step around it")
    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Map states (B, L, H) to (B, L, 2F or F), 0 at padding.

        The mask (B, L) is True at tokens. A row with only padding counts as a text of one token, the first.
        """
        encoded = self.lstm(states, ensure_nonempty_mask(mask))
        if self.merge == "concat":
            return encoded
        forward, backward = encoded.chunk(2, dim=-1)
        return forward + backward
