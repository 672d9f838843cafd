"""Checks of a model's inputs, so that what is wrong with one is said by its name before anything stumbles over it.

Types and shapes are looked at always. Values are looked at where that does not hold up a device: on the CPU, outside
compiled code.

Shapes: B batch, L tokens, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

WHOLE = (torch.int64, torch.int32)
IGNORED = -100
"""The label that losses pass over."""


def check_tensor(name: str, value: Any) -> None:
    """Raise `ValueError` for anything but a tensor."""
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"`{name}` is a {type(value).__name__}; it must be a tensor.")


def check_numbers(
    name: str,
    value: Any,
    shape: Sequence[int],
    *,
    dtypes: Sequence[torch.dtype] = WHOLE,
    rows: int | None = None,
    ignored: int | None = None,
    one_for_all: bool = False,
) -> None:
    """Raise `ValueError` for anything but whole numbers (B, ...) in a range.

    Args:
        name: of the input.
        value: what is given.
        shape: that it must have.
        dtypes: that it may have.
        rows: the numbers must be from 0 to below this; any if None.
        ignored: a number that may be there besides.
        one_for_all: whether one row may stand for all.
    """
    check_tensor(name, value)
    is_one = one_for_all and value.dim() == len(shape) and value.shape[0] == 1
    if tuple(value.shape)[is_one:] != tuple(shape)[is_one:]:
        raise ValueError(f"`{name}` has shape {tuple(value.shape)}; it must be {tuple(shape)}.")
    if value.dtype not in dtypes:
        raise ValueError(f"`{name}` is of {value.dtype}; it must be of {' or '.join(map(str, dtypes))}.")
    if rows is None or not can_look_at(value):
        return
    real = value if ignored is None else value[value != ignored]
    if not real.numel():
        return
    for number in (int(real.min()), int(real.max())):
        if not 0 <= number < rows:
            raise ValueError(f"`{name}` has {number}; it must be from 0 to {rows - 1}.")


def can_look_at(value: torch.Tensor) -> bool:
    """Return True if there are values, and they can be read without waiting for a device."""
    return value.device.type == "cpu" and not torch.compiler.is_compiling() and value.numel() > 0


def check_positions(name: str, value: Any, batch: int) -> None:
    """Raise `ValueError` for anything but a token's position for each row; beyond the end there is no answer."""
    check_tensor(name, value)
    if tuple(value.shape) not in ((batch,), (batch, 1)) or value.dtype != torch.int64:
        raise ValueError(
            f"`{name}` has shape {tuple(value.shape)} and is of {value.dtype}; it must be ({batch},) of torch.int64."
        )


def check_text_labels(labels: Any, logits: torch.Tensor, problem_type: str | None) -> None:
    """Raise `ValueError` for labels of texts that do not go with logits (B, C) and what is predicted."""
    check_tensor("labels", labels)
    batch, classes = logits.shape
    if problem_type is None:  # as transformers' own loss decides it
        of_one = "multi_label_classification" if labels.dtype not in WHOLE else "single_label_classification"
        problem_type = "regression" if classes == 1 else of_one
    if problem_type == "single_label_classification":
        check_numbers("labels", labels.reshape(-1), (batch,), dtypes=WHOLE[:1], rows=classes, ignored=IGNORED)
        return
    wanted = (batch,) if classes == 1 else (batch, classes)
    if labels.numel() != logits.numel() or (classes > 1 and labels.shape != logits.shape):
        raise ValueError(f"`labels` have shape {tuple(labels.shape)}; for {problem_type} they must be {wanted}.")
    if not labels.is_floating_point() and (classes > 1 or labels.dtype not in WHOLE):
        raise ValueError(f"`labels` are of {labels.dtype}; for {problem_type} they must be floating-point numbers.")
