"""One run of a task: its rows, training, evaluation, prediction, upload."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedTokenizerBase

from hf_localattn.errors import join_names
from hf_localattn.families import FAMILIES
from hf_localattn.files import atomic_write
from hf_localattn.hub.record import Score, describe_rivals
from hf_localattn.settings.data import NEGATION, TokenClassificationDataArguments
from hf_localattn.tasks.negation import NegationDetection, NegationScope
from hf_localattn.tasks.splits import load_splits
from hf_localattn.tasks.stream import check_streaming
from hf_localattn.tasks.task import DataArguments, Task, prefix_of
from hf_localattn.tasks.token_classification import TokenClassification
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, follow_rows
from hf_localattn.training.checks import check_batches, check_task, check_training
from hf_localattn.training.frozen_states import frozen_states_of
from hf_localattn.training.models import head_config, load_model_and_tokenizer
from hf_localattn.training.output_folder import (
    arguments_of,
    check_same_run,
    digest_of,
    is_trained,
    mark_finished,
    mark_unfinished,
    prepare_output_folder,
    remove_optimizers,
    save_arguments,
)
from hf_localattn.training.rivals import Rivals
from hf_localattn.training.run_record import record_of, scores_of_split, with_recorded_columns
from hf_localattn.training.saving import save_on_interrupt
from hf_localattn.training.scores import choose_best_metric, further_metric, further_scores
from hf_localattn.training.summary import Section, format_summary, report_sections, score_section
from hf_localattn.training.trainer import TaskTrainer

logger = logging.getLogger(__name__)

LONG = 5_000
"""Number of rows whose preparation has a progress bar."""


def choose_task(task: type[Task], args: DataArguments) -> type[Task]:
    """Return the task class for these arguments.

    Token classification with `--task negation` is `NegationScope`, or `NegationDetection` with `--detect_cues`.
    """
    if not (task is TokenClassification and isinstance(args, TokenClassificationDataArguments)):
        return task
    if args.task_name != NEGATION:
        return task
    return NegationDetection if args.corpus.all_sentences else NegationScope


def prepare_run(
    task_class: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Run:
    """Load the data and model of a run, check all arguments, and build the trainer.

    Args:
        task_class: One of `hf_localattn.tasks.TASKS`.
        model_args: The model.
        data_args: The data, an instance of `task_class.DataArguments`.
        training_args: The training arguments, an instance of `task_class.TrainingArguments`.

    Returns:
        The run, ready for `execute()`.

    Raises:
        ValueError, OSError: Arguments, data or model are invalid or cannot be loaded.
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
    task = task_class(data_args, training_args)
    check_task(task)
    if training_args.do_train:
        check_training(training_args)
    task.further_metric = further_metric(task)
    if training_args.device.type == "cpu":
        training_args.dataloader_pin_memory = False  # without an accelerator, pinning only logs a warning
    if training_args.do_train:
        output_dir = training_args.output_dir
        wanted = training_args.resume_from_checkpoint
        is_main = training_args.process_index == 0
        checkpoint = prepare_output_folder(output_dir, wanted, tidy=is_main)
        training_args.resume_from_checkpoint = checkpoint
        origin = output_dir if checkpoint is None else Path(checkpoint).parent
        check_same_run(origin, arguments, is_longer=bool(wanted))

    data, stream = load_splits(task, cache_dir=model_args.cache_dir, token=model_args.token)
    if training_args.do_train:
        # of a stream its first rows
        digests = {f"{split} data": digest_of(rows) for split, rows in data.items()}
        check_same_run(origin, digests)
        arguments |= digests
    fields = task.choose_labels(data, model_args, head_config(model_args, task.model_task))
    check_task(task)
    further_metric(task)  # labels may not suit it
    task.further_scores = further_scores(task)
    choose_best_metric(training_args, task)
    data = task.prepare_rows(data)
    model, tokenizer = load_model_and_tokenizer(task.model_task, model_args, training_args, **fields)
    task.adapt(model, tokenizer)

    task.rows |= data
    for split, rows in data.items():
        if split != "train" or stream is None:
            task.features[split] = make_features(task, split, rows, tokenizer)
    if stream is not None:
        stream.encode(tokenizer)
    elif training_args.do_train:
        check_batches(training_args, len(task.features["train"]))
        training_args = follow_rows(training_args, len(task.features["train"]))
    has_half_precision = training_args.fp16 or training_args.bf16
    trainer = task.trainer_class(
        task,
        model=model,
        args=training_args,
        train_dataset=task.features.get("train", stream),
        eval_dataset=task.features.get("validation"),
        processing_class=tokenizer,
        data_collator=task.collator(tokenizer, model, 8 if has_half_precision else None),
        compute_loss_func=task.compute_loss,
    )
    return Run(task, trainer, model_args, arguments)


