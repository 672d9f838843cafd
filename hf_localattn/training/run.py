"""One run of a task: training, evaluation, prediction, upload. Each step takes the value of the one before it."""

from __future__ import annotations

import inspect
import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.utils.data
from transformers.trainer_pt_utils import EvalLoopContainer

from hf_localattn.errors import join_names
from hf_localattn.extras import is_installed
from hf_localattn.files import atomic_write
from hf_localattn.hub.record import Score, describe_rivals
from hf_localattn.tasks.task import Scored, Split, prefix_of
from hf_localattn.training.calibration import calibrate, calibration_scores
from hf_localattn.training.frozen_states import frozen_states_of
from hf_localattn.training.intervals import INTERVALS
from hf_localattn.training.output_folder import (
    is_trained,
    mark_finished,
    mark_unfinished,
    remove_checkpoints,
    save_arguments,
)
from hf_localattn.training.prepare import Prepared
from hf_localattn.training.rivals import Rivals, fit_rivals
from hf_localattn.training.run_record import record_of, scores_of_split
from hf_localattn.training.saving import save_on_interrupt
from hf_localattn.training.summary import Section, format_summary, label_sections, report_sections, score_section
from hf_localattn.training.trainer import GenerationTrainer, TaskTrainer

logger = logging.getLogger(__name__)

LABELS = ("label", "labels", "start_positions", "end_positions")
"""Columns of features with labels."""


@dataclass(frozen=True)
class Started:
    """A prepared run with its trainer.

    Args:
        prepared: The run.
        trainer: The trainer.
    """

    prepared: Prepared
    trainer: TaskTrainer


