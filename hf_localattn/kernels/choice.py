"""Choice between a Triton kernel and the torch code of an attention.

A kernel file takes `triton`, `tl`, `constexpr`, `jit` and `inline` from here, so that it can be imported without
triton.
"""

import os
from collections.abc import Callable
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

__all__ = ["INTERPRETED", "constexpr", "inline", "jit", "runs_kernel", "tl", "triton"]

logger = logging.get_logger(__name__)

SWITCH = "HF_LOCALATTN_KERNELS"
"""Environment variable that switches all kernels off if it is 0."""

INTERPRETED = triton is not None and os.environ.get("TRITON_INTERPRET") == "1"
"""True if triton runs kernels in Python, on any device. Triton reads the variable when a kernel is defined."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16)

CAPABILITY = (8, 0)
"""The lowest compute capability: older GPUs have no bfloat16 arithmetic, and triton does not support them."""


def jit(function: Callable[..., Any]) -> Any:
    """Make a function a Triton kernel if triton is installed. Annotate its constants with `constexpr`."""
    return function if triton is None else triton.jit(function)


def inline(function: Callable[..., Any]) -> Any:
    """Make a function for use in kernels. Triton's interpreter takes a plain function, and runs it faster."""
    return function if INTERPRETED else jit(function)


def runs_kernel(name: str, device: torch.device, dtypes: tuple[torch.dtype, ...], unsuitable: str = "") -> bool:
    """Return True if a computation should run its Triton kernel, and log the choice once.

    If triton is installed but unusable, the first call warns. Compiled graphs keep the choice of their first call.

    Args:
        name: Name of the computation.
        device: Device of the tensors.
        dtypes: Their dtypes.
        unsuitable (*optional*): Reason why the kernel cannot take these shapes or options.
    """
    # Exports, traces and transforms of `torch.func` know only PyTorch's own operations.
    if torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active():
        return False
    if not torch.compiler.is_compiling() and torch.jit.is_tracing():  # type: ignore[attr-defined]  # not in the `__all__` of torch.jit
        return False
    return _choose(name, device, dtypes, unsuitable)


@torch.compiler.assume_constant_result
def _choose(name: str, device: torch.device, dtypes: tuple[torch.dtype, ...], unsuitable: str) -> bool:
    if os.environ.get(SWITCH) == "0":
        logger.info_once(f"{name} runs torch code, because {SWITCH} is 0.")
        return False
    if triton is None:
        if device.type == "cuda":
            logger.info_once(f"{name} runs torch code, because triton is not installed.")
        return False
    if device.type != "cuda" and not INTERPRETED and torch.cuda.is_available():
        return False  # the tensors are on the CPU by choice
    if reason := _fault(device, dtypes) or unsuitable:
        logger.warning_once(f"{name} runs torch code in place of its Triton kernel: {reason}. {SWITCH}=0 hides this.")
        return False
    logger.info_once(f"{name} runs its Triton kernel. {SWITCH}=0 switches it off.")
    return True


def _fault(device: torch.device, dtypes: tuple[torch.dtype, ...]) -> str:
    """Return the reason why no kernel can run, or ""."""
    if not INTERPRETED:
        if device.type != "cuda":
            return "triton is installed, but there is no CUDA device"
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < CAPABILITY:
            needed = ".".join(map(str, CAPABILITY))
            return f"the compute capability of {device} is {major}.{minor}, and the kernel needs {needed}"
    for dtype in dtypes:
        if dtype not in DTYPES:
            return f"it takes {', '.join(map(str, DTYPES))}, not {dtype}"
    return ""