def make_features(task: Task, split: str, rows: Any, tokenizer: PreTrainedTokenizerBase) -> Any:
    """Convert the rows of a split into model inputs."""
    function, arguments = task.encoder(split)
    shows_bar = len(rows) >= LONG and not task.training_args.disable_tqdm
    if shows_bar:
        datasets.enable_progress_bars()
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
    if shows_bar:
        datasets.disable_progress_bars()
    for family in FAMILIES.values():
        if family.query is None or family.query not in features.column_names:
            continue
        if not _has_query(features, family.query):
            logger.warning("No %s row has a query: %s.", split, family.query_advice)
    return task.finish_features(split, rows, features)


def _has_query(features: datasets.Dataset, column: str) -> bool:
    """Return True if a mask of query tokens is not 0 everywhere."""
    for masks in features.data.column(column).chunks:
        if any(masks.flatten(recursive=True).unique().to_pylist()):
            return True
    return False


class Run:
    """A model with its trainer and data.

    Further evaluation and test splits have a suffix ("validation_mismatched"), and so have their metrics
    ("eval_mismatched_accuracy").

    Args:
        task: The task, with the data of all splits.
        trainer: The trainer.
        model_args: The model, for the training record.
        arguments: Arguments of the run and digests of its data, for `run.json`.
    """

    def __init__(self, task: Task, trainer: TaskTrainer, model_args: ModelArguments, arguments: Mapping[str, Any]):
        self.task = task
        self.trainer = trainer
        self.model_args = model_args
        self.arguments = arguments
        self.data = task.rows  # of streamed training rows the first
        self.features = task.features  # without those of streamed rows
        self.scores: list[Score] = []
        self.rival_scores: list[Score] = []
        """Scores of plain rivals, for the card."""
        self.files: list[str] = []
        """Files with predictions, in the output folder."""
        self.reports: dict[str, dict[str, Any]] = {}
        """Result of `class_report` for each split that has one."""
        self.frozen = frozen_states_of(trainer.model, trainer.args)
        self.rivals = Rivals(task, self.frozen)

    def execute(self) -> dict[str, float]:
        """Train, evaluate, predict and upload according to the training arguments, and return all metrics."""
        with self.frozen.reading(self.features) if self.frozen else nullcontext():
            metrics = self.train() | self.evaluate() | self.predict()
        self.share()
        logger.info("The run has ended.\n%s", format_summary(self._summary(metrics)))
        return metrics

    def train(self) -> dict[str, float]:
        """Train with `do_train`, or resume from a checkpoint; save model, tokenizer and state."""
        trainer = self.trainer
        args = trainer.args
        if not args.do_train:
            return {}
        checkpoint = args.resume_from_checkpoint
        if args.should_save:
            mark_unfinished(args.output_dir)
            save_arguments(args.output_dir, self.arguments)
        if checkpoint and is_trained(checkpoint, args):
            # Killed between the last checkpoint and the final save. Trainer would train one more step or epoch.
            logger.warning("%s is at its last step: no training is left to do.", checkpoint)
            metrics = trainer.finish_training(checkpoint)
        else:
            if checkpoint:
                logger.warning("Resuming from %s. Another --output_dir starts from the beginning.", checkpoint)
            with save_on_interrupt(trainer):
                metrics = trainer.train(resume_from_checkpoint=checkpoint).metrics
        metrics |= self.task.finish_model(trainer)
        trainer.save_model()  # without an upload before the model has scores
        metrics = {**metrics, "train_samples": self._num_rows("train")}
        trainer.save_metrics("train", metrics)  # also written to all_results.json
        trainer.save_state()  # last, because this file marks training as complete
        return metrics

    def evaluate(self) -> dict[str, float]:
        """Evaluate with `do_eval`. The names of metrics begin with `eval_`."""
        return self._evaluate_splits("validation")

    def predict(self) -> dict[str, float]:
        """Write predictions for the test rows with `do_predict`. The names of metrics begin with `predict_`."""
        return self._evaluate_splits("test")

    def share(self) -> None:
        """Write the training record and the model card; upload the output folder with `push_to_hub`.

        Without training only the upload takes place: the files in the folder are from another run.
        """
        args = self.trainer.args
        is_writer = args.do_train and args.should_save
        if is_writer:
            rows = {split: self._num_rows(split) for split in self.data}
            record = record_of(self.task, self.model_args, rows, self.scores + self.rival_scores, self.reports)
            record.save(args.output_dir)
        if args.do_train and not args.push_to_hub:  # an upload writes the card, too
            self.trainer.create_model_card()
        if is_writer:
            mark_finished(args.output_dir)
        if args.push_to_hub:
            self.trainer.push_to_hub()
        if is_writer and not args.keep_checkpoints:
            remove_optimizers(args.output_dir)

    def _summary(self, metrics: Mapping[str, Any]) -> list[Section]:
        """Return the sections of the summary, with the classes of the last split."""
        rivals = describe_rivals(score.metric for score in self.rival_scores)
        sections = [
            self._run_section(metrics),
            score_section("Scores", self.scores),
            score_section(f"Rivals ({rivals})", self.rival_scores),
        ]
        if self.reports:
            split, report = list(self.reports.items())[-1]
            sections += report_sections(split, report)
        return [*sections, self._folder_section()]

    def _run_section(self, metrics: Mapping[str, Any]) -> Section:
        """Return the section of the summary with the model, the rows, and the training."""
        model_args = self.model_args
        family = "" if model_args.family is None else f"{model_args.family} on "
        rows = ", ".join(f"{len(rows)} {split}" for split, rows in self.data.items())
        cells = [("model", f"{family}{model_args.source}"), ("rows", rows)]
        if "train_loss" in metrics:
            state = self.trainer.state
            cells.append(("steps", f"{state.global_step} ({state.epoch or 0:.4g} epochs)"))
        return Section(f"Run of {self.task.name}", cells)

    def _folder_section(self) -> Section:
        """Return the section of the summary with the output folder and the next command."""
        folder = self.trainer.args.output_dir
        rows = [("folder", folder)]
        if self.files:
            rows.append(("predictions", join_names(self.files)))
        if self.trainer.args.do_train:
            rows.append(("try it", f"hf-localattn demo {shlex.quote(folder)}"))
        return Section("Results", rows)

    def _evaluate_splits(self, part: str) -> dict[str, float]:
        """Evaluate the splits of a part, write their metrics and predictions, and return the metrics."""
        trainer = self.trainer
        all_metrics: dict[str, Any] = {}
        for split, features in self.features.items():
            if not split.startswith(part):
                continue
            prefix = prefix_of(split)
            if part == "test":
                metrics = trainer.predict(features, metric_key_prefix=prefix).metrics
            else:
                metrics = trainer.evaluate(features, metric_key_prefix=prefix)
            if trainer.args.do_train:
                model_scores = {name.removeprefix(f"{prefix}_"): value for name, value in metrics.items()}
                rivals = self.rivals.scores(split, model_scores)
                self.rival_scores += [Score(split, name, value) for name, value in rivals.items()]
                metrics |= {f"{prefix}_{name}": value for name, value in rivals.items()}
            scored = trainer.scored
            trainer.scored = None  # frees memory
            if scored is not None:
                self._write_predictions(split, scored.predictions)
                metrics |= {f"{prefix}_{name}": note for name, note in scored.notes.items()}
            metrics |= {f"{prefix}_samples": len(self.data[split])}
            if scored is not None and scored.report is not None:
                self.reports[split] = scored.report
                metrics[f"{prefix}_report"] = scored.report
            trainer.save_metrics(prefix, metrics)
            self.scores += scores_of_split(metrics, prefix)
            all_metrics |= metrics
        return all_metrics

    def _write_predictions(self, split: str, predictions: Any) -> None:
        """Write the files with the predictions for a split, if the task has such files."""
        args = self.trainer.args
        is_written = split.startswith("test") or self.task.writes_validation
        if not (args.should_save and is_written):
            return
        for file, text in self.task.files(split, prefix_of(split), predictions).items():
            atomic_write(Path(args.output_dir, file), text)
            self.files.append(file)

    def _num_rows(self, split: str) -> int:
        """Return the number of rows of a split, or of features that are trained on if the rows are streamed."""
        args = self.trainer.args
        if split in self.features:
            return len(self.data[split])
        return args.max_steps * args.train_batch_size * args.gradient_accumulation_steps * args.world_size
