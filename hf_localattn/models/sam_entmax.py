"""Models with sequential attention whose token weights are sparse.

Shapes: B batch, L tokens.
"""

import torch

from .modeling_sam_roberta import *  # noqa: F403  # hands on the models
from .sam_attention import SOFTMAXES


def entmax15(scores: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Map scores (B, L) to weights that sum to 1, with weights of 0 for low scores and where a mask (B, L) is False.

    `weight_i = max(0, score_i / 2 - tau)^2`, with the tau for which the sum is 1.

    Source: Sparse Sequence-to-Sequence Models (Peters, Niculae and Martins, 2019), equation 12 and algorithm 2.
    """
    halves = scores.to(torch.promote_types(scores.dtype, torch.float32)) / 2
    if mask is not None:
        halves = halves.masked_fill(~mask, torch.finfo(halves.dtype).min)
    halves = (halves - halves.amax(-1, keepdim=True)).clamp(min=-1)  # tau is at least -1
    with torch.no_grad():
        ordered = halves.sort(descending=True).values
        count = torch.arange(1, ordered.shape[-1] + 1, dtype=ordered.dtype, device=ordered.device)
        mean = ordered.cumsum(-1) / count
        variance = ordered.square().cumsum(-1) / count - mean.square()
        taus = mean - (1 / count - variance).clamp(min=0).sqrt()
        last = (taus <= ordered).sum(-1, keepdim=True) - 1
        tau = taus.gather(-1, last)
    # Newton's step leaves tau as it is, and gives it the gradient of the root of `sum - 1`.
    roots = (halves - tau).clamp(min=0)
    tau = tau + (roots.square().sum(-1, keepdim=True) - 1) / (2 * roots.sum(-1, keepdim=True)).detach()
    weights = (halves - tau).clamp(min=0).square()
    return weights.masked_fill(halves == -1, 0.0).to(scores.dtype)  # exactly, whatever the rounding of tau


SOFTMAXES["entmax15"] = entmax15
