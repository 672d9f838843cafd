"""Conditions of training arguments: functions of all of them, or of a task, that return False if they contradict one.

They import torch and transformers when they are called.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any


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


def has_token(task: Any) -> bool:
    """Return True if a token of the Hub is known."""
    from huggingface_hub import get_token

    return (task.training_args.hub_token or get_token()) is not None


def reports_to_installed(args: Any) -> bool:
    """Return True if all libraries of `report_to` are installed."""
    from transformers.integrations import get_available_reporting_integrations  # imports what is installed

    names = args.report_to if isinstance(args.report_to, list) else [args.report_to]
    return {*names} <= {None, "all", "none", *get_available_reporting_integrations()}


def has_loss_alone(task: Any) -> bool:
    """Return True if a task needs no other score than an evaluation loss."""
    is_enough = not task.training_args.do_predict and task.args.metric is None
    return is_enough and "loss" in getattr(task, "metrics", ("loss",))


def has_lengths(task: Any) -> bool:
    """Return True if rows can be sampled as they are to be."""
    groups = task.training_args.train_sampling_strategy in ("group_by_length", "batch_rebalance")
    return task.has_lengths or not groups


def traces_no_masks(task: Any) -> bool:
    """Return True if masks are not searched for overflows."""
    from transformers.debug_utils import DebugOption

    return DebugOption.UNDERFLOW_OVERFLOW not in task.training_args.debug
