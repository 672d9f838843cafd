"""Context outlook attention at speed: what `cool_outlook.py` defines, for one head per feature.

Shapes: B batch, L tokens, F features, K window (odd).
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import functional


class BandedOutlook(torch.autograd.Function):
    """Softmax over sources and mixing in one step, as K*K fused multiply-adds on shifted views.

    To save memory, backward recomputes the softmax from the scores, in the buffer of their gradient. On a CPU examples
    are processed one at a time, so that they stay in the cache. `differentiate` gives second derivatives.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: torch.Tensor,
        scores: torch.Tensor,
        mask: torch.Tensor | None,
        differentiate: Any,
    ) -> torch.Tensor:
        ctx.save_for_backward(values, scores, mask)
        ctx.differentiate = differentiate
        length = values.shape[1]
        half = scores.shape[2] // 2
        with torch.autocast(values.device.type, enabled=False):
            sources = _pad_windows(values.to(scores.dtype), half)
            mixed = torch.zeros_like(sources)
            weights = torch.empty_like(scores[:1] if scores.device.type == "cpu" else scores)
            for source, score, real, out in _one_by_one(sources, scores, mask, mixed):
                torch.softmax(score, 3, out=weights)
                for target in range(score.shape[2]):
                    written = _window_outputs(source, weights[:, :, target])
                    out[:, target : target + length].add_(written if real is None else written.mul_(real[..., None]))
            return mixed[:, half : half + length]

    @staticmethod
    def backward(ctx: Any, grad_mixed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        values, scores, mask = ctx.saved_tensors
        if torch.is_grad_enabled():
            grad_values, grad_scores = ctx.differentiate(grad_mixed, values, scores, mask)
            return grad_values, grad_scores, None, None
        length = values.shape[1]
        half = scores.shape[2] // 2
        with torch.autocast(values.device.type, enabled=False):
            sources = _pad_windows(values.to(scores.dtype), half)
            grads = _pad_windows(grad_mixed, half)
            grad_sources = torch.zeros_like(sources)
            grad_scores = torch.empty_like(scores)
            for source, score, real, grad, grad_source, grad_score in _one_by_one(
                sources, scores, mask, grads, grad_sources, grad_scores
            ):
                torch.softmax(score, 3, out=grad_score)  # the weights are then replaced by the gradient
                for target in range(score.shape[2]):
                    weights = grad_score[:, :, target]
                    written = _window_outputs(source, weights)
                    grad_written = grad[:, target : target + length]
                    grad_written = grad_written if real is None else grad_written * real[..., None]
                    for r in range(score.shape[2]):
                        weighted = weights[:, :, r].mul_(grad_written)
                        grad_source[:, r : r + length].add_(weighted)
                        weighted.mul_(source[:, r : r + length] - written)
            return grad_sources[:, half : half + length].to(values.dtype), grad_scores, None, None


def _window_outputs(sources: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the sums (B, L, F) that all windows write to one of their targets with the weights (B, L, K, F)."""
    length = weights.shape[1]
    written = weights[:, :, 0] * sources[:, :length]
    for r in range(1, weights.shape[2]):
        written.addcmul_(weights[:, :, r], sources[:, r : r + length])
    return written


def _pad_windows(states: torch.Tensor, half: int) -> torch.Tensor:
    return functional.pad(states, (0, 0, half, half))


def _one_by_one(first: torch.Tensor, *others: torch.Tensor | None) -> Iterable[tuple[Any, ...]]:
    """Iterate over the examples on a CPU, so that each stays in its cache; on other devices give the whole batch."""
    tensors = (first, *others)
    if first.device.type != "cpu":
        return [tensors]
    return zip(*([None] * len(first) if t is None else t.split(1) for t in tensors), strict=True)
