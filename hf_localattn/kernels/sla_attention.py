"""Gated attention of SLA in Triton kernels for GPUs, as PyTorch operators.

`models/sla_attention.py` has the definition, `sla_programs.py` the kernels. Besides its arguments and its output, the
forward pass keeps two numbers per row and head, and the seed of dropout.

Shapes: B batch, L tokens, heads, D width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import library

from hf_localattn.kernels.choice import Comparison, runs_kernel, triton
from hf_localattn.kernels.sla_programs import forward_kernel, key_kernel, query_kernel
from hf_localattn.models.sla_attention import gated_attention
from hf_localattn.models.sla_masks import MaskTables, limited_rows

WIDEST_HEAD = 128
"""Largest width of a head, whose blocks fit into the memory that all GPUs have for a program."""

MOST_COMPARISONS = 64
"""Largest number of comparisons for an element of the mask; the code of the kernel has all of them."""


def runs(device: torch.device, dtype: torch.dtype, width: int, tables: MaskTables) -> bool:
    """Return True if the kernels should run for heads of a width with a local mask."""
    unsuitable = ""
    comparisons = tables.reach.shape[1] * (2 * tables.near + 1)
    if width > WIDEST_HEAD:
        unsuitable = f"heads have width {width}, and the kernel takes at most {WIDEST_HEAD}"
    elif comparisons > MOST_COMPARISONS:
        unsuitable = (
            f"`syntax_threshold` {tables.near} with {tables.reach.shape[1] // 2} neighbors on each side takes "
            f"{comparisons} comparisons of words, and the kernel does at most {MOST_COMPARISONS}"
        )
    return runs_kernel("SLA's attention", device, (dtype,), lambda: _compare(dtype, width, tables), unsuitable)


def _compare(dtype: torch.dtype, width: int, tables: MaskTables) -> Comparison:
    """Run kernels and definition on random numbers, for two heads of a width and the tables of at most two texts."""
    tables = MaskTables(tables.segments[:2], tables.generations[:2], tables.reach[:2], tables.near)
    batch, length = tables.segments.shape
    device = tables.segments.device
    generator = torch.Generator(device).manual_seed(0)  # not the one that a training draws from
    shapes = [(batch, 2, length, width)] * 3 + [(batch, length, 1)]
    inputs = [torch.rand(shape, generator=generator, device=device).to(dtype).requires_grad_() for shape in shapes]
    query, key, value, gate = inputs
    precise = [tensor.detach().float().requires_grad_() for tensor in inputs]
    tokens = (torch.arange(length, device=device) <= 3 * length // 4).expand(batch, -1)
    mask = tokens[:, None, None].expand(-1, -1, length, -1)
    local_mask = limited_rows(tables.rows, tokens)(slice(None)).unsqueeze(1)
    scaling = width**-0.5
    actual = attend(query, key, value, gate, tables.without_padding(tokens), scaling=scaling)
    query, key, value, gate = precise
    expected, _, _ = gated_attention(query, key, value, gate, mask, local_mask, scaling=scaling)
    gradient = torch.randn(actual.shape, generator=generator, device=device)
    yield "states", actual, expected
    gradients = torch.autograd.grad(actual, inputs, gradient.to(dtype))
    names = [f"the gradient of {name}" for name in ("queries", "keys", "values", "gates")]
    yield from zip(names, gradients, torch.autograd.grad(expected, precise, gradient), strict=True)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    gate: torch.Tensor,
    tables: MaskTables,
    *,
    scaling: float,
    dropout: float = 0.0,
) -> torch.Tensor:
    """Compute the output (B, L, heads, D) of `gated_attention` with the masks of `tables`.

    The global mask excludes the padding of the tables. Dropout draws other numbers than PyTorch. They depend only on a
    seed, which is drawn from the generator of the device, and on the position of the weight.
    """
    states = [tensor.transpose(1, 2).contiguous() for tensor in (query, key, value)]
    gate = gate.squeeze(-1).contiguous()
    of_tokens = [table.contiguous() for table in tables[:3]]
    seed = torch.randint(2**62, (1,), device=query.device) if dropout else None
    output, _ = gated(*states, gate, *of_tokens, tables.near, seed, scaling, dropout)
    return output


@library.custom_op("hf_localattn::gated", mutates_args=())
def gated(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    gate: torch.Tensor,
    segments: torch.Tensor,
    generations: torch.Tensor,
    reach: torch.Tensor,
    near: int,
    seed: torch.Tensor | None,
    scaling: float,
    dropout: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the forward kernel on contiguous queries, keys and values (B, L, heads, D), gates (B, L) and `MaskTables`.

    `seed` (1,) is that of dropout, or None without dropout. Returns the output (B, L, heads, D), and the logarithms of
    the sums of both softmaxes (2, B, heads, L).
    """
    batch, length, heads, _ = query.shape
    output = torch.empty_like(query)
    sums = query.new_empty(2, batch, heads, length, dtype=torch.float32)
    tensors = (query, key, value, gate, segments, generations, reach, seed)
    _launch(forward_kernel, tensors, (output, sums), near, scaling, dropout)
    return output, sums


