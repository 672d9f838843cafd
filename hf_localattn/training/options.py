"""Every training argument of transformers: how a run treats it, and what a run refuses before it reads data.

`FIELDS` is the table of docs/training_options.md. A new field of transformers that it lacks fails a test. Functions
import torch and transformers, since names of options are checked without them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ByteSize, Field, PositiveInt, TypeAdapter, ValidationError

from hf_localattn.errors import named_option

if TYPE_CHECKING:
    from hf_localattn.tasks.task import Target, Task

WORKS = "works"
OURS = "ours decides"
NEEDS = "needs another"
REFUSED = "refused"
STOCK = "transformers' own"

CLASSES = {
    WORKS: "It does in every task what transformers documents.",
    OURS: "The package sets it, or has a default or a meaning of its own.",
    NEEDS: "It works with another option, library, device, task or label; without it the run is refused.",
    REFUSED: "A value other than the default is refused.",
    STOCK: "transformers, accelerate or torch act on it alone. No task depends on it.",
}
"""Classes of fields, and their meaning."""


SCORE_SCHEDULES = ("reduce_lr_on_plateau", "greedy")
"""Schedules that read `metric_for_best_model`."""


@dataclass(frozen=True)
class Treatment:
    """The treatment of a training argument.

    Args:
        kind: A key of `CLASSES`.
        note: Text for the documentation. Of `NEEDS` and `REFUSED` it is also the error, after the name of the option.
        suits_arguments: Function of the training arguments that returns False if they contradict a given value,
            *optional*.
        suits_task (*optional*): Function of a task's use of arguments that returns False if it contradicts a given
            value. Before the labels are known, a task may allow more than afterwards.
    """

    kind: str
    note: str = ""
    suits_arguments: Callable[[Any], bool] | None = None
    suits_task: Callable[[Use], bool] | None = None


works = Treatment(WORKS)
stock = Treatment(STOCK)


def ours(note: str) -> Treatment:
    """Return the treatment of an argument that the package sets or interprets."""
    return Treatment(OURS, note)


def refused(note: str) -> Treatment:
    """Return the treatment of an argument that no task can use."""
    return Treatment(REFUSED, note, suits_task=lambda use: False)


def _has_workers(args: Any) -> bool:
    return args.dataloader_num_workers > 0


def _evaluates(args: Any) -> bool:
    return args.eval_strategy != "no"


def _has_bfloat16(args: Any) -> bool:
    from transformers.utils import is_torch_bf16_gpu_available, is_torch_xla_available

    return args.use_cpu or is_torch_bf16_gpu_available() or is_torch_xla_available()


def _is_launched(args: Any) -> bool:
    return "LOCAL_RANK" in os.environ


def _has_deepspeed(args: Any) -> bool:
    return importlib.util.find_spec("deepspeed") is not None


def _has_token(use: Use) -> bool:
    from huggingface_hub import get_token

    return (use.training_args.hub_token or get_token()) is not None


def _reports_to_installed(args: Any) -> bool:
    from transformers.integrations import get_available_reporting_integrations  # imports what is installed

    names = args.report_to if isinstance(args.report_to, list) else [args.report_to]
    return {*names} <= {None, "all", "none", *get_available_reporting_integrations()}


def _has_loss_alone(use: Use) -> bool:
    is_enough = not use.training_args.do_predict and use.task.args.metric is None
    return is_enough and (use.target is None or "loss" in use.target.metrics)


def _has_lengths(use: Use) -> bool:
    groups = use.training_args.train_sampling_strategy in ("group_by_length", "batch_rebalance")
    return use.task.has_lengths or not groups


def _has_classes(use: Use) -> bool:
    return use.task.has_classes if use.target is None else use.target.has_classes


def _traces_no_masks(use: Use) -> bool:
    from transformers.debug_utils import DebugOption

    return DebugOption.UNDERFLOW_OVERFLOW not in use.training_args.debug


_LOSS_ALONE = "reports the loss alone: it needs a task with an evaluation loss, and no --do_predict or --metric."
_NEEDS_WORKERS = Treatment(NEEDS, "needs --dataloader_num_workers, at least 1.", _has_workers)
_NEEDS_BFLOAT16 = Treatment(NEEDS, "needs a GPU with bfloat16; on a CPU, give --use_cpu, too.", _has_bfloat16)

FIELDS: dict[str, Treatment] = {
    "output_dir": ours("It is locked, and refused if it holds another run."),
    "do_train": ours("It needs training data."),
    "do_eval": ours("It needs evaluation data. All rows are scored."),
    "do_predict": ours("It needs test data. Predictions for all rows are written."),
    "resume_from_checkpoint": ours("An unfinished run is resumed without it. It trains a finished run further."),
    "num_train_epochs": works,
    "max_steps": works,
    "per_device_train_batch_size": works,
    "per_device_eval_batch_size": works,
    "gradient_accumulation_steps": works,
    "auto_find_batch_size": works,
    "learning_rate": ours(
        "5e-5 by default, 1e-3 for a frozen encoder. The rate of pretrained weights if `local_learning_rate` is given."
    ),
    "lr_scheduler_type": Treatment(NEEDS, "needs arguments in --lr_scheduler_kwargs, if the schedule has some."),
    "lr_scheduler_kwargs": ours("They are checked. `mode` of a schedule that reads a score is that of the score."),
    "warmup_steps": works,
    "optim": Treatment(NEEDS, "needs the library of the optimizer."),
    "optim_args": works,
    "optim_target_modules": works,
    "weight_decay": works,
    "adam_beta1": works,
    "adam_beta2": works,
    "adam_epsilon": works,
    "max_grad_norm": works,
    "average_tokens_across_devices": stock,
    "label_smoothing_factor": Treatment(
        NEEDS, "needs one class as the label of each text, word or choice.", suits_task=_has_classes
    ),
    "neftune_noise_alpha": Treatment(
        NEEDS,
        "needs an encoder: the embeddings of an encoder-decoder would get no noise.",
        suits_task=lambda use: use.task.model_task != "text2text-generation",
    ),
    "bf16": _NEEDS_BFLOAT16,
    "fp16": works,
    "bf16_full_eval": _NEEDS_BFLOAT16,
    "fp16_full_eval": works,
    "tf32": stock,
    "activation_checkpointing": works,
    "activation_checkpointing_kwargs": stock,
    "gradient_checkpointing": works,
    "gradient_checkpointing_kwargs": stock,
    "torch_compile": works,
    "torch_compile_backend": stock,
    "torch_compile_mode": stock,
    "use_liger_kernel": refused("has no kernels for encoders and encoder-decoders: leave it out."),
    "liger_kernel_config": refused("belongs to --use_liger_kernel: leave it out."),
    "use_cache": stock,
    "torch_empty_cache_steps": stock,
    "full_determinism": works,
    "seed": ours("Fold k has this seed + k - 1."),
    "data_seed": ours("It also draws the folds."),
    "use_cpu": works,
    "logging_strategy": works,
    "logging_steps": ours("0.05 by default: twenty logs in a run."),
    "logging_first_step": works,
    "log_on_each_node": stock,
    "logging_nan_inf_filter": stock,
    "include_num_input_tokens_seen": works,
    "log_level": works,
    "log_level_replica": works,
    "disable_tqdm": works,
    "report_to": Treatment(NEEDS, "needs an installed library, such as tensorboard.", _reports_to_installed),
    "run_name": stock,
    "project": stock,
    "trackio_space_id": stock,
    "trackio_bucket_id": stock,
    "trackio_static_space_id": stock,
    "skip_memory_metrics": works,
    "debug": Treatment(
        NEEDS,
        "underflow_overflow fails at boolean attention masks: leave it out.",
        suits_task=_traces_no_masks,
    ),
    "eval_strategy": ours("`no` by default, or `epoch` if the best model is loaded at the end."),
    "eval_steps": Treatment(NEEDS, "needs --eval_strategy steps.", lambda args: args.eval_strategy == "steps"),
    "eval_delay": Treatment(NEEDS, "needs --eval_strategy steps or epoch.", _evaluates),
    "eval_on_start": Treatment(NEEDS, "needs --do_eval.", lambda args: args.do_eval or _evaluates(args)),
    "eval_accumulation_steps": works,
    "eval_do_concat_batches": ours("Always true: scores are those of all rows at once."),
    "batch_eval_metrics": ours("Always false: scores are those of all rows at once."),
    "include_for_metrics": ours("Always empty: tasks compute their scores without it."),
    "eval_use_gather_object": stock,
    "prediction_loss_only": Treatment(NEEDS, _LOSS_ALONE, suits_task=_has_loss_alone),
    "metric_for_best_model": ours("A score of the task, or of `metric`. With early stopping the main one by default."),
    "greater_is_better": ours("Known for the scores of the task. For others true by default."),
    "load_best_model_at_end": Treatment(NEEDS, "needs --eval_strategy steps or epoch.", _evaluates),
    "save_strategy": ours("`steps` by default, or as `eval_strategy` if the best model is loaded at the end."),
    "save_steps": Treatment(NEEDS, "needs --save_strategy steps.", lambda args: args.save_strategy == "steps"),
    "save_total_limit": ours("2 by default."),
    "save_only_model": works,
    "save_on_each_node": stock,
    "enable_jit_checkpoint": stock,
    "ignore_data_skip": works,
    "restore_callback_states_from_checkpoint": ours("True with early stopping."),
    "push_to_hub": Treatment(NEEDS, "needs a token: run `hf auth login`, or give --hub_token.", suits_task=_has_token),
    "hub_token": ours("It is in no file of the run."),
    "hub_private_repo": stock,
    "hub_model_id": stock,
    "hub_strategy": ours("Checkpoints are uploaded without their pickled arguments."),
    "hub_always_push": stock,
    "hub_revision": stock,
    "remove_unused_columns": ours("Always true: features also have columns for the scores."),
    "label_names": refused("names inputs of the model, which the task knows: leave it out."),
    "train_sampling_strategy": Treatment(
        NEEDS, "needs inputs with a length: for choices use random or sequential.", suits_task=_has_lengths
    ),
    "length_column_name": refused("names a column that no task has, since lengths are counted: leave it out."),
    "dataloader_drop_last": ours("It drops training rows alone. All other rows are scored."),
    "dataloader_in_order": ours("It concerns training rows alone. Scores need the order of rows."),
    "dataloader_num_workers": works,
    "dataloader_pin_memory": ours("False on a CPU."),
    "dataloader_persistent_workers": _NEEDS_WORKERS,
    "dataloader_prefetch_factor": _NEEDS_WORKERS,
    "dataloader_multiprocessing_context": _NEEDS_WORKERS,
    "accelerator_config": stock,
    "parallelism_config": refused("splits a model in ways that these models have no plan for: leave it out."),
    "local_rank": stock,
    "ddp_find_unused_parameters": ours("False by default for models of this package, which use all parameters."),
    "ddp_bucket_cap_mb": stock,
    "ddp_broadcast_buffers": stock,
    "ddp_static_graph": stock,
    "ddp_backend": stock,
    "ddp_timeout": stock,
    "fsdp": Treatment(NEEDS, "needs several processes: start it with torchrun or accelerate launch.", _is_launched),
    "fsdp_config": stock,
    "deepspeed": Treatment(NEEDS, "needs the library deepspeed: install it.", _has_deepspeed),
    "sortish_sampler": refused("does nothing in transformers 5: give --train_sampling_strategy group_by_length."),
    "predict_with_generate": Treatment(NEEDS, f"false {_LOSS_ALONE}", suits_task=_has_loss_alone),
    "generation_max_length": ours("That of the longest reference by default."),
    "generation_num_beams": ours("5 by default. `num_beams` overrides it."),
    "generation_config": works,
}
"""Treatment of each field of `TrainingArguments` and `Seq2SeqTrainingArguments` of transformers 5.18 or newer."""


def _is_share_or_count(steps: float) -> float:
    if steps > 1 and steps != int(steps):
        raise ValueError("a number of steps is whole, and a share of all steps is below 1")
    return steps


INFINITY = float("inf")

Count = PositiveInt | None
Rate = Annotated[float, Field(ge=0, lt=INFINITY)] | None
Share = Annotated[float, Field(ge=0, lt=1)]
Steps = Annotated[float, Field(gt=0, lt=INFINITY), AfterValidator(_is_share_or_count)] | None
Seed = Annotated[int, Field(ge=0, lt=2**32)] | None

RANGES: dict[str, Any] = {
    "adam_beta1": Share,
    "adam_beta2": Share,
    "adam_epsilon": Rate,
    "data_seed": Seed,
    "dataloader_num_workers": Annotated[int, Field(ge=0)],
    "early_stopping_patience": Count,
    "eval_accumulation_steps": Count,
    "eval_delay": Rate,
    "eval_steps": Steps,
    "frozen_states": Literal["full", "half", "no"] | None,
    "frozen_states_memory": ByteSize | None,
    "generation_max_length": Count,
    "generation_num_beams": Count,
    "gradient_accumulation_steps": Count,
    "label_smoothing_factor": Share,
    "learning_rate": Rate,
    "local_learning_rate": Rate,
    "logging_steps": Steps,
    "lookahead_alpha": Annotated[float, Field(gt=0, le=1)] | None,
    "lookahead_steps": Count,
    "max_grad_norm": Annotated[float, Field(ge=0)],
    "max_steps": PositiveInt | Literal[-1],
    "neftune_noise_alpha": Rate,
    "num_train_epochs": Annotated[float, Field(gt=0, lt=INFINITY)],
    "per_device_eval_batch_size": PositiveInt,
    "per_device_train_batch_size": PositiveInt,
    "save_steps": Steps,
    "save_total_limit": Count,
    "search_trials": Count,
    "seed": Seed,
    "warmup_steps": Annotated[float, Field(ge=0, lt=INFINITY), AfterValidator(_is_share_or_count)],
    "weight_decay": Rate,
    "workers": PositiveInt,
}
"""Values that training arguments may have."""


def check_values(args: Any) -> None:
    """Check each training argument by itself, and what it needs of the others.

    Args:
        args: Training arguments, before transformers has completed them.

    Raises:
        ValueError: A value is out of its range, or lacks what it needs.
    """
    for field in fields(args):
        value = getattr(args, field.name)
        choices = field.metadata.get("choices")
        if choices is not None and value is not None and value not in choices:
            raise ValueError(f"--{field.name} is {value!r}. Choose one of {', '.join(choices)}.")
        if field.name in RANGES:
            _check_range(field.name, value)
    for field in given_fields(args):
        suits = FIELDS[field.name].suits_arguments
        if suits is not None and not suits(args):
            raise ValueError(f"--{field.name} {FIELDS[field.name].note}")


def _check_range(name: str, value: Any) -> None:
    try:
        TypeAdapter(RANGES[name]).validate_python(value)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise ValueError(f"--{name} is {value!r}. {message}.") from None


def given_fields(args: Any) -> list[Any]:
    """Return the fields of `FIELDS` whose value is not the default."""
    return [field for field in fields(args) if field.name in FIELDS and getattr(args, field.name) != _default(field)]


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@dataclass(frozen=True)
class Use:
    """Use of training arguments: the task with its options, and its scores as soon as its labels are known."""

    task: Task
    training_args: Any
    target: Target | None = None


def check_task(use: Use) -> None:
    """Check that a task can use training arguments, as far as its labels are known.

    Raises:
        ValueError: The task cannot use an argument.
    """
    for field in given_fields(use.training_args):
        suits = FIELDS[field.name].suits_task
        if suits is not None and not suits(use):
            raise ValueError(f"--{field.name} {FIELDS[field.name].note}")


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
    import torch
    from transformers import Trainer, get_scheduler  # Trainer needs the extra `train`

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate or 1e-3)
    with named_option(f"--lr_scheduler_type {args.lr_scheduler_type.value}"):
        get_scheduler(args.lr_scheduler_type, optimizer, 1, 10, args.lr_scheduler_kwargs)
    if args.optim_target_modules is None:  # otherwise the optimizer needs the model
        with named_option(f"--optim {args.optim.value}"):
            Trainer.get_optimizer_cls_and_kwargs(args)
    if args.torch_compile:
        with named_option("--torch_compile"):
            torch.compile(torch.nn.Identity(), backend=args.torch_compile_backend, mode=args.torch_compile_mode)
