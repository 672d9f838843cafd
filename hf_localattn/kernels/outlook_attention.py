"""Outlook attention as Triton kernels for GPUs: softmax, mixing and the sum of overlapping windows in one pass.

`models/cool_outlook.py` has the definition. Each program owns a block of tokens and of features, and reads the scores
that write to it (forward) or that depend on it (backward), so that no program waits for another and no sum is atomic.
Backward keeps values, scores and mask, and recomputes the softmax.

Shapes: B batch, L tokens, F features, K window (odd), N heads of F/N features each.
"""

from typing import Any

import torch
from torch import library

from hf_localattn.kernels.choice import INTERPRETED, Comparison, constexpr, inline, jit, runs_kernel, tl, triton
from hf_localattn.models.cool_outlook import differentiate_definition, outlook_attention

MAX_HEAD_SIZE = 1024
"""Features per head that fit into one program, which sums over them."""

MAX_WINDOW = 31
"""Backward has three nested loops over the window."""

BLOCK = 8192 if INTERPRETED else 2048
"""Elements of a program: 16 numbers per thread of 4 warps. The interpreter has a high cost per program."""


def runs(values: torch.Tensor, scores: torch.Tensor, *, joint_softmax: bool, dropout: float) -> bool:
    """Return True if the kernels should run on values (B, L, F) and scores (B, L, K, K, N) with these options."""
    features = values.shape[-1]
    window, heads = scores.shape[-2:]
    unsuitable = ""
    if joint_softmax or dropout:
        unsuitable = "the kernel has neither a joint softmax nor dropout"
    elif features > heads * MAX_HEAD_SIZE:
        unsuitable = f"heads have {features // heads} features, and the kernel takes up to {MAX_HEAD_SIZE}"
    elif window > MAX_WINDOW:
        unsuitable = f"the window is {window}, and the kernel takes up to {MAX_WINDOW}"
    dtypes = (values.dtype, scores.dtype)
    return runs_kernel("Outlook attention", values.device, dtypes, lambda: _compare(values, scores), unsuitable)


def _compare(values: torch.Tensor, scores: torch.Tensor) -> Comparison:
    """Run kernel and definition on random numbers in the shapes of values and scores, for at most two texts."""
    generator = torch.Generator(values.device).manual_seed(0)  # not the one that a training draws from

    def draw(like: torch.Tensor) -> torch.Tensor:
        shape = (max(1, min(2, len(like))), *like.shape[1:])
        return torch.randn(shape, generator=generator, device=like.device).to(like.dtype)

    inputs = [draw(like).requires_grad_() for like in (values, scores)]
    precise = [tensor.detach().float().requires_grad_() for tensor in inputs]
    mask = torch.arange(values.shape[1], device=values.device) <= 3 * values.shape[1] // 4
    mask = mask.expand(len(inputs[0]), -1)
    actual = attend(inputs[0], inputs[1], mask, True)
    expected, _ = outlook_attention(precise[0], precise[1], mask, mask_outside_window=True, return_weights=True)
    gradient = draw(values)
    yield "values", actual, expected
    gradients = torch.autograd.grad(actual, inputs, gradient.to(actual.dtype))
    names = ("the gradient of values", "the gradient of scores")
    yield from zip(names, gradients, torch.autograd.grad(expected, precise, gradient.float()), strict=True)


@library.custom_op("hf_localattn::outlook", mutates_args=())
def attend(
    values: torch.Tensor, scores: torch.Tensor, mask: torch.Tensor | None, mask_outside_window: bool
) -> torch.Tensor:
    """Mix values (B, L, F) as `outlook_attention` does, with a softmax per head and without dropout.

    The result has the dtype of `scores`. Sums are in float32.
    """
    values = values.contiguous()
    scores = scores.contiguous()
    mixed = values.new_empty(values.shape, dtype=scores.dtype)
    _launch(_mix, values, scores, mask, mask_outside_window, mixed)
    return mixed


@attend.register_fake
def _(values: torch.Tensor, scores: torch.Tensor, *_: Any) -> torch.Tensor:
    return values.new_empty(values.shape, dtype=scores.dtype)


