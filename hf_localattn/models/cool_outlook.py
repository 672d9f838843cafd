"""Context outlook attention, in which every token predicts the weights for mixing the tokens in its window.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), section 3.3, equations 7, 9 and 10.

Shapes: B batch, L tokens, F features, K window (odd), N heads of F/N features each.
"""

import torch
from torch.nn import functional
from transformers.utils import is_tracing

from .configuration_local_attention import LocalAttentionConfig
from .cool_banded_outlook import BandedOutlook


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
        return BandedOutlook.apply(values, scores, mask, differentiate_definition), None

    weights = _window_weights(scores, mask, joint_softmax)
    mixed = _mix_windows(values, functional.dropout(weights, dropout))
    return mixed, weights if return_weights else None


def _mask_windows(
    values: torch.Tensor, scores: torch.Tensor, mask: torch.Tensor | None, mask_outside_window: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Set values at padding to 0, and scores of sources outside the sequence and at padding to the lowest number."""
    if mask_outside_window:
        batch, length = values.shape[:2]
        window = scores.shape[2]
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
    batch, length, features = values.shape
    window, heads = weights.shape[-2:]
    half = window // 2
    sources = functional.pad(values, (0, 0, half, half)).unflatten(-1, (heads, features // heads))
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
