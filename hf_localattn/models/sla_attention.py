"""Local and global attention mixed by a gate, as functions on tensors.

Source: Improving BERT with Syntax-aware Local Attention (Li et al.), section 3, equations 1 and 3 to 6.

Shapes: B batch, L tokens, heads, D width of a head.
"""

import math

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init


class LocalGate(nn.Linear):
    """Gate of each token's local attention: g = sigmoid(W h + b), shared by all heads (equation 5).

    The module is only the linear part and maps states (B, L, H) to logits (B, L, 1); tools that replace linear layers
    (quantization, LoRA) therefore work with it. The caller applies the sigmoid: 0 is all global, 1 is all local.
    """

    def __init__(self, width: int):
        super().__init__(width, 1)


class DistanceSlope(nn.Module):
    """Bias of local attention that falls with the distance of words, `-softplus(w) * D` with a learned w."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(1))  # named so that Trainer's weight decay passes over it

    def initialize(self) -> None:
        """Start with a slope of 1."""
        init.constant_(self.bias, math.log(math.e - 1))

    def forward(self, distances: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Map distances (B, 1, L, L), -1 at excluded keys, to a mask that is added to scores."""
        mask = (-functional.softplus(self.bias) * distances).to(dtype)
        return mask.masked_fill(distances < 0, torch.finfo(dtype).min)


def gated_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    gate: torch.Tensor | None,
    mask: torch.Tensor | None,
    local_mask: torch.Tensor | None = None,
    *,
    scaling: float,
    dropout: float = 0.0,
    training: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Compute global and local attention, two softmaxes over the same scores, and mix them (equations 1, 4 and 6).

    Args:
        query: (B, heads, L, D).
        key: (B, heads, L, D).
        value: (B, heads, L, D).
        gate: (B, L, 1), the gate of each query token. If None, only global attention is computed.
        mask: (B, 1, L, L), mask of global attention: added to the scores, or boolean and True where attention is
            allowed. If None, all tokens are allowed.
        local_mask (*optional*): Mask of local attention, in the same form.
        scaling: Factor of the scores, D ** -0.5.
        dropout (*optional*, defaults to 0.0): Dropout probability, applied to both attentions independently.
        training (*optional*, defaults to False): Apply dropout.

    Returns:
        The output (B, L, heads, D); the mixed weights (B, heads, L, L); and the local weights (B, heads, L, L), or
        None without a gate. All are after dropout.
    """
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    weights = _softmax(scores, mask)
    local_weights = None
    if gate is None:
        weights = functional.dropout(weights, p=dropout, training=training)
    else:
        local_weights = _softmax(scores, local_mask)
        if training and dropout:
            kept, local_kept = _two_draws(scores, dropout)
            weights = weights * kept
            local_weights = local_weights * local_kept
        weights = interpolate(weights, local_weights, gate.unsqueeze(1))
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights, local_weights


def interpolate(global_: torch.Tensor, local: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Interpolate between global and local values (equation 6), exactly if they are equal or the gate is 0 or 1.

    The gate must have as many dimensions as the values.
    """
    return torch.lerp(global_, local, gate.to(global_.dtype))


def _softmax(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is not None and mask.dtype is torch.bool:
        # Adding is faster than filling, as the mask is the same for all heads.
        mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill_(~mask, torch.finfo(scores.dtype).min)
    if mask is not None:
        scores = scores + mask
        if scores.dtype is torch.float16:  # the only dtype in which adding a score to the lowest value can overflow
            scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


@torch.no_grad()
def _two_draws(like: torch.Tensor, dropout: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two independent dropout masks in the shape of `like`, with values 0 and 1 / (1 - dropout).

    Both are computed from one random number u per element, since drawing numbers dominates the cost of dropout on the
    CPU. The first keeps u < p. The second keeps a share p of these numbers and of the rest, so both are independent.
    Numbers are drawn row by row, so that on the CPU blocks of rows get the same numbers as the whole.
    """
    keep = 1.0 - dropout
    if not keep:
        return torch.zeros_like(like), torch.zeros_like(like)
    batch, heads, rows, length = like.shape
    numbers = _random_int16(rows, batch * heads * length, like.device)
    numbers = numbers.view(rows, batch, heads, length).permute(1, 2, 0, 3).float()
    limit = _quantile(keep)
    both = _quantile(keep * keep)
    second_limit = _quantile(keep + dropout * keep)
    # Of whole numbers, `clamp(limit - number, 0, 1)` is 1 below the limit, else 0. It is faster than a comparison.
    first = (limit - numbers).clamp_(0, 1)
    second = (both - numbers).clamp_(0, 1).sub_(first).add_((second_limit - numbers).clamp_(0, 1))
    return first.div_(keep).to(like.dtype), second.div_(keep).to(like.dtype)


def _random_int16(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Draw numbers (rows, columns) from -2**15 to 2**15 - 1, row by row."""
    if device.type != "cpu":
        return torch.randint(-(2**15), 2**15, (rows, columns), dtype=torch.int16, device=device)
    # A CPU draws one number after the other, so four are cut from one of 64 bits.
    return torch.randint(-(2**63), 2**63 - 1, (rows, -(-columns // 4))).view(torch.int16)[:, :columns]


def _quantile(share: float) -> int:
    """Return the value below which a share of the numbers of `_random_int16` lies."""
    return round(share * 2**16) - 2**15
