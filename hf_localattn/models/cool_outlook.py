"""Context outlook attention, in which every token predicts the weights for mixing the tokens in its window.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), section 3.3, equations 7, 9 and 10.

Shapes: B batch, L tokens, F features, K window (odd), N heads of F/N features each.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import functional
from transformers.utils import is_tracing

from .configuration_local_attention import LocalAttentionConfig


def outlook_attention(
    values: torch.Tensor,
    scores: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    joint_softmax: bool = False,
    mask_outside_window: bool = False,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Mix the values of each window with the weights that its central token predicts, and sum overlapping windows.

    The window centered at token j reads the sources j - K//2 .. j + K//2 and writes to the targets at the same
    positions: `out[j + p - K//2] += sum_r softmax_r(scores[j, p, r]) * values[j + r - K//2]` (equations 7, 9 and 10).
    Values are 0 outside the sequence and at padding. Windows centered at padding write nothing. On a GPU the installed
    package computes this with a Triton kernel, except with `joint_softmax`, `dropout` or `return_weights`.

    Args:
        values: (B, L, F).
        scores: (B, L, K, K, N) as [central token, target, source, head]. N divides F.
        mask: (B, L), True at tokens and False at padding. By default all are tokens.
        joint_softmax: Normalize over the sources and heads of a target together, not over the sources for each head.
        mask_outside_window: Exclude sources outside the sequence and at padding from the softmax.
        dropout: Dropout probability of the weights. Set it to 0 in evaluation.
        return_weights: Return the normalized weights, too.

    Returns:
        The mixed values (B, L, F), and the weights (B, L, K, K, N) or `None`.
    """
    mask = None if mask is None else mask.to(torch.bool)
    kernel = None if return_weights else LocalAttentionConfig.installed.kernel("outlook_attention")
    if kernel is not None and kernel.runs(values, scores, joint_softmax=joint_softmax, dropout=dropout):
        return kernel.attend(values, scores, mask, mask_outside_window), None

    values, scores = _mask_windows(values, scores, mask, mask_outside_window)
    plain = scores.shape[-1] == values.shape[-1] and not (joint_softmax or dropout or return_weights)
    if plain and not is_tracing() and not torch._C._are_functorch_transforms_active():  # compilers fuse the definition
        return _BandedOutlook.apply(values, scores, mask), None

    weights = _window_weights(scores, mask, joint_softmax)
    mixed = _mix_windows(values, functional.dropout(weights, dropout))
    return mixed, weights if return_weights else None


def _mask_windows(
    values: torch.Tensor, scores: torch.Tensor, mask: torch.Tensor | None, mask_outside_window: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Set values at padding to 0, and scores of sources outside the sequence and at padding to the lowest number."""
    if mask_outside_window:
        (batch, length), window = values.shape[:2], scores.shape[2]
        real = values.new_ones(batch, length, dtype=torch.bool) if mask is None else mask
        padded = functional.pad(real, (window // 2, window // 2))
        sources = torch.stack([padded[:, offset : offset + length] for offset in range(window)], dim=-1)
        scores = scores.masked_fill(~sources[:, :, None, :, None], torch.finfo(scores.dtype).min)
    return values if mask is None else values.masked_fill(~mask[..., None], 0.0), scores


def _window_weights(scores: torch.Tensor, mask: torch.Tensor | None, joint_softmax: bool = False) -> torch.Tensor:
    """Normalize scores (B, L, K, K, N); the weights of windows centered at padding are 0."""
    weights = scores.flatten(3).softmax(-1).view_as(scores) if joint_softmax else scores.softmax(dim=3)
    return weights if mask is None else weights.masked_fill(~mask[:, :, None, None, None], 0.0)


def _mix_windows(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Apply weights (B, L, K, K, N) by the definition, differentiable by autograd."""
    (batch, length, features), (window, heads) = values.shape, weights.shape[-2:]
    half = window // 2
    sources = _pad_windows(values, half).unflatten(-1, (heads, features // heads))
    weights = weights[..., None]
    mixed = values.new_zeros(batch, length + 2 * half, heads, features // heads)
    for target in range(window):
        for r in range(window):
            written = weights[:, :, target, r] * sources[:, r : r + length]
            mixed = mixed + functional.pad(written, (0, 0, 0, 0, target, 2 * half - target))
    return mixed[:, half : half + length].flatten(-2)


def differentiate_definition(
    grad_mixed: torch.Tensor,
    values: torch.Tensor,
    scores: torch.Tensor,
    mask: torch.Tensor | None,
    mask_outside_window: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return the gradients of values and scores with a graph, which second derivatives need."""
    masked_values, masked_scores = _mask_windows(values, scores, mask, mask_outside_window)
    mixed = _mix_windows(masked_values.to(scores.dtype), _window_weights(masked_scores, mask))
    return torch.autograd.grad(mixed, (values, scores), grad_mixed, create_graph=True)


class _BandedOutlook(torch.autograd.Function):
    """Softmax over sources and mixing in one step, as K*K fused multiply-adds on shifted views.

    To save memory, backward recomputes the softmax from the scores, in the buffer of their gradient. On a CPU examples
    are processed one at a time, so that they stay in the cache.
    """

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(values, scores, mask)
        length, half = values.shape[1], scores.shape[2] // 2
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
    def backward(ctx: Any, grad_mixed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        values, scores, mask = ctx.saved_tensors
        if torch.is_grad_enabled():
            grad_values, grad_scores = differentiate_definition(grad_mixed, values, scores, mask)
            return grad_values, grad_scores, None
        length, half = values.shape[1], scores.shape[2] // 2
        with torch.autocast(values.device.type, enabled=False):
            sources, grads = _pad_windows(values.to(scores.dtype), half), _pad_windows(grad_mixed, half)
            grad_sources, grad_scores = torch.zeros_like(sources), torch.empty_like(scores)
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
            return grad_sources[:, half : half + length].to(values.dtype), grad_scores, None


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
