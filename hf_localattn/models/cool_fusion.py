"""Fusion of global and local states, for local layers that are parallel to the encoder.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), figure 1 and section 3.1. The paper does not define fusion.

Shapes: B batch, L tokens, H width of the global states, F of the local ones.
"""

import torch
from torch import nn
from torch.nn import functional


class Fusion(nn.Module):
    """Combine the global and the local state of every token into one state of the global width.

    Args:
        kind: "concat", two linear layers with GELU between them over the concatenated states; "sum" of the global and
            the projected local state; or "gate", their average with a weight that each token predicts from both.
        global_size: Width H of the global states.
        local_size: Width F of the local states.
    """

    def __init__(self, kind: str, global_size: int, local_size: int):
        super().__init__()
        self.kind = kind
        joined = global_size + local_size if kind == "concat" else local_size
        self.projection = nn.Linear(joined, global_size)
        if kind == "concat":
            self.output = nn.Linear(global_size, global_size)
        elif kind == "gate":
            self.balance = nn.Linear(2 * global_size, 1)

    def forward(self, global_states: torch.Tensor, local_states: torch.Tensor) -> torch.Tensor:
        """Map global states (B, L, H) and local states (B, L, F) to (B, L, H)."""
        if self.kind == "concat":
            joined = torch.cat([global_states, local_states], dim=-1)
            return self.output(functional.gelu(self.projection(joined)))
        local_states = self.projection(local_states)
        if self.kind == "sum":
            return global_states + local_states
        gate = self.balance(torch.cat([global_states, local_states], dim=-1)).sigmoid()
        return gate * global_states + (1 - gate) * local_states
