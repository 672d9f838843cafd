"""Training arguments of transformers: what a run does with those that it treats in a way of its own.

All others work as transformers documents them, and only their names stand here, so that a misspelt option is an error
before transformers is imported.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from hf_localattn.settings import conditions
from hf_localattn.settings.option import FREE, LENGTH, NEEDS, OURS, REFUSED, WORKS, Option, options_of
from hf_localattn.settings.training import INFINITY, LOSS_ALONE, Count, Rate, Seed, Share, Steps, Warmup

works = functools.partial(Option, kind=WORKS)


def ours(note: str, **facts: Any) -> Option:
    """Return the declaration of an argument that the package sets or interprets."""
    return Option(kind=OURS, note=note, **facts)


def needs(note: str, suits_arguments: Any = None, **facts: Any) -> Option:
    """Return the declaration of an argument that needs another option, library, device, task or label."""
    return Option(kind=NEEDS, note=note, suits_arguments=suits_arguments, **facts)


def refused(note: str) -> Option:
    """Return the declaration of an argument that no task can use."""
    return Option(kind=REFUSED, note=note, suits_task=lambda use: False)


_WORKERS = "needs --dataloader_num_workers, at least 1."
_BFLOAT16 = "needs a GPU with bfloat16; on a CPU, give --use_cpu, too."

DIFFERENT: dict[str, Option] = {
    "output_dir": ours(
        "It is locked, and refused if it holds another run.", help="Folder of the results.", result=FREE, planned=True
    ),
    "do_train": ours("It needs training data.", help="Train the model.", planned=True),
    "do_eval": ours(
        "It needs evaluation data. All rows are scored.", help="Evaluate the model.", result=FREE, planned=True
    ),
    "do_predict": ours(
        "It needs test data. Predictions for all rows are written.",
        help="Write predictions.",
        result=FREE,
        planned=True,
    ),
    "resume_from_checkpoint": ours(
        "An unfinished run is resumed without it. It trains a finished run further.",
        help="Checkpoint to continue from.",
        result=FREE,
        planned=True,
    ),
    "num_train_epochs": works(
        help="Number of passes over the training rows (default: 3).",
        values=Annotated[float, Field(gt=0, lt=INFINITY)],
        result=LENGTH,
        searchable=True,
        recorded=True,
    ),
    "max_steps": works(
        help="Number of steps of the optimizer, instead of epochs.",
        values=PositiveInt | Literal[-1],
        result=LENGTH,
        searchable=True,
        recorded=True,
    ),
    "per_device_train_batch_size": works(
        help="Training rows of a batch on each device (default: 8).",
        values=PositiveInt,
        searchable=True,
        recorded=True,
    ),
    "per_device_eval_batch_size": works(
        help="Evaluation rows of a batch on each device (default: 8).", values=PositiveInt, result=FREE
    ),
    "gradient_accumulation_steps": works(
        help="Number of batches of a step of the optimizer (default: 1).",
        values=Count,
        searchable=True,
        recorded=True,
    ),
    "lr_scheduler_type": needs(
        "needs arguments in --lr_scheduler_kwargs, if the schedule has some.",
        searchable=True,
        recorded=True,
    ),
    "lr_scheduler_kwargs": ours("They are checked. `mode` of a schedule that reads a score is that of the score."),
    "warmup_steps": works(
        help="Steps, or share of all steps, in which the learning rate rises (default: 0).",
        values=Warmup,
        searchable=True,
        recorded=True,
    ),
    "optim": needs("needs the library of the optimizer.", searchable=True, recorded=True),
    "weight_decay": works(values=Rate, searchable=True, recorded=True),
    "adam_beta1": works(values=Share, searchable=True, recorded=True),
    "adam_beta2": works(values=Share, searchable=True, recorded=True),
    "adam_epsilon": works(values=Rate, searchable=True, recorded=True),
    "max_grad_norm": works(values=Annotated[float, Field(ge=0)], searchable=True, recorded=True),
    "label_smoothing_factor": needs(
        "needs one class as the label of each text, word or choice.",
        suits_task=lambda use: use.has_classes,
        values=Share,
        recorded=True,
    ),
    "neftune_noise_alpha": needs(
        "needs an encoder: the embeddings of an encoder-decoder would get no noise.",
        suits_task=lambda use: use.model_task != "text2text-generation",
        values=Rate,
    ),
    "bf16": needs(_BFLOAT16, conditions.has_bfloat16, help="Train in bfloat16.", recorded=True),
    "fp16": works(recorded=True),
    "bf16_full_eval": needs(_BFLOAT16, conditions.has_bfloat16),
    "use_liger_kernel": refused("has no kernels for encoders and encoder-decoders: leave it out."),
    "liger_kernel_config": refused("belongs to --use_liger_kernel: leave it out."),
    "seed": ours("Fold k has this seed + k - 1.", help="Random seed (default: 42).", values=Seed, planned=True),
    "data_seed": ours("It also draws the folds.", values=Seed),
    "use_cpu": works(help="Use no GPU.", result=FREE),
    "report_to": needs(
        "needs an installed library, such as tensorboard.", conditions.reports_to_installed, result=FREE
    ),
    "debug": needs(
        "underflow_overflow fails at boolean attention masks: leave it out.",
        suits_task=conditions.traces_no_masks,
        result=FREE,
    ),
    "eval_steps": needs("needs --eval_strategy steps.", lambda args: args.eval_strategy == "steps", values=Steps),
    "eval_delay": needs("needs --eval_strategy steps or epoch.", conditions.evaluates, values=Rate),
    "eval_on_start": needs("needs --do_eval.", lambda args: args.do_eval or conditions.evaluates(args)),
    "eval_accumulation_steps": works(values=Count, result=FREE),
    "eval_do_concat_batches": ours("Always true: scores are those of all rows at once.", result=FREE),
    "batch_eval_metrics": ours("Always false: scores are those of all rows at once.", result=FREE),
    "include_for_metrics": ours("Always empty: tasks compute their scores without it.", default=[], result=FREE),
    "prediction_loss_only": needs(LOSS_ALONE, suits_task=conditions.has_loss_alone),
    "metric_for_best_model": ours(
        "A score of the task, or of `metric`. With early stopping the main one by default.",
        help="Score that chooses the best model.",
    ),
    "greater_is_better": ours("Known for the scores of the task. For others true by default."),
    "load_best_model_at_end": needs(
        "needs --eval_strategy steps or epoch.",
        conditions.evaluates,
        help="Keep the best model instead of the last one.",
    ),
    "restore_callback_states_from_checkpoint": ours("True with early stopping."),
    "push_to_hub": needs(
        "needs a token: run `hf auth login`, or give --hub_token.",
        suits_task=conditions.has_token,
        help="Upload the output folder to the Hub.",
        result=FREE,
    ),
    "hub_token": ours("It is in no file of the run.", result=FREE, shared=False),
    "hub_model_id": works(help="Name of the repository on the Hub (default: that of the output folder).", result=FREE),
    "hub_strategy": ours("Checkpoints are uploaded without their pickled arguments.", result=FREE),
    "remove_unused_columns": ours("Always true: features also have columns for the scores.", result=FREE),
    "label_names": refused("names inputs of the model, which the task knows: leave it out."),
    "train_sampling_strategy": needs(
        "needs inputs with a length: for choices use random or sequential.",
        suits_task=conditions.has_lengths,
        recorded=True,
    ),
    "length_column_name": refused("names a column that no task has, since lengths are counted: leave it out."),
    "dataloader_drop_last": ours("It drops training rows alone. All other rows are scored."),
    "dataloader_in_order": ours("It concerns training rows alone. Scores need the order of rows."),
    "dataloader_num_workers": works(values=Annotated[int, Field(ge=0)], result=FREE),
    "dataloader_pin_memory": ours("False on a CPU.", result=FREE),
    "dataloader_persistent_workers": needs(_WORKERS, conditions.has_workers, result=FREE),
    "dataloader_prefetch_factor": needs(_WORKERS, conditions.has_workers, result=FREE),
    "dataloader_multiprocessing_context": needs(_WORKERS, conditions.has_workers, result=FREE),
    "parallelism_config": refused("splits a model in ways that these models have no plan for: leave it out."),
    "ddp_find_unused_parameters": ours(
        "False by default for models of this package, which use all parameters.", result=FREE
    ),
    "fsdp": needs("needs several processes: start it with torchrun or accelerate launch.", conditions.is_launched),
    "deepspeed": needs("needs the library deepspeed: install it.", conditions.has_deepspeed),
    "sortish_sampler": refused("does nothing in transformers 5: give --train_sampling_strategy group_by_length."),
}
"""Options of transformers that a run treats, checks, compares or records, besides `hf_localattn.settings.training`."""

OF_RESULT = """
auto_find_batch_size optim_args optim_target_modules average_tokens_across_devices fp16_full_eval tf32 torch_compile
torch_compile_backend torch_compile_mode use_cache full_determinism include_num_input_tokens_seen save_only_model
save_on_each_node enable_jit_checkpoint ignore_data_skip accelerator_config fsdp_config generation_config
"""
OF_PROCESS = """
activation_checkpointing activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs
torch_empty_cache_steps logging_strategy logging_first_step log_on_each_node logging_nan_inf_filter log_level
log_level_replica disable_tqdm run_name project trackio_space_id trackio_bucket_id trackio_static_space_id
skip_memory_metrics eval_use_gather_object hub_private_repo hub_always_push hub_revision local_rank ddp_bucket_cap_mb
ddp_broadcast_buffers ddp_static_graph ddp_backend ddp_timeout
"""

OTHERS = dict.fromkeys(OF_RESULT.split(), works()) | dict.fromkeys(OF_PROCESS.split(), works(result=FREE))
"""All other options of transformers 5.18 or newer: those that may change the result, and those that do not."""

STOCK = DIFFERENT | OTHERS
"""Options that only transformers declares."""


def all_options(*classes: type) -> dict[str, Option]:
    """Return the options of dataclasses and of transformers by name."""
    return options_of(*classes) | STOCK