@library.custom_op("hf_localattn::gated_backward", mutates_args=())
def gated_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    gate: torch.Tensor,
    segments: torch.Tensor,
    generations: torch.Tensor,
    reach: torch.Tensor,
    near: int,
    seed: torch.Tensor | None,
    scaling: float,
    dropout: float,
    sums: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of queries, keys, values and gates from that of the output, contiguous.

    The other arguments are those of `gated`, and the sums that it returned.
    """
    of_query, of_key, of_value = (torch.empty_like(query) for _ in range(3))
    products = torch.empty_like(sums)
    tensors = (query, key, value, gate, segments, generations, reach, seed)
    _launch(query_kernel, tensors, (gradient, sums, products, of_query), near, scaling, dropout)
    _launch(key_kernel, tensors, (gradient, sums, products, of_key, of_value), near, scaling, dropout)
    of_all, of_local = products.sum(2)
    return of_query, of_key, of_value, (of_local - of_all).to(gate.dtype)


@gated.register_fake
def _(query: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    batch, length, heads, _width = query.shape
    return torch.empty_like(query), query.new_empty(2, batch, heads, length, dtype=torch.float32)


@gated_backward.register_fake
def _(
    gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, gate: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), torch.empty_like(gate)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    *tensors, near, seed, scaling, dropout = inputs
    ctx.settings = (near, scaling, dropout)
    ctx.save_for_backward(*tensors, seed, output[1])


def _differentiate(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    *tensors, seed, sums = ctx.saved_tensors
    near, scaling, dropout = ctx.settings
    gradients = gated_backward(gradient.contiguous(), *tensors, near, seed, scaling, dropout, sums)
    return (*gradients, *[None] * 7)


gated.register_autograd(_differentiate, setup_context=_keep)


def _launch(
    kernel: Any,
    tensors: tuple[Any, ...],
    results: tuple[torch.Tensor, ...],
    near: int,
    scaling: float,
    dropout: float,
) -> None:
    """Run a kernel with one program for each head and block of tokens."""
    query, *_, generations, reach, _ = tensors
    batch, length, heads, width = query.shape
    block = block_size(width, query.dtype)
    if not query.numel():
        return
    matmul = torch.backends.cuda.matmul
    in_tf32 = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32  # torch 2.8
    precise = query.dtype is not torch.float32 or not in_tf32
    with torch.cuda.device_of(query):
        kernel[(batch * heads * triton.cdiv(length, block),)](
            *tensors,
            *results,
            scaling / math.log(2),
            dropout,
            1 / (1 - dropout) if dropout < 1 else 0.0,
            length,
            heads,
            width,
            NEAR=near,
            REACH=reach.shape[1],
            GENERATIONS=generations.shape[1],
            DROPS=dropout > 0,
            BLOCK=block,
            WIDTH=max(16, triton.next_power_of_2(width)),
            PRECISION="ieee" if precise else "tf32",
            num_warps=4,
            num_stages=2,
        )


def block_size(width: int, dtype: torch.dtype) -> int:
    """Return the number of queries and keys in a block: larger ones need more registers than a program has."""
    return max(16, min(32, 4096 // (triton.next_power_of_2(width) * dtype.itemsize)))
