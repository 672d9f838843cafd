"""The record of a training run, for the model card."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from transformers.utils import cached_file

from hf_localattn.hub import Score, TrainingRecord
from hf_localattn.names import NO_SCORES, RECORD, RIVAL_SCORES, resolve_backbone, split_paths
from hf_localattn.settings.data import DataArguments
from hf_localattn.settings.option import options_of, values_of
from hf_localattn.settings.stock import all_options
from hf_localattn.tasks.task import Task, split_of
from hf_localattn.training.arguments import ModelArguments, TrainingArguments

logger = logging.getLogger(__name__)

Arguments = TypeVar("Arguments", bound=DataArguments)


def record_of(
    task: Task,
    model_args: ModelArguments,
    training_args: TrainingArguments,
    rows: Mapping[str, int],
    scores: Sequence[Score],
    reports: Mapping[str, dict[str, Any]],
    *,
    has_pairs: bool | None = None,
    temperature: float | None = None,
) -> TrainingRecord:
    """Return the record of a run of a task. It contains names of files, but no local paths."""
    data_args = task.args
    dataset = data_args.dataset_name
    is_local = dataset is not None and Path(dataset).exists()
    files = {
        split: ", ".join(Path(path).name for path in split_paths(name))
        for split in ("train", "validation", "test")
        if (name := dataset if is_local else getattr(data_args, f"{split}_file")) is not None and split in rows
    }
    hyperparameters = hyperparameters_of(model_args, data_args, training_args)
    if temperature is not None:
        hyperparameters["temperature"] = temperature
    return TrainingRecord(
        task=task.model_task,
        base_model=base_model_of(model_args),
        dataset=None if is_local else dataset,
        dataset_config=None if is_local else data_args.dataset_config_name,
        files=files,
        rows=dict(rows),
        scores=tuple(score for score in scores if math.isfinite(score.value)),
        hyperparameters=hyperparameters,
        columns=columns_of(data_args),
        reports=dict(reports),
        has_pairs=has_pairs,
        seed=training_args.seed,
    )


def base_model_of(model_args: ModelArguments) -> str | None:
    """Return the Hub id of the model that a run starts from. For a folder it is the one that its record names."""
    source = resolve_backbone(model_args.source)
    if not Path(source).exists():
        return source
    record = TrainingRecord.load(source)
    return None if record is None else record.base_model


def columns_of(data_args: DataArguments) -> dict[str, Any]:
    """Return the given options that name columns of the data."""
    options = options_of(type(data_args))
    values = {name: value for name, value in values_of(data_args).items() if name in options}
    return {name: value for name, value in values.items() if options[name].column and value is not None}


def with_recorded_columns(data_args: Arguments, model_args: ModelArguments) -> Arguments:
    """Return data arguments with the columns that a model was trained with, if it has a record. Given ones stay."""
    try:
        path = cached_file(resolve_backbone(model_args.source), RECORD, **model_args.hub)
    except OSError:
        return data_args
    record = TrainingRecord.load(Path(path).parent)
    columns = columns_of(data_args)
    options = options_of(type(data_args))
    added: dict[str, Any] = {}
    for name, value in (record.columns if record else {}).items():
        if name not in columns and name in options:
            added[name] = value
            logger.info("--%s is %s, as in the training.", name, value)
        elif columns.get(name, value) != value:
            logger.warning("--%s is %s, not %s as in the training.", name, columns[name], value)
    return dataclasses.replace(data_args, **added)


def hyperparameters_of(
    model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> dict[str, Any]:
    """Return the arguments that affect the result, except None, False and empty lists."""
    arguments = vars(training_args) | values_of(data_args) | values_of(model_args)
    options = all_options(*map(type, (model_args, training_args, data_args)))
    recorded = [name for name, option in options.items() if option.recorded]
    values = {name: arguments.get(name) for name in recorded}
    del values["num_train_epochs" if training_args.max_steps > 0 else "max_steps"]
    if training_args.world_size > 1:
        values["processes"] = training_args.world_size
    return {name: _shown(value) for name, value in values.items() if value not in (None, []) and value is not False}


def _shown(value: Any) -> Any:
    """Return a value as records have it."""
    if isinstance(value, list):
        return " ".join(value)
    return value.value if isinstance(value, Enum) else value


def scores_of_split(metrics: Mapping[str, Any], prefix: str) -> list[Score]:
    """Return the scores among the metrics of one split. `prefix` is the prefix of names, such as "eval_mismatched"."""
    split = split_of(prefix)
    return [Score(split, name.removeprefix(f"{prefix}_"), value) for name, value in scores_of(metrics).items()]


def scores_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of the model without times and counts."""
    return {name: value for name, value in numbers_of(metrics).items() if not name.endswith(RIVAL_SCORES)}


def numbers_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of the model and of its rivals, without times and counts."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if name.startswith(("eval_", "predict_")) and not name.endswith(NO_SCORES) and isinstance(value, int | float)
    }
