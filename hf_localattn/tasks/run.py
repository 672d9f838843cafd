"""One run of a task: training, evaluation, prediction, upload."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from hf_localattn.data.rows import INDEX
from hf_localattn.errors import exit_on_user_error
from hf_localattn.hub import Score
from hf_localattn.tasks.negation import NegationDetection, NegationScope
from hf_localattn.tasks.splits import Passes, load_splits, warn_of_no_query
from hf_localattn.tasks.task import DataArguments, Task
from hf_localattn.tasks.token_classification import NEGATION, TokenClassification
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.models import head_config, load_model_and_tokenizer
from hf_localattn.training.optimizers import import_lookahead
from hf_localattn.training.output_folder import (
    arguments_of,
    check_same_run,
    digest_of,
    is_trained,
    mark_finished,
    mark_unfinished,
    prepare_output_folder,
    remove_optimizers,
    save_run,
)
from hf_localattn.training.run_record import record_of, scores_of_split
from hf_localattn.training.trainer import TaskTrainer, save_on_interrupt

logger = logging.getLogger(__name__)


def choose_task(task: type[Task], args: DataArguments) -> type[Task]:
    """Return the task class for these arguments.

    Token classification with `--task negation` is `NegationScope`, or `NegationDetection` with `--detect_cues`.
    """
    if task is not TokenClassification or getattr(args, "task_name", None) != NEGATION:
        return task
    return NegationDetection if getattr(args, "detect_cues", False) else NegationScope


def prepare_run(
    task_class: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Run:
    """Load the data and model of a run, check all arguments, and build the trainer.

    Args:
        task_class: one of `hf_localattn.tasks.TASKS`.
        model_args: the model.
        data_args: the data, an instance of `task_class.DataArguments`.
        training_args: the training arguments, an instance of `task_class.TrainingArguments`.

    Returns:
        The run, ready for `execute()`.

    Raises:
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded.
        ImportError: an argument needs an extra that is not installed.
    """
    arguments = arguments_of(model_args, data_args, training_args)
    if not (training_args.do_train or training_args.do_eval or training_args.do_predict):
        raise ValueError("Nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
    task_class = choose_task(task_class, data_args)
    if data_args.streaming:
        check_streaming(task_class, training_args)
    task = task_class(data_args, training_args)
    if training_args.device.type == "cpu":
        training_args.dataloader_pin_memory = False  # without an accelerator, pinning only logs a warning
    if training_args.do_train:
        if training_args.lookahead_steps is not None:
            import_lookahead()
        is_longer = bool(training_args.resume_from_checkpoint)
        resumed = training_args.resume_from_checkpoint = prepare_output_folder(
            training_args.output_dir, training_args.resume_from_checkpoint, tidy=training_args.process_index == 0
        )
        origin = training_args.output_dir if resumed is None else Path(resumed).parent
        check_same_run(origin, arguments, is_longer=is_longer)

    data, stream = load_splits(
        task, needed_parts(training_args), cache_dir=model_args.cache_dir, token=model_args.token
    )
    if training_args.do_train:
        digests = {f"{split} data": digest_of(rows) for split, rows in data.items()}  # of a stream its first rows
        check_same_run(origin, digests)
        arguments |= digests
    fields = task.choose_labels(data, model_args, head_config(model_args, task.model_task))
    choose_best_metric(training_args, task)
    data = task.prepare_rows(data)
    model, tokenizer = load_model_and_tokenizer(task.model_task, model_args, training_args, **fields)
    task.adapt(model, tokenizer)

    task.rows |= data
    for split, rows in data.items():
        if split != "train" or stream is None:
            task.features[split] = make_features(task, split, rows, tokenizer)
    train_dataset: Any = task.features.get("train")
    if stream is not None:
        seed = training_args.seed if training_args.data_seed is None else training_args.data_seed
        train_dataset = Passes(stream.features(task, tokenizer, seed))
    trainer = task.trainer_class(
        task,
        model=model,
        args=training_args,
        train_dataset=train_dataset,
        eval_dataset=task.features.get("validation"),
        processing_class=tokenizer,
        data_collator=task.collator(tokenizer, model, 8 if training_args.fp16 or training_args.bf16 else None),
    )
    return Run(task, trainer, model_args, arguments)


def check_streaming(task: type[Task], training_args: TrainingArguments) -> None:
    """Raise `ValueError` if `--streaming` cannot be used with the task or with another argument."""
    if not task.streams:
        raise ValueError(f"--streaming cannot be used for {task.name}, which reads all rows first: leave it out.")
    if training_args.search_space is not None:
        raise ValueError("--streaming cannot be used with --search_space: search on a part of the rows without it.")
    if not training_args.do_train:
        raise ValueError("--streaming reads training rows: give --do_train, or leave it out.")
    if training_args.max_steps < 1:
        raise ValueError("--streaming needs --max_steps, since the number of training rows is unknown.")
    for name in ("eval_strategy", "save_strategy"):
        if getattr(training_args, name) == "epoch":
            raise ValueError(f"--streaming has no epochs: give --{name} steps.")


def needed_parts(training_args: TrainingArguments) -> dict[str, str]:
    """Return the parts of the data that a run needs, each with the option that requires it."""
    parts = {"train": "train", "validation": "eval", "test": "predict"}
    needed = {part: f"--do_{name}" for part, name in parts.items() if getattr(training_args, f"do_{name}")}
    for name in ("early_stopping_patience", "search_space"):
        if "validation" in needed and getattr(training_args, name) is not None:
            needed["validation"] = f"--{name}"
    return needed


def choose_best_metric(training_args: TrainingArguments, task: Task) -> None:
    """Set `metric_for_best_model` and `greater_is_better`.

    The metric is the given one, or that of the task's arguments. With early stopping or a search, it defaults to the
    task's main score: its first one other than "loss".
    """
    compares = training_args.early_stopping_patience is not None or training_args.search_space is not None
    given = training_args.metric_for_best_model
    metric = None if given is None else given.removeprefix("eval_")
    if metric in (None, "loss") and task.best_metric is not None:
        metric = task.best_metric
    elif metric is None and compares:
        metric = next((name for name in task.metrics if name != "loss"), "loss")
    elif metric == "loss":  # Trainer's default
        metric = next(iter(task.metrics))
    if metric is None:
        return
    if metric not in task.metrics and task.args.metric is None:
        raise ValueError(f"--metric_for_best_model must be one of {', '.join(task.metrics)}; got {metric!r}.")
    if metric != given:
        logger.info("The best model is the one with the best %s.", metric)
    training_args.metric_for_best_model = metric
    training_args.greater_is_better = task.metrics.get(metric, training_args.greater_is_better is not False)


def make_features(task: Task, split: str, rows: Any, tokenizer: PreTrainedTokenizerBase) -> Any:
    """Convert the rows of a split into model inputs."""
    function, arguments = task.encoder(split)
    with task.training_args.main_process_first(desc=f"{split} features"):
        features = rows.map(
            function,
            fn_kwargs={"tokenizer": tokenizer, **arguments},
            batched=True,
            num_proc=task.args.preprocessing_num_workers,
            remove_columns=rows.column_names,
            load_from_cache_file=not task.args.overwrite_cache,
            desc=f"Preparing {split} features",
        )
    warn_of_no_query(split, features)
    return task.finish_features(split, rows, features)


class Run:
    """A model with its trainer and data.

    Names of additional evaluation and test splits have a suffix ("validation_mismatched"). Their metrics have the same
    suffix ("eval_mismatched_accuracy").

    Args:
        task: the task, with the data of all splits.
        trainer: the trainer.
        model_args: the model, for the training record.
        arguments: arguments of the run and digests of its data, for `run.json`.
    """

    def __init__(self, task: Task, trainer: TaskTrainer, model_args: ModelArguments, arguments: Mapping[str, Any]):
        self.task, self.trainer, self.model_args, self.arguments = task, trainer, model_args, arguments
        self.data, self.features = task.rows, task.features  # of streamed training rows the first, and no features
        self.scores: list[Score] = []

    def execute(self) -> dict[str, float]:
        """Train, evaluate, predict and upload according to the training arguments, and return all metrics."""
        metrics = self.train() | self.evaluate() | self.predict()
        self.share()
        return metrics

    def train(self) -> dict[str, float]:
        """Train with `do_train`, or resume from a checkpoint; save model, tokenizer and state."""
        trainer = self.trainer
        if not trainer.args.do_train:
            return {}
        folder, checkpoint = Path(trainer.args.output_dir), trainer.args.resume_from_checkpoint
        if trainer.args.should_save:
            mark_unfinished(folder)
            save_run(folder, self.arguments)
        if checkpoint and is_trained(checkpoint, trainer.args):
            # Killed between the last checkpoint and the final save. Trainer would train one more step or epoch.
            logger.warning("%s is at its last step: no training is left to do.", checkpoint)
            found = trainer.finish_training(checkpoint)
        else:
            with save_on_interrupt(trainer):
                found = trainer.train(resume_from_checkpoint=checkpoint).metrics
        trainer.save_model(_internal_call=True)  # `_internal_call` prevents an upload before the model has scores
        metrics = {**found, "train_samples": self._num_rows("train")}
        trainer.log_metrics("train", metrics)
        trainer.save_metrics("train", metrics)  # also written to all_results.json
        trainer.save_state()  # last, because this file marks training as complete
        return metrics

    def evaluate(self) -> dict[str, float]:
        """Evaluate with `do_eval`. The names of metrics begin with `eval_`."""
        return self._evaluate_splits("validation", "eval")

    def predict(self) -> dict[str, float]:
        """Write predictions for the test rows with `do_predict`.

        Returns:
            Metrics of labeled rows. Their names begin with `predict_`.
        """
        for split, rows in self.data.items():
            if "test" in split and INDEX in rows.column_names:
                message = "The predictions are for %d %s rows; rows with an empty text have none (--skip_empty)."
                logger.warning(message, len(rows), split)
        return self._evaluate_splits("test", "predict")

    def share(self) -> None:
        """Write the training record and the model card, and upload the output folder if `push_to_hub` is set.

        Without training, only the upload takes place, because the files in the folder are from another run.
        """
        args = self.trainer.args
        is_writer = args.do_train and args.should_save
        if is_writer:
            rows = {split: self._num_rows(split) for split in self.data}
            record = record_of(self.task.model_task, self.model_args, self.task.args, args, rows, self.scores)
            record.save(args.output_dir)
        if args.do_train and not args.push_to_hub:  # an upload writes the card, too
            self.trainer.create_model_card()
        if is_writer:
            mark_finished(args.output_dir)
        if args.push_to_hub:
            with exit_on_user_error():
                self.trainer.push_to_hub()
        if is_writer and not args.keep_checkpoints:
            remove_optimizers(args.output_dir)

    def _evaluate_splits(self, part: str, name: str) -> dict[str, float]:
        """Evaluate the splits of a part; write their metrics, whose prefixes begin with `name`, and predictions."""
        trainer, task, found = self.trainer, self.task, dict[str, Any]()
        is_test = part == "test"
        for split in [split for split in self.features if part in split]:
            prefix, features = split.replace(part, name), self.features[split]
            if is_test:
                metrics = trainer.predict(features, metric_key_prefix=prefix).metrics
            else:
                metrics = trainer.evaluate(features, metric_key_prefix=prefix)
            scored, trainer.scored = trainer.scored, None  # frees memory
            if scored is not None:
                if trainer.args.should_save and (is_test or task.writes_validation):
                    task.write_predictions(Path(trainer.args.output_dir), split, prefix, scored.predictions)
                metrics |= {f"{prefix}_{name}": note for name, note in scored.notes.items()}
            metrics |= {f"{prefix}_samples": len(self.data[split])}
            trainer.log_metrics(prefix, metrics)
            trainer.save_metrics(prefix, metrics)
            self.scores += scores_of_split(metrics, prefix)
            found |= metrics
        return found

    def _num_rows(self, split: str) -> int:
        """Return the number of rows of a split, or of features that are trained on if the rows are streamed."""
        args = self.trainer.args
        if split in self.features:
            return len(self.data[split])
        return args.max_steps * args.train_batch_size * args.gradient_accumulation_steps * args.world_size
