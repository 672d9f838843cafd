"""Choice between a Triton kernel and the torch code of an attention: a kernel runs if asked for, after a comparison.

A kernel file takes `triton`, `tl`, `constexpr`, `jit` and `inline` from here, so that it can be imported without
triton.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
from transformers.utils import logging

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:
    triton = tl = None
    constexpr = int

__all__ = ["INTERPRETED", "Comparison", "constexpr", "inline", "jit", "runs_kernel", "tl", "triton"]

logger = logging.get_logger(__name__)

SWITCH = "HF_LOCALATTN_KERNELS"
"""Environment variable that asks for kernels if it is 1. No kernel has run on a GPU yet, so none runs unasked."""

INTERPRETED = triton is not None and os.environ.get("TRITON_INTERPRET") == "1"
"""True if triton runs kernels in Python, on any device. Triton reads the variable when a kernel is defined."""

TOLERANCES = {torch.float32: 5e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Largest difference of a kernel from the torch code, as a share of the largest number, by dtype."""

Comparison = Iterable[tuple[str, torch.Tensor, torch.Tensor]]
"""Names of results, each with that of the kernel and that of the torch code."""

_DIFFERENCES: dict[Any, str] = {}
"""Why a kernel differs from the torch code, or "", by name, device and dtypes."""

CAPABILITY = (8, 0)
"""The lowest compute capability: older GPUs have no bfloat16 arithmetic, and triton does not support them."""


def jit(function: Callable[..., Any]) -> Any:
    """Make a function a Triton kernel if triton is installed. Annotate its constants with `constexpr`."""
    return function if triton is None else triton.jit(function)


def inline(function: Callable[..., Any]) -> Any:
    """Make a function for use in kernels. Triton's interpreter takes a plain function, and runs it faster."""
    return function if INTERPRETED else jit(function)


def runs_kernel(
    name: str,
    device: torch.device,
    dtypes: tuple[torch.dtype, ...],
    compare: Callable[[], Comparison],
    unsuitable: str = "",
) -> bool:
    """Return True if a computation should run its Triton kernel, and log the choice once.

    A kernel that was asked for is compared with the torch code at its first use on a device with these dtypes. If it
    differs or fails, or cannot be used, a warning says so, once. Compiled graphs keep the choice of their first call.

    Args:
        name: Name of the computation.
        device: Device of the tensors.
        dtypes: Their dtypes.
        compare: Function that runs the kernel and the torch code on numbers in the shapes of the tensors.
        unsuitable (*optional*): Reason why the kernel cannot take these shapes or options.
    """
    # Exports, traces and transforms of `torch.func` know only PyTorch's own operations.
    if torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active():
        return False
    if not torch.compiler.is_compiling() and torch.jit.is_tracing():  # type: ignore[attr-defined]  # not in the `__all__` of torch.jit
        return False
    if not _choose(name, device, dtypes, unsuitable):
        return False
    if not torch.compiler.is_compiling() and (name, device, dtypes) not in _DIFFERENCES:
        _DIFFERENCES[name, device, dtypes] = _difference(device, dtypes, compare)
    return _is_right(name, device, dtypes)


@torch.compiler.assume_constant_result
def _choose(name: str, device: torch.device, dtypes: tuple[torch.dtype, ...], unsuitable: str) -> bool:
    if os.environ.get(SWITCH) != "1":
        return False
    if device.type != "cuda" and not INTERPRETED and torch.cuda.is_available():
        return False  # the tensors are on the CPU by choice
    if reason := _fault(device, dtypes) or unsuitable:
        logger.warning_once(f"{name} runs torch code in place of its Triton kernel: {reason}.")
        return False
    return True


@torch.compiler.assume_constant_result
def _is_right(name: str, device: torch.device, dtypes: tuple[torch.dtype, ...]) -> bool:
    """Return True if the kernel was compared and computes what the torch code does."""
    difference = _DIFFERENCES.get((name, device, dtypes), "run the model once before it is compiled")
    if difference:
        logger.warning_once(f"{name} runs torch code in place of its Triton kernel: {difference}.")
    else:
        logger.info_once(f"{name} runs its Triton kernel, which was compared with the torch code on {device}.")
    return not difference


def _difference(device: torch.device, dtypes: tuple[torch.dtype, ...], compare: Callable[[], Comparison]) -> str:
    """Return how the results of a kernel differ from those of the torch code, or ""."""
    allowed = max(TOLERANCES[dtype] for dtype in dtypes)
    problems = []
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            for result, actual, expected in compare():
                size = expected.abs().max().item() or 1.0
                share = (actual.double() - expected.double()).abs().max().item() / size
                if not share <= allowed:  # NaN, too
                    problems.append(f"{share:.2g} in {result}")
    except Exception as error:  # of the compiler or the driver, which have errors of many kinds
        return f"on {device} it fails with {type(error).__name__}: {error}"
    if not problems:
        return ""
    names = ", ".join(str(dtype) for dtype in dict.fromkeys(dtypes))
    return (
        f"on {device} with {names} it differs by {' and '.join(problems)} of the largest number, more than {allowed}"
    )


def _fault(device: torch.device, dtypes: tuple[torch.dtype, ...]) -> str:
    """Return the reason why no kernel can run, or ""."""
    if triton is None:
        return "triton is not installed"
    if not INTERPRETED:
        if device.type != "cuda":
            return "triton is installed, but there is no CUDA device"
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < CAPABILITY:
            needed = ".".join(map(str, CAPABILITY))
            return f"the compute capability of {device} is {major}.{minor}, and the kernel needs {needed}"
    for dtype in dtypes:
        if dtype not in TOLERANCES:
            return f"it takes {', '.join(map(str, TOLERANCES))}, not {dtype}"
    return ""
