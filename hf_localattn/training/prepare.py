"""Preparation of a run: from options to rows, labels, a model and features. Each step is a function of values."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedModel

from hf_localattn.data.rows import check_special_tokens, name_of_result
from hf_localattn.families import FAMILIES
from hf_localattn.tasks import choose_task
from hf_localattn.tasks.task import DataArguments, Loss, Rows, Split, Target, Task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, changed
from hf_localattn.training.calibration import last_layer
from hf_localattn.training.checks import check_batches, check_task, check_training
from hf_localattn.training.evaluation import Evaluation
from hf_localattn.training.models import head_of, load_model_and_tokenizer
from hf_localattn.training.output_folder import arguments_of, check_same_run, digest_of, prepare_output_folder
from hf_localattn.training.run_record import with_recorded_columns
from hf_localattn.training.scores import choose_best_metric, further_metric, further_scores
from hf_localattn.training.splits import ReadRows, load_splits
from hf_localattn.training.stream import Stream, check_streaming

logger = logging.getLogger(__name__)

LONG = 5_000
"""Number of rows whose preparation has a progress bar."""


@dataclass(frozen=True)
class Settings:
    """Options of a run, checked as far as they can be without rows and model.

    Args:
        task: The task, with the options that choose the data.
        model_args: The model.
        training_args: The training, with the checkpoint to resume from.
        origin: Folder of the run that is resumed, by default the output folder.
        arguments: Arguments of the run and digests of its data, for `run.json`.
        metric (*optional*): The metric of `--metric`.
    """

    task: Task
    model_args: ModelArguments
    training_args: TrainingArguments
    origin: Path
    arguments: Mapping[str, Any]
    metric: Any = None


@dataclass(frozen=True)
class Prepared:
    """A run that can be trained or evaluated.

    Further evaluation and test splits have a suffix ("validation_mismatched").

    Args:
        settings: The options, completed by what follows from labels and model.
        evaluation: The splits with their features, and the scores.
        rows: Rows of all splits; of streamed training rows the first ones.
        model: The model.
        stream (*optional*): Features of the training rows, if they are streamed.
        loss (*optional*): Loss of the training, if it is not that of the model.
    """

    settings: Settings
    evaluation: Evaluation
    rows: Rows
    model: PreTrainedModel
    stream: Stream | None = None
    loss: Loss | None = None

    @property
    def training_args(self) -> TrainingArguments:
        """The training arguments."""
        return self.settings.training_args

    def collator(self, multiple: int | None = None) -> Any:
        """Return the data collator, which pads to a multiple of a number, if that is given."""
        return self.settings.task.collator(self.evaluation.encoding, self.model, multiple)


def prepare(
    task_class: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Prepared:
    """Load the data and model of a run, and check all arguments.

    Args:
        task_class: One of `hf_localattn.tasks.TASKS`.
        model_args: The model.
        data_args: The data, an instance of `task_class.DataArguments`.
        training_args: The training arguments.

    Returns:
        The run, for `hf_localattn.training.run.start`.

    Raises:
        ValueError, OSError: Arguments, data or model are invalid or cannot be loaded.
        ImportError: An argument needs an extra that is not installed.
    """
    settings = check_settings(task_class, model_args, data_args, training_args)
    settings, read = read_rows(settings)
    settings, target = label(settings, read)
    task = settings.task
    rows = task.prepare_rows(read.rows, target)
    loss = task.choose_loss(rows, target, training_args.label_smoothing_factor)
    args = settings.training_args
    model, tokenizer = load_model_and_tokenizer(task.model_task, model_args, args, **target.fields)
    encoding = task.adapt(model, tokenizer, args)
    if task.is_calibrated:
        last_layer(model)
    args = changed(args, **task.choose_arguments(encoding, args))
    settings = replace(settings, training_args=args)
    splits = {
        name: encode(settings, name, split, target, encoding)
        for name, split in rows.items()
        if name != "train" or read.stream is None
    }
    stream = None
    if read.stream is not None:
        stream = read.stream.encode(read.layout, target, encoding, args)
    elif args.do_train:
        check_batches(args, len(splits["train"].features))
    rows |= {name: split.rows for name, split in splits.items()}
    evaluation = Evaluation(task, target, encoding, splits, settings.metric)
    return Prepared(settings, evaluation, rows, model, stream, loss)


def check_settings(
    task_class: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Settings:
    """Check the options of a run and its output folder, before rows are read.

    Raises:
        ValueError, OSError: Arguments are invalid, or the output folder holds another run.
        ImportError: An argument needs an extra that is not installed.
    """
    arguments = arguments_of(model_args, data_args, training_args)
    if not (training_args.do_train or training_args.do_eval or training_args.do_predict):
        raise ValueError("Nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
    if not training_args.do_train and model_args.family is None:
        data_args = with_recorded_columns(data_args, model_args)
    task_class = choose_task(task_class, data_args)
    if data_args.streaming:
        check_streaming(task_class, training_args)
    task = task_class(data_args)
    task.check(training_args)
    check_task(task, training_args)
    if training_args.do_train:
        check_training(training_args)
    metric = further_metric(task)
    if training_args.device.type == "cpu":
        training_args = changed(training_args, dataloader_pin_memory=False)  # pinning would only log a warning
    origin = Path(training_args.output_dir)
    if training_args.do_train:
        wanted = training_args.resume_from_checkpoint
        is_main = training_args.process_index == 0
        checkpoint = prepare_output_folder(training_args.output_dir, wanted, tidy=is_main)
        training_args = changed(training_args, resume_from_checkpoint=checkpoint)
        origin = origin if checkpoint is None else Path(checkpoint).parent
        check_same_run(origin, arguments, is_longer=bool(wanted))
    return Settings(task, model_args, training_args, origin, arguments, metric)


def read_rows(settings: Settings) -> tuple[Settings, ReadRows]:
    """Read the rows of a run. The settings get their digests.

    Raises:
        ValueError: Rows are invalid, or not those of the run that is resumed.
    """
    model_args = settings.model_args
    read = load_splits(settings.task, settings.training_args, cache_dir=model_args.cache_dir, token=model_args.token)
    if not settings.training_args.do_train:
        return settings, read
    # of a stream its first rows
    digests = {f"{split} data": digest_of(rows) for split, rows in read.rows.items()}
    check_same_run(settings.origin, digests)
    return replace(settings, arguments={**settings.arguments, **digests}), read


def label(settings: Settings, read: ReadRows) -> tuple[Settings, Target]:
    """Choose labels and scores. The settings get the score that selects the best model.

    Raises:
        ValueError: Labels, scores and options do not suit each other.
    """
    task = settings.task
    args = settings.training_args
    head = head_of(settings.model_args, task.model_task, is_trained=args.do_train)
    target = task.choose_target(read.rows, read.layout, head)
    check_task(task, args, target)
    further_metric(task, target)  # labels may not suit it
    further = further_scores(settings.metric, task, target)
    is_known = settings.metric is None or bool(further)
    values = choose_best_metric(args, target.metrics, further if is_known else None)
    return replace(settings, training_args=changed(args, **values)), target


def encode(settings: Settings, name: str, rows: datasets.Dataset, target: Target, encoding: Any) -> Split:
    """Convert the rows of a split into model inputs."""
    task = settings.task
    check_special_tokens(rows, task.input_columns, task.args.name_of(name), encoding.tokenizer)
    function, arguments = task.encoder(name, target, encoding)
    shows_bar = len(rows) >= LONG and not settings.training_args.disable_tqdm
    if shows_bar:
        datasets.enable_progress_bars()
    with settings.training_args.main_process_first(desc=f"{name} features"):
        features = rows.map(
            function,
            fn_kwargs={"tokenizer": encoding.tokenizer, **arguments},
            batched=True,
            num_proc=task.args.preprocessing_num_workers,
            remove_columns=rows.column_names,
            load_from_cache_file=not task.args.overwrite_cache,
            new_fingerprint=name_of_result(rows),
            desc=f"Preparing {name} features",
        )
    if shows_bar:
        datasets.disable_progress_bars()
    if not _has_token(features, encoding.tokenizer):
        raise ValueError(f"{task.args.name_of(name)}: the tokenizer makes no token of any row; correct the rows.")
    for family in FAMILIES.values():
        if family.query is None or family.query not in features.column_names:
            continue
        if not any(_values_of(features, family.query)):
            logger.warning("No %s row has a query: %s.", name, family.query_advice)
    return task.finish_features(name, rows, features, encoding)


def _has_token(features: datasets.Dataset, tokenizer: Any) -> bool:
    """Return True if an input has a token that is not special, or there are no inputs."""
    special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    return not len(features) or any(token not in special for token in _values_of(features, "input_ids"))


def _values_of(features: datasets.Dataset, column: str) -> Iterator[int]:
    """Yield the values in lists, such as the tokens of all inputs, each once in a chunk of rows."""
    for chunk in features.data.column(column).chunks:
        yield from chunk.flatten(recursive=True).unique().to_pylist()
