"""A run of a training script, chapter by chapter: train, evaluate, predict, share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from transformers import TrainerState
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.schema import INDEX
from hf_localattn.errors import one_line_errors
from hf_localattn.hub import Score
from hf_localattn.parsing import read_json
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.lookahead import import_lookahead
from hf_localattn.training.output_folder import (
    STATE,
    is_trained,
    mark_finished,
    mark_unfinished,
    prepare_output_folder,
)
from hf_localattn.training.run_record import record_of, scores_of_split
from hf_localattn.training.splits import Data
from hf_localattn.training.trainer import LocalAttentionTrainer

logger = logging.getLogger(__name__)


def begin(training_args: TrainingArguments, metrics: Mapping[str, bool], *, all_reported: bool = True) -> None:
    """Make sure that there is something to do, and somewhere to write it, before anything is loaded.

    Args:
        training_args: `resume_from_checkpoint` becomes the checkpoint that training goes on from, if any.
        metrics: the names by which the best model can be told, each with whether more is better. The first one
            stands for the loss where Trainer would take that. The first one beside the loss is the main score.
        all_reported: whether all of them will be there. If not, `check_best_metric` is told later which ones.

    Raises:
        ValueError: nothing to do, an unknown `metric_for_best_model`, or an output folder in use.
        ImportError: an argument needs an extra that is not installed.
    """
    if not (training_args.do_train or training_args.do_eval or training_args.do_predict):
        raise ValueError("Nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
    if training_args.do_train and training_args.lookahead_steps is not None:
        import_lookahead()
    metric = training_args.metric_for_best_model
    if metric == "loss":
        metric = next(iter(metrics))
        if metric != "loss":
            logger.warning("The best model is the one with the best %s.", metric)
    if metric is not None:
        training_args.metric_for_best_model = metric.removeprefix("eval_")
    if metric is not None or all_reported:
        check_best_metric(training_args, metrics)
    if training_args.metric_for_best_model is not None:
        training_args.greater_is_better = metrics[training_args.metric_for_best_model]
    if training_args.do_train:
        training_args.resume_from_checkpoint = prepare_output_folder(
            training_args.output_dir, training_args.resume_from_checkpoint, tidy=training_args.process_index == 0
        )
    if training_args.device.type == "cpu":
        training_args.dataloader_pin_memory = False  # pinning serves an accelerator; without one it only warns


def check_best_metric(training_args: TrainingArguments, known: Iterable[str]) -> None:
    """Have early stopping and searches go by the main score, the first one beside the loss, unless another is named.

    Raises:
        ValueError: the best model is to be told by a metric that is not among those known.
    """
    names = list(known)
    compares = training_args.early_stopping_patience is not None or training_args.search is not None
    if compares and training_args.metric_for_best_model is None:
        main = next((name for name in names if name != "loss"), "loss")
        training_args.metric_for_best_model, training_args.greater_is_better = main, main != "loss"
        logger.info("The best model is the one with the best %s.", main)
    metric = training_args.metric_for_best_model
    if metric is not None and metric not in names:
        raise ValueError(f"--metric_for_best_model must be one of {', '.join(names)}; got {metric!r}.")


class Run:
    """A model with its trainer and its data, all checked; each task has its own, with its way to write predictions.

    Args:
        trainer: ready to go.
        data: the rows of each split, as they were read.
        features: the model's inputs, likewise. A split beside "validation" or "test" is named after it
            ("validation_mismatched"), and so are its metrics ("eval_mismatched_accuracy").
        model_args, data_args: say where model and data are from.
        config_fields: what the data say of the model, with which it can be built again.
    """

    task: ClassVar[str]
    """A key of `hf_localattn.families.AUTO_CLASSES`."""

    def __init__(
        self,
        trainer: LocalAttentionTrainer,
        data: Data,
        features: Data,
        model_args: ModelArguments,
        data_args: DataArguments,
        config_fields: Mapping[str, Any] = MappingProxyType({}),
    ):
        self.trainer, self.data, self.features = trainer, data, features
        self.model_args, self.data_args, self.config_fields = model_args, data_args, config_fields
        self.scores: list[Score] = []

    def complete(self) -> dict[str, float]:
        """Train, evaluate and predict as far as asked to, share the model, and return all metrics."""
        metrics = self.train() | self.evaluate() | self.predict()
        self.share()
        return metrics

    def train(self) -> dict[str, float]:
        """Train if asked to, from the checkpoint that `begin` found, and save model, tokenizer and state."""
        trainer = self.trainer
        if not trainer.args.do_train:
            return {}
        folder, checkpoint = Path(trainer.args.output_dir), trainer.args.resume_from_checkpoint
        if trainer.args.should_save:
            mark_unfinished(folder)
        if checkpoint and Path(checkpoint).absolute() == folder.absolute():  # all is trained and saved
            trainer.state = TrainerState.load_from_json(str(folder / STATE))
            trainer._load_from_checkpoint(checkpoint)
            path = folder / "train_results.json"
            return read_json(path) if path.is_file() else {}
        if checkpoint and is_trained(checkpoint, trainer.args):
            # Killed between its last checkpoint and its final save: Trainer would train one step, or epoch, too many.
            logger.warning("%s is at its last step: nothing is left to train.", checkpoint)
            found = trainer.finish_training(checkpoint)
        else:
            found = trainer.train(resume_from_checkpoint=checkpoint).metrics
        trainer.save_model(_internal_call=True)  # or it would be shared here, without scores
        metrics = {**found, "train_samples": len(self.data["train"])}
        self._report("train", metrics)
        trainer.save_state()  # last: its file says that nothing is left to train
        return metrics

    def evaluate(self) -> dict[str, float]:
        """Evaluate if asked to; metrics begin with `eval_`."""
        metrics: dict[str, float] = {}
        for split in self._splits("validation"):
            prefix = split.replace("validation", "eval")
            own = {**self.evaluate_split(split, prefix), f"{prefix}_samples": len(self.data[split])}
            self._report(prefix, own)
            self.scores += scores_of_split(own, prefix)
            metrics |= own
        return metrics

    def predict(self) -> dict[str, float]:
        """Write the predictions for the test rows if asked to; metrics, of labelled rows, begin with `predict_`."""
        metrics: dict[str, float] = {}
        for split in self._splits("test"):
            prefix = split.replace("test", "predict")
            output = self.predict_split(split, prefix)
            if self.trainer.args.should_save:
                self.write_predictions(split, prefix, output)
                if INDEX in self.data[split].column_names:
                    logger.warning(
                        "The predictions are for %d %s rows; rows with an empty text have none (--skip_empty).",
                        len(self.data[split]),
                        split,
                    )
            own = {**output.metrics, f"{prefix}_samples": len(self.data[split])}
            self._report(prefix, own)
            self.scores += scores_of_split(own, prefix)
            metrics |= own
        return metrics

    def share(self) -> None:
        """Write the record of the training and the model's card and, with `--push_to_hub`, upload all of it.

        Without training only the upload is done: what is in the folder came from another run.
        """
        args = self.trainer.args
        if args.do_train and args.should_save:
            rows = {split: len(rows) for split, rows in self.data.items()}
            record = record_of(self.task, self.model_args, self.data_args, args, rows, self.scores)
            record.save(args.output_dir)
        if args.do_train and not args.push_to_hub:  # which writes it too
            self.trainer.create_model_card()
        if args.do_train and args.should_save:
            mark_finished(args.output_dir)
        if args.push_to_hub:
            with one_line_errors():
                self.trainer.push_to_hub()

    def evaluate_split(self, split: str, prefix: str) -> dict[str, float]:
        """Metrics of one split."""
        return self.trainer.evaluate(self.features[split], metric_key_prefix=prefix)

    def predict_split(self, split: str, prefix: str) -> PredictionOutput:
        """Predictions for one split, and metrics if it has labels."""
        return self.trainer.predict(self.features[split], metric_key_prefix=prefix)

    def write_predictions(self, split: str, prefix: str, output: PredictionOutput) -> None:
        """Write what was predicted for the rows of a split to the output folder."""
        raise NotImplementedError

    def _splits(self, part: str) -> list[str]:
        return [split for split in self.features if split.startswith(part)]

    def _report(self, stage: str, metrics: dict[str, float]) -> None:
        self.trainer.log_metrics(stage, metrics)
        self.trainer.save_metrics(stage, metrics)  # also into all_results.json


Prepare = Callable[[Any, Any, Any], Run]
"""A task's `prepare`: model, data and training arguments to a run that is ready to go."""
