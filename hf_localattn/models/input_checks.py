"""Validation of model inputs, with errors that name the invalid input.

Types and shapes are always checked. Values are checked only on the CPU and outside compiled code, where reading them
does not wait for a device.

Shapes: B batch, L tokens, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

WHOLE = (torch.int64, torch.int32)
IGNORED = -100
"""Label that losses ignore."""


def check_tensor(name: str, value: Any) -> None:
    """Raise `ValueError` if a value is not a tensor."""
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
    """Raise `ValueError` if a value is not a tensor of integers with a given shape and range.

    Args:
        name: Name of the input.
        value: The input.
        shape: Required shape (B, ...).
        dtypes (*optional*, defaults to `WHOLE`): Allowed dtypes.
        rows (*optional*): Exclusive upper bound; values must be from 0 to `rows - 1`. Not checked if None.
        ignored (*optional*): One more value that is allowed, such as -100.
        one_for_all (*optional*, defaults to False): If True, a single row may stand for all rows of the batch.
    """
    check_tensor(name, value)
    # An exported graph has no number to slice with.
    first = 1 if one_for_all and value.dim() == len(shape) and value.shape[0] == 1 else 0
    if tuple(value.shape)[first:] != tuple(shape)[first:]:
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
    """Return True if a tensor is not empty and can be read without waiting for a device."""
    return value.device.type == "cpu" and not torch.compiler.is_compiling() and value.numel() > 0


def check_positions(name: str, value: Any, batch: int) -> None:
    """Raise `ValueError` if a value is not an int64 tensor with one position per row.

    Positions past the end are allowed: they stand for "no answer".
    """
    check_tensor(name, value)
    if tuple(value.shape) not in ((batch,), (batch, 1)) or value.dtype != torch.int64:
        raise ValueError(
            f"`{name}` has shape {tuple(value.shape)} and is of {value.dtype}; it must be ({batch},) of torch.int64."
        )


def check_text_labels(labels: Any, logits: torch.Tensor, problem_type: str | None) -> None:
    """Raise `ValueError` if the labels of texts do not fit the logits (B, C) and the problem type."""
    check_tensor("labels", labels)
    batch, classes = logits.shape
    if problem_type is None:  # the rule of transformers' loss
        by_dtype = "multi_label_classification" if labels.dtype not in WHOLE else "single_label_classification"
        problem_type = "regression" if classes == 1 else by_dtype
    if problem_type == "single_label_classification":
        check_numbers("labels", labels.reshape(-1), (batch,), dtypes=WHOLE[:1], rows=classes, ignored=IGNORED)
        return
    wanted = (batch,) if classes == 1 else (batch, classes)
    if labels.numel() != logits.numel() or (classes > 1 and labels.shape != logits.shape):
        raise ValueError(f"`labels` have shape {tuple(labels.shape)}; for {problem_type} they must be {wanted}.")
    if not labels.is_floating_point() and (classes > 1 or labels.dtype not in WHOLE):
        raise ValueError(f"`labels` are of {labels.dtype}; for {problem_type} they must be floating-point numbers.")