@dataclass(frozen=True)
class Trained(Started):
    """A run after its training, with the trained model in its trainer.

    Args:
        metrics (*optional*): Metrics of the training; empty if the model was not trained.
        temperature (*optional*): Divisor of the logits, with `--temperature_scaling`.
        rivals (*optional*): Rivals of the model; None if it was not trained.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    temperature: float | None = None
    rivals: Rivals | None = None


@dataclass(frozen=True)
class Evaluated:
    """Result of a trained model for a split.

    Args:
        split: The split.
        metrics: Metrics, with the prefix of the split.
        rivals: Scores of plain rivals, without a prefix.
        scored (*optional*): Predictions and scores; None if only the loss is evaluated.
    """

    split: Split
    metrics: Mapping[str, Any]
    rivals: Mapping[str, float]
    scored: Scored | None = None

    @property
    def scores(self) -> list[Score]:
        """Scores of the model and its rivals."""
        return scores_of_split(self.metrics, prefix_of(self.split.name))

    @property
    def rival_scores(self) -> list[Score]:
        """Scores of the rivals."""
        return [Score(self.split.name, name, value) for name, value in self.rivals.items()]


def execute(started: Started) -> dict[str, Any]:
    """Train, evaluate, predict and upload according to the training arguments, and return all metrics."""
    splits = started.prepared.evaluation.splits
    features = {name: split.features for name, split in splits.items()}
    results = []
    files = []
    states = started.trainer.frozen_states
    with states.computed(features) if states else nullcontext():
        trained = train(started)
        for part in ("validation", "test"):
            for name in splits:
                if name.startswith(part):
                    evaluated = evaluate(trained, name)
                    files += write(trained, evaluated)
                    results.append(evaluated)
    share(trained, results)
    metrics = dict(trained.metrics)
    for evaluated in results:
        metrics |= evaluated.metrics
    logger.info("The run has ended.\n%s", format_summary(summary_of(trained, results, files)))
    return metrics


def start(prepared: Prepared) -> Started:
    """Build the trainer of a run, which checks arguments that no other step needs.

    Raises:
        ValueError, OSError: An argument is invalid, or a repository on the Hub cannot be created.
    """
    task = prepared.settings.task
    args = prepared.training_args
    splits = prepared.evaluation.splits
    features = {name: split.features for name, split in splits.items()}
    trainer_class = GenerationTrainer if task.generates else TaskTrainer
    trainer = trainer_class(
        prepared.evaluation,
        args,
        model=prepared.model,
        train_dataset=features.get("train", prepared.stream),
        eval_dataset=features.get("validation"),
        processing_class=prepared.evaluation.encoding.tokenizer,
        data_collator=prepared.collator(8 if args.fp16 or args.bf16 else None),
        compute_loss_func=prepared.loss,
        frozen_states=frozen_states_of(prepared.model, args),
    )
    return Started(prepared, trainer)


def train(started: Started) -> Trained:
    """Train with `do_train`, or resume from a checkpoint; save model, tokenizer and state."""
    prepared, trainer = started.prepared, started.trainer
    args = trainer.args
    if not args.do_train:
        return Trained(prepared, trainer)
    divides_encoder = bool(args.fsdp or args.deepspeed)
    rivals = fit_rivals(prepared.evaluation, None if divides_encoder else trainer.model)
    checkpoint = args.resume_from_checkpoint
    if args.should_save:
        mark_unfinished(args.output_dir)
        save_arguments(args.output_dir, prepared.settings.arguments)
    if checkpoint and is_trained(checkpoint, args):
        # Killed between the last checkpoint and the final save. Trainer would train one more step or epoch.
        logger.warning("%s is at its last step: no training is left to do.", checkpoint)
        metrics = trainer.finish_training(checkpoint)
    else:
        if checkpoint:
            logger.warning("Resuming from %s. Another --output_dir starts from the beginning.", checkpoint)
        with save_on_interrupt(trainer):
            metrics = trainer.train(resume_from_checkpoint=checkpoint).metrics
    temperature = None
    evaluation = prepared.evaluation
    if evaluation.task.is_calibrated:
        assert evaluation.target.labels is not None
        temperature = calibrate(trainer, evaluation.splits["validation"], evaluation.target.labels)
        metrics = {**metrics, "temperature": temperature}
    trainer.save_model()  # without an upload before the model has scores
    metrics = {**metrics, "train_samples": _num_rows(started, "train")}
    trainer.save_metrics("train", metrics)  # also written to all_results.json
    trainer.save_state()  # last, because this file marks training as complete
    return Trained(prepared, trainer, metrics, temperature, rivals)


def evaluate(trained: Trained, name: str) -> Evaluated:
    """Evaluate a split, or predict its rows.

    Args:
        trained: The trained model.
        name: Name of the split. The names of metrics begin with `eval_`, or for a test split with `predict_`.
    """
    prepared, trainer = trained.prepared, trained.trainer
    evaluation = prepared.evaluation
    split = evaluation.splits[name]
    prefix = prefix_of(name)
    output = trainer.predict(split.features, metric_key_prefix=prefix)
    scored: Scored | None = output.predictions
    metrics: dict[str, Any] = dict(output.metrics)
    if scored is not None and trained.temperature is not None:
        assert evaluation.target.labels is not None
        errors = calibration_scores(split, scored.predictions, evaluation.target.labels, trained.temperature)
        metrics |= {f"{prefix}_{score}": value for score, value in errors.items()}
    if not name.startswith("test"):
        trainer.log(metrics)
    of_rivals: Mapping[str, float] = {}
    if trained.rivals is not None:
        model_scores = {score.removeprefix(f"{prefix}_"): value for score, value in metrics.items()}
        of_rivals = trained.rivals.scores(split, model_scores)
        metrics |= {f"{prefix}_{score}": value for score, value in of_rivals.items()}
    if scored is not None:
        metrics |= {f"{prefix}_{note}": text for note, text in scored.notes.items()}
        if intervals := evaluation.intervals(scored):
            metrics[f"{prefix}_{INTERVALS}"] = intervals
    metrics |= {f"{prefix}_samples": len(split.rows)}
    if scored is not None and scored.report is not None:
        metrics[f"{prefix}_report"] = scored.report
    return Evaluated(split, metrics, of_rivals, scored)


def write(trained: Trained, evaluated: Evaluated) -> list[str]:
    """Write the metrics and the predictions for a split to the output folder, and return the files of predictions."""
    args = trained.trainer.args
    evaluation = trained.prepared.evaluation
    split = evaluated.split
    is_written = split.name.startswith("test") or evaluation.task.writes_validation
    files: dict[str, str] = {}
    if evaluated.scored is not None and args.should_save and is_written:
        files = evaluation.task.files(split, evaluated.scored.predictions, evaluation.target)
    for file, text in files.items():
        atomic_write(Path(args.output_dir, file), text)
    trained.trainer.save_metrics(prefix_of(split.name), dict(evaluated.metrics))
    return list(files)


def share(trained: Trained, results: Sequence[Evaluated] = ()) -> None:
    """Write the training record and the model card; upload the output folder with `push_to_hub`.

    Without training only the upload takes place: the files in the folder are from another run.
    """
    prepared, trainer = trained.prepared, trained.trainer
    args = trainer.args
    is_writer = args.do_train and args.should_save
    if is_writer:
        columns = prepared.rows["train"].column_names
        scores = [score for evaluated in results for score in evaluated.scores]
        rival_scores = [score for evaluated in results for score in evaluated.rival_scores]
        record = record_of(
            prepared.settings.task,
            prepared.settings.model_args,
            args,
            {split: _num_rows(trained, split) for split in prepared.rows},
            scores + rival_scores,
            reports_of(results),
            has_pairs="text_pair" in columns if "text" in columns else None,
            temperature=trained.temperature,
        )
        record.save(args.output_dir)
    if args.do_train and not args.push_to_hub:  # an upload writes the card, too
        trainer.create_model_card()
    if is_writer:
        mark_finished(args.output_dir)
    if args.push_to_hub:
        trainer.push_to_hub()
    if is_writer and not args.keep_checkpoints:
        remove_checkpoints(args.output_dir, wanted=args.chooses_saving)


def reports_of(results: Sequence[Evaluated]) -> dict[str, dict[str, Any]]:
    """Return the result of `class_report` for each split that has one."""
    scored = {evaluated.split.name: evaluated.scored for evaluated in results}
    return {name: each.report for name, each in scored.items() if each is not None and each.report is not None}


def summary_of(trained: Trained, results: Sequence[Evaluated], files: Sequence[str]) -> list[Section]:
    """Return the sections of the summary, with the classes of the last split.

    Args:
        trained: The run.
        results: Results for its splits.
        files: Files with predictions, in the output folder.
    """
    rival_scores = [score for evaluated in results for score in evaluated.rival_scores]
    rivals = describe_rivals(score.metric for score in rival_scores)
    scores, of_labels = label_sections([score for evaluated in results for score in evaluated.scores])
    sections = [
        _run_section(trained),
        score_section("Scores", scores),
        *of_labels,
        score_section(f"Rivals ({rivals})", rival_scores),
    ]
    if reports := reports_of(results):
        split, report = list(reports.items())[-1]
        sections += report_sections(split, report)
    return [*sections, _folder_section(trained.trainer.args, files)]


def _run_section(trained: Trained) -> Section:
    """Return the section of the summary with the model, the rows, and the training."""
    settings = trained.prepared.settings
    model_args = settings.model_args
    family = "" if model_args.family is None else f"{model_args.family} on "
    rows = ", ".join(f"{len(rows)} {split}" for split, rows in trained.prepared.rows.items())
    cells = [("model", f"{family}{model_args.source}"), ("rows", rows)]
    if "train_loss" in trained.metrics:
        state = trained.trainer.state
        steps = f"{state.global_step} ({state.epoch or 0:.4g} epochs)"
        if state.best_global_step is not None and state.global_step < state.max_steps:
            steps += f", stopped early: of {state.max_steps}, those after {state.best_global_step} were not better"
        cells.append(("steps", steps))
    return Section(f"Run of {settings.task.name}", cells)


def _folder_section(args: Any, files: Sequence[str]) -> Section:
    """Return the section of the summary with the output folder and the next command."""
    rows = [("folder", args.output_dir)]
    if files:
        rows.append(("predictions", join_names(list(files))))
    if args.do_train:
        first = "" if is_installed("demo") else "pip install 'hf_localattn[demo]' && "
        rows.append(("try it", f"{first}hf-localattn demo {shlex.quote(args.output_dir)}"))
    return Section("Results", rows)


def _num_rows(started: Started, split: str) -> int:
    """Return the number of rows of a split, or of features that are trained on if the rows are streamed."""
    args = started.trainer.args
    if split in started.prepared.evaluation.splits:
        return len(started.prepared.rows[split])
    return args.max_steps * args.train_batch_size * args.gradient_accumulation_steps * args.world_size


def batches_of(prepared: Prepared, name: str, size: int) -> torch.utils.data.DataLoader[Any]:
    """Return the batches of a split, with the inputs of the model and without labels."""
    features: Any = prepared.evaluation.splits[name].features
    inputs = set(inspect.signature(prepared.model.forward).parameters).difference(LABELS)
    features = features.remove_columns([column for column in features.column_names if column not in inputs])
    return torch.utils.data.DataLoader(features, size, collate_fn=prepared.collator())


@torch.inference_mode()
def score_with(prepared: Prepared, name: str, model: Callable[..., Mapping[str, Any]], size: int = 16) -> Scored:
    """Return the scores of any function of a batch for a split, such as an exported graph, without a trainer.

    Args:
        prepared: The run.
        name: Name of the split.
        model: Function of the inputs of a batch on the CPU, which returns outputs by name.
        size (*optional*, defaults to 16): Number of features in a batch.
    """
    ignored = {"loss", *getattr(prepared.model.config, "keys_to_ignore_at_inference", ())}
    outputs = EvalLoopContainer(do_nested_concat=True, padding_index=-100)
    for batch in batches_of(prepared, name, size):
        values = model(**batch)
        kept = tuple(value for key, value in values.items() if key not in ignored)
        outputs.add(prepared.evaluation.keep(kept, batch.get("attention_mask")))
    return prepared.evaluation.score(prepared.evaluation.splits[name], outputs.get_arrays(), model)