@library.custom_op("hf_localattn::outlook_backward", mutates_args=())
def attend_backward(
    grad_mixed: torch.Tensor,
    values: torch.Tensor,
    scores: torch.Tensor,
    mask: torch.Tensor | None,
    mask_outside_window: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of values and scores of `attend`, from that of its result."""
    values = values.contiguous()
    scores = scores.contiguous()
    grad_mixed = grad_mixed.contiguous()
    grad_values = values.new_empty(values.shape)
    grad_scores = scores.new_empty(scores.shape)
    _launch(_mix_backward, values, scores, mask, mask_outside_window, grad_mixed, grad_values, grad_scores)
    return grad_values, grad_scores


@attend_backward.register_fake
def _(
    grad_mixed: torch.Tensor, values: torch.Tensor, scores: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return values.new_empty(values.shape), scores.new_empty(scores.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    values, scores, mask, ctx.mask_outside_window = inputs
    ctx.save_for_backward(values, scores, mask)


def _differentiate(ctx: Any, grad_mixed: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    differentiate: Any = differentiate_definition if torch.is_grad_enabled() else attend_backward
    return *differentiate(grad_mixed, *ctx.saved_tensors, ctx.mask_outside_window), None, None


attend.register_autograd(_differentiate, setup_context=_save)


def _launch(
    kernel: Any,
    values: torch.Tensor,
    scores: torch.Tensor,
    mask: torch.Tensor | None,
    mask_outside_window: bool,
    *others: torch.Tensor,
) -> None:
    batch, length, features = values.shape
    window, heads = scores.shape[-2:]
    if not values.numel():
        return
    size = features // heads
    padded_size = triton.next_power_of_2(size)
    block_heads = max(1, min(triton.next_power_of_2(heads), 128 // padded_size))
    block_rows = max(1, min(triton.next_power_of_2(batch * length), BLOCK // (block_heads * padded_size)))
    grid = (triton.cdiv(batch * length, block_rows), triton.cdiv(heads, block_heads))
    with torch.cuda.device_of(values):
        kernel[grid](
            values,
            scores,
            values if mask is None else mask.contiguous(),
            *others,
            batch * length,
            length,
            heads,
            WINDOW=window,
            SIZE=size,
            PADDED_SIZE=padded_size,
            BLOCK_ROWS=block_rows,
            BLOCK_HEADS=block_heads,
            HAS_MASK=mask is not None,
            MASK_SOURCES=mask_outside_window,
        )


@inline
def _block(
    rows, length, heads, SIZE: constexpr, PADDED_SIZE: constexpr, BLOCK_ROWS: constexpr, BLOCK_HEADS: constexpr
):
    """Return a program's rows of (B*L) and their positions as columns, and its features and their heads as rows.

    The position is far below 0 for rows outside, and the feature -1.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    position = tl.where(row < rows, row % length, -(1 << 30))
    lanes = tl.arange(0, BLOCK_HEADS * PADDED_SIZE)
    head = tl.program_id(1) * BLOCK_HEADS + lanes // PADDED_SIZE
    part = lanes % PADDED_SIZE
    feature = tl.where((head < heads) & (part < SIZE), head * SIZE + part, -1)
    return row[:, None], position[:, None], feature[None, :], head[None, :]


@inline
def _is_token(mask, row, position, length, HAS_MASK: constexpr):
    """Return True at positions inside the sequence that are no padding."""
    inside = (position >= 0) & (position < length)
    if HAS_MASK:
        inside = inside & (tl.load(mask + row, mask=inside, other=0) != 0)
    return inside


@inline
def _load(states, offsets, real, feature):
    """Return elements in float32, and 0 where they are not `real` or no feature of the program."""
    return tl.load(states + offsets, mask=real & (feature >= 0), other=0.0).to(tl.float32)


@inline
def _source(
    values,
    scores,
    mask,
    row,
    position,
    target,
    source,
    real,
    feature,
    head,
    length,
    heads,
    SIZE: constexpr,
    WINDOW: constexpr,
    HAS_MASK: constexpr,
    MASK_SOURCES: constexpr,
):
    """Return value and score of one source for one target of the windows that are centered at `row`."""
    shift = source - WINDOW // 2
    is_token = _is_token(mask, row + shift, position + shift, length, HAS_MASK)
    value = _load(values, (row + shift) * (heads * SIZE) + feature, is_token, feature)
    score = _load(scores, ((row * WINDOW + target) * WINDOW + source) * heads + head, real, feature)
    if MASK_SOURCES:
        score = tl.where(is_token, score, -3.0e38)
    return value, score


@inline
def _written(
    values,
    scores,
    mask,
    row,
    position,
    target,
    real,
    feature,
    head,
    length,
    heads,
    SIZE: constexpr,
    WINDOW: constexpr,
    HAS_MASK: constexpr,
    MASK_SOURCES: constexpr,
):
    """Return the output of the windows centered at `row` for one target, with maximum and sum of the softmax.

    The maximum grows while the sources are read. Each source takes one exponential: either its own is 1, or the
    factor of the sum so far is.
    """
    total = tl.zeros_like(real & (feature >= 0)).to(tl.float32)
    written = total
    peak = total - 3.0e38
    for source in tl.static_range(WINDOW):
        value, score = _source(values, scores, mask, row, position, target, source, real, feature, head, length, heads,
                               SIZE, WINDOW, HAS_MASK, MASK_SOURCES)  # fmt: skip
        exponential = tl.exp(-tl.abs(score - peak))
        higher = score > peak
        scale = tl.where(higher, exponential, 1.0)
        weight = tl.where(higher, 1.0, exponential)
        total = total * scale + weight
        written = written * scale + weight * value
        peak = tl.where(higher, score, peak)
    return written / total, peak, total


@jit
def _mix(
    values,
    scores,
    mask,
    mixed,
    rows,
    length,
    heads,
    WINDOW: constexpr,
    SIZE: constexpr,
    PADDED_SIZE: constexpr,
    BLOCK_ROWS: constexpr,
    BLOCK_HEADS: constexpr,
    HAS_MASK: constexpr,
    MASK_SOURCES: constexpr,
):
    """Write the mixed values of a block of tokens, each a target of the WINDOW windows around it."""
    row, position, feature, head = _block(rows, length, heads, SIZE, PADDED_SIZE, BLOCK_ROWS, BLOCK_HEADS)
    result = tl.zeros([BLOCK_ROWS, BLOCK_HEADS * PADDED_SIZE], tl.float32)
    for target in range(WINDOW):
        shift = WINDOW // 2 - target
        real = _is_token(mask, row + shift, position + shift, length, HAS_MASK)
        written, _, _ = _written(values, scores, mask, row + shift, position + shift, target, real, feature, head,
                                 length, heads, SIZE, WINDOW, HAS_MASK, MASK_SOURCES)  # fmt: skip
        result += tl.where(real, written, 0.0)
    tl.store(
        mixed + row * (heads * SIZE) + feature,
        result.to(mixed.dtype.element_ty),
        mask=(position >= 0) & (feature >= 0),
    )


@jit
def _mix_backward(
    values,
    scores,
    mask,
    grad_mixed,
    grad_values,
    grad_scores,
    rows,
    length,
    heads,
    WINDOW: constexpr,
    SIZE: constexpr,
    PADDED_SIZE: constexpr,
    BLOCK_ROWS: constexpr,
    BLOCK_HEADS: constexpr,
    HAS_MASK: constexpr,
    MASK_SOURCES: constexpr,
):
    """Write the gradients of a block of tokens: of their values as sources, and of their windows' scores.

    A token is a source of WINDOW windows, of which one is its own.
    """
    row, position, feature, head = _block(rows, length, heads, SIZE, PADDED_SIZE, BLOCK_ROWS, BLOCK_HEADS)
    result = tl.zeros([BLOCK_ROWS, BLOCK_HEADS * PADDED_SIZE], tl.float32)
    for source in range(WINDOW):
        shift = WINDOW // 2 - source
        real = _is_token(mask, row + shift, position + shift, length, HAS_MASK)
        for target in range(WINDOW):
            written, peak, total = _written(values, scores, mask, row + shift, position + shift, target, real, feature,
                                            head, length, heads, SIZE, WINDOW, HAS_MASK, MASK_SOURCES)  # fmt: skip
            reader = shift + target - WINDOW // 2
            is_read = real & (position + reader >= 0) & (position + reader < length)
            grad = _load(grad_mixed, (row + reader) * (heads * SIZE) + feature, is_read, feature)
            _, score = _source(values, scores, mask, row + shift, position + shift, target, source, real, feature,
                               head, length, heads, SIZE, WINDOW, HAS_MASK, MASK_SOURCES)  # fmt: skip
            result += tl.exp(score - peak) / total * grad
            if source == WINDOW // 2:
                _store_grad_scores(grad, written, peak, total, values, scores, mask, grad_scores, row, position,
                                   target, real, feature, head, length, heads, WINDOW, SIZE, PADDED_SIZE,
                                   BLOCK_ROWS, BLOCK_HEADS, HAS_MASK, MASK_SOURCES)  # fmt: skip
    result = tl.where(_is_token(mask, row, position, length, HAS_MASK), result, 0.0)
    tl.store(
        grad_values + row * (heads * SIZE) + feature,
        result.to(grad_values.dtype.element_ty),
        mask=(position >= 0) & (feature >= 0),
    )


@inline
def _store_grad_scores(
    grad,
    written,
    peak,
    total,
    values,
    scores,
    mask,
    grad_scores,
    row,
    position,
    target,
    real,
    feature,
    head,
    length,
    heads,
    WINDOW: constexpr,
    SIZE: constexpr,
    PADDED_SIZE: constexpr,
    BLOCK_ROWS: constexpr,
    BLOCK_HEADS: constexpr,
    HAS_MASK: constexpr,
    MASK_SOURCES: constexpr,
):
    """Write the gradients of the scores of all sources for one target, summed over the features of each head."""
    first = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)[None, :]
    for source in tl.static_range(WINDOW):
        value, score = _source(values, scores, mask, row, position, target, source, real, feature, head, length, heads,
                               SIZE, WINDOW, HAS_MASK, MASK_SOURCES)  # fmt: skip
        change = tl.where(real & (feature >= 0), tl.exp(score - peak) / total * grad * (value - written), 0.0)
        if PADDED_SIZE > 1:
            change = tl.sum(tl.reshape(change, (BLOCK_ROWS, BLOCK_HEADS, PADDED_SIZE)), axis=2)
        offsets = ((row * WINDOW + target) * WINDOW + source) * heads + first
        tl.store(
            grad_scores + offsets, change.to(grad_scores.dtype.element_ty), mask=(position >= 0) & (first < heads)
        )
