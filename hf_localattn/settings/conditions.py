"""Conditions of training arguments: functions of all arguments, or of their use, which return False if it fails.

They import torch and transformers when they are called.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Use:
    """Use of training arguments by a task.

    Args:
        training_args: The training arguments.
        model_task: Key of the model classes in `hf_localattn.families.AUTO_CLASSES`.
        metric: Value of `--metric`.
        has_lengths: The length of an input is that of its `input_ids`.
        has_classes: Labels are one class each.
        metrics (*optional*): Scores that can select the best model, if the labels are known.
    """

    training_args: Any
    model_task: str
    metric: str | None
    has_lengths: bool
    has_classes: bool
    metrics: Mapping[str, bool] | None = None


def has_workers(args: Any) -> bool:
    """Return True if other processes read the rows."""
    return args.dataloader_num_workers > 0


def evaluates(args: Any) -> bool:
    """Return True if the model is evaluated during training."""
    return args.eval_strategy != "no"


def saves_by_steps(args: Any) -> bool:
    """Return True if checkpoints are saved after a number of steps."""
    return args.save_strategy == "steps"


def has_bfloat16(args: Any) -> bool:
    """Return True if the device calculates in bfloat16."""
    from transformers.utils import is_torch_bf16_gpu_available, is_torch_xla_available

    return args.use_cpu or is_torch_bf16_gpu_available() or is_torch_xla_available()


def is_launched(args: Any) -> bool:
    """Return True if this process is one of several."""
    return "LOCAL_RANK" in os.environ


def has_deepspeed(args: Any) -> bool:
    """Return True if DeepSpeed is installed."""
    return importlib.util.find_spec("deepspeed") is not None


def has_token(use: Use) -> bool:
    """Return True if a token of the Hub is known."""
    from huggingface_hub import get_token

    return (use.training_args.hub_token or get_token()) is not None


def reports_to_installed(args: Any) -> bool:
    """Return True if all libraries of `report_to` are installed."""
    from transformers.integrations import get_available_reporting_integrations  # imports what is installed

    names = args.report_to if isinstance(args.report_to, list) else [args.report_to]
    return {*names} <= {None, "all", "none", *get_available_reporting_integrations()}


def has_loss_alone(use: Use) -> bool:
    """Return True if a task needs no other score than an evaluation loss."""
    is_enough = not use.training_args.do_predict and use.metric is None
    return is_enough and (use.metrics is None or "loss" in use.metrics)


def has_lengths(use: Use) -> bool:
    """Return True if rows can be sampled as they are to be."""
    groups = use.training_args.train_sampling_strategy in ("group_by_length", "batch_rebalance")
    return use.has_lengths or not groups


def traces_no_masks(use: Use) -> bool:
    """Return True if masks are not searched for overflows."""
    from transformers.debug_utils import DebugOption

    return DebugOption.UNDERFLOW_OVERFLOW not in use.training_args.debug
