"""Checks of training arguments, which a run refuses before it reads data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import torch
from transformers import Trainer, get_scheduler

from hf_localattn.errors import named_option
from hf_localattn.settings.conditions import Use
from hf_localattn.settings.option import Option, read_value, types_of
from hf_localattn.settings.stock import STOCK, all_options
from hf_localattn.tasks.task import Target, Task

SCORE_SCHEDULES = ("reduce_lr_on_plateau", "greedy")
"""Schedules that read `metric_for_best_model`."""


def check_values(args: Any) -> None:
    """Check each training argument by itself, and what it needs of the others.

    Args:
        args: Training arguments, before transformers has completed them.

    Raises:
        ValueError: A value is out of its range, or lacks what it needs.
    """
    part: Any = type(args)
    options = all_options(part)
    types = types_of(part)
    for field in fields(args):
        value = getattr(args, field.name)
        choices = field.metadata.get("choices")
        if choices is not None and value is not None and value not in choices:
            raise ValueError(f"--{field.name} is {value!r}. Choose one of {', '.join(choices)}.")
        option = options.get(field.name)
        allowed = None if option is None else option.values or (field.name not in STOCK and types[field.name])
        if allowed:
            read_value(field.name, value, allowed)
    for name, option in _given_options(args).items():
        if option.suits_arguments is not None and not option.suits_arguments(args):
            raise ValueError(f"--{name} {option.note}")


def _given_options(args: Any) -> Mapping[str, Option]:
    """Return the options whose value is not the default, by name."""
    options = all_options(type(args))
    options_set = {}
    for field in fields(args):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if field.name in options and getattr(args, field.name) != default:
            options_set[field.name] = options[field.name]
    return options_set


def check_task(task: Task, training_args: Any, target: Target | None = None) -> None:
    """Check that a task can use training arguments, as far as its labels are known.

    Args:
        task: The task.
        training_args: The training arguments.
        target (*optional*): Labels and scores, if they are known.

    Raises:
        ValueError: The task cannot use an argument.
    """
    has_classes = task.has_classes if target is None else target.has_classes
    metrics = None if target is None else target.metrics
    use = Use(training_args, task.model_task, task.args.metric, task.has_lengths, has_classes, metrics)
    for name, option in _given_options(training_args).items():
        if option.suits_task is not None and not option.suits_task(use):
            raise ValueError(f"--{name} {option.note}")


def check_batches(args: Any, count: int) -> None:
    """Check that training arguments leave a batch to train on.

    Raises:
        ValueError: All training rows are in a last, incomplete batch, which is dropped.
    """
    size = args.train_batch_size * args.world_size
    if args.dataloader_drop_last and count < size:
        raise ValueError(
            f"--dataloader_drop_last drops all {count} training rows, fewer than a batch of {size}: leave it out, or"
            " give a smaller --per_device_train_batch_size."
        )


def is_loss_only(args: Any) -> bool:
    """Return True if an evaluation has no other score than the loss."""
    return args.prediction_loss_only or not getattr(args, "predict_with_generate", True)


def selects_best(args: Any) -> bool:
    """Return True if training arguments, of this package or of transformers, need the best of several evaluations."""
    is_read = args.lr_scheduler_type in SCORE_SCHEDULES
    return is_read or args.load_best_model_at_end or args.save_strategy == "best"


def check_training(args: Any) -> None:
    """Check that the optimizer, its schedule and the compiler of training arguments can be built.

    Raises:
        ValueError: An argument of one of them is missing, or is not one.
        ImportError: The library of the optimizer is not installed.
    """
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate or 1e-3)
    with named_option(f"--lr_scheduler_type {args.lr_scheduler_type.value}"):
        get_scheduler(args.lr_scheduler_type, optimizer, 1, 10, args.lr_scheduler_kwargs)
    if args.optim_target_modules is None:  # otherwise the optimizer needs the model
        with named_option(f"--optim {args.optim.value}"):
            Trainer.get_optimizer_cls_and_kwargs(args)
    if args.torch_compile:
        with named_option("--torch_compile"):
            torch.compile(torch.nn.Identity(), backend=args.torch_compile_backend, mode=args.torch_compile_mode)
