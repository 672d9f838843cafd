"""One run of a task: training, evaluation, prediction, upload."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transformers import PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.rows import INDEX
from hf_localattn.errors import exit_on_user_error
from hf_localattn.hub import Score
from hf_localattn.tasks import Checkpoint, DataArguments, Task, choose_task
from hf_localattn.tasks.splits import Splits, warn_of_no_query
from hf_localattn.tasks.streaming import StreamedFeatures, check_streaming
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.example_scores import write_example_scores
from hf_localattn.training.generation import GenerationTrainer, GenerationTrainingArguments
from hf_localattn.training.models import head_config, load_model_and_tokenizer
from hf_localattn.training.optimizers import import_lookahead
from hf_localattn.training.output_folder import (
    is_trained,
    mark_finished,
    mark_unfinished,
    prepare_output_folder,
)
from hf_localattn.training.run_record import record_of, scores_of_split
from hf_localattn.training.same_run import arguments_of, check_same_run, digest_of, save_run
from hf_localattn.training.trainer import ExampleTrainer, LocalAttentionTrainer

logger = logging.getLogger(__name__)


def validate_arguments(
    training_args: TrainingArguments, metrics: Mapping[str, bool], *, all_reported: bool = True
) -> None:
    """Check the training arguments and the output folder before anything is loaded.

    Args:
        training_args: training arguments. `resume_from_checkpoint` is set to the checkpoint to resume from, or to
            None.
        metrics: values of `metric_for_best_model`, each with True if greater is better. The first metric replaces
            "loss". The first metric other than "loss" is the main score.
        all_reported: True if the task reports all of `metrics`. If False, call `check_best_metric` when the reported
            metrics are known.

    Raises:
        ValueError: no action is requested, `metric_for_best_model` is unknown, or the output folder is not empty.
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
        training_args.dataloader_pin_memory = False  # without an accelerator, pinning only logs a warning


def check_best_metric(training_args: TrainingArguments, known: Iterable[str]) -> None:
    """Check `metric_for_best_model`. With early stopping or a search, it defaults to the task's main score.

    Args:
        training_args: training arguments. `metric_for_best_model` and `greater_is_better` are set here.
        known: names of the reported metrics. The first name other than "loss" is the main score.

    Raises:
        ValueError: `metric_for_best_model` is not a reported metric.
    """
    names = list(known)
    compares = training_args.early_stopping_patience is not None or training_args.search_space is not None
    if compares and training_args.metric_for_best_model is None:
        main = next((name for name in names if name != "loss"), "loss")
        training_args.metric_for_best_model, training_args.greater_is_better = main, main != "loss"
        logger.info("The best model is the one with the best %s.", main)
    metric = training_args.metric_for_best_model
    if metric is not None and metric not in names:
        raise ValueError(f"--metric_for_best_model must be one of {', '.join(names)}; got {metric!r}.")


def prepare_run(
    task_class: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Run:
    """Load the data and model of a run, check all arguments, and build the trainer.

    Args:
        task_class: one of `hf_localattn.tasks.TASKS`.
        model_args: the model.
        data_args: the data, an instance of `task_class.DataArguments`.
        training_args: the training arguments, an instance of `training_arguments_of(task_class)`.

    Returns:
        The run, ready for `execute()`.

    Raises:
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded.
        ImportError: an argument needs an extra that is not installed.
    """
    arguments = arguments_of(model_args, data_args, training_args)
    is_longer = bool(training_args.resume_from_checkpoint)
    task = choose_task(task_class, data_args)(data_args)
    check_streaming(type(task), data_args, training_args)
    task.check_training(training_args)
    validate_arguments(training_args, task.metrics, all_reported=not task.metrics_depend_on_labels)
    if training_args.do_train:
        resumed = training_args.resume_from_checkpoint
        origin = training_args.output_dir if resumed is None else Path(resumed).parent
        check_same_run(origin, arguments, is_longer=is_longer)
    checkpoint = _checkpoint(task, model_args, training_args)
    task.check_checkpoint(checkpoint)
    hub = {"cache_dir": model_args.cache_dir, "token": model_args.token}
    data = task.load(needed_parts(training_args), seed=training_args.seed, **hub)
    if training_args.do_train:
        digests = {f"{split} data": digest_of(rows) for split, rows in data.items()}  # of a stream its first rows
        check_same_run(origin, digests)
        arguments |= digests
    fields = task.config_fields(data, checkpoint)
    if task.metrics_depend_on_labels:
        check_best_metric(training_args, task.reported_metrics)
    data = task.number_labels(data)
    model, tokenizer = load_model_and_tokenizer(task.model_task, model_args, training_args, **fields)
    task.adapt(model, tokenizer, data)
    kept = {split: rows for split, rows in data.items() if split != "train" or task.training_rows is None}
    features = task.finish_features(kept, make_features(task, kept, tokenizer, training_args))
    data |= kept  # a task may have left out rows
    train_dataset: Any = features.get("train")
    if task.training_rows is not None:
        seed = training_args.seed if training_args.data_seed is None else training_args.data_seed
        train_dataset = StreamedFeatures(task.training_rows, task, tokenizer, seed)
    kwargs: dict[str, Any] = {
        "model": model,
        "args": training_args,
        "train_dataset": train_dataset,
        "eval_dataset": features.get("validation"),
        "processing_class": tokenizer,
        "data_collator": task.collator(tokenizer, model, 8 if training_args.fp16 or training_args.bf16 else None),
    }
    trainer: LocalAttentionTrainer
    if task.generates:
        training_args.generation_max_length = training_args.generation_max_length or task.longest_output
        trainer = GenerationTrainer(**kwargs)
    elif task.logits_scored is not None:
        trainer = ExampleTrainer(task=task, eval_examples=task.examples.get("validation"), **kwargs)
    else:
        trainer = LocalAttentionTrainer(
            compute_metrics=task.compute_metrics, preprocess_logits_for_metrics=task.preprocess_logits, **kwargs
        )
    return Run(task, trainer, data, features, model_args, fields, arguments)


def training_arguments_of(task: type[Task]) -> type[TrainingArguments]:
    """Return the class of a task's training arguments."""
    return GenerationTrainingArguments if task.generates else TrainingArguments


def needed_parts(training_args: TrainingArguments) -> dict[str, str]:
    """Return the parts of the data that a run needs, each with the option that requires it."""
    evaluated = "--do_eval"
    if training_args.search_space is not None:
        evaluated = "--search_space"
    elif training_args.early_stopping_patience is not None:
        evaluated = "--early_stopping_patience"
    parts = {
        "train": (training_args.do_train, "--do_train"),
        "validation": (training_args.do_eval, evaluated),
        "test": (training_args.do_predict, "--do_predict"),
    }
    return {part: option for part, (needed, option) in parts.items() if needed}


def make_features(
    task: Task, data: Splits, tokenizer: PreTrainedTokenizerBase, training_args: TrainingArguments
) -> Splits:
    """Convert the rows of each split into model inputs."""
    features: Splits = {}
    for split, rows in data.items():
        function, arguments = task.encoder(split)
        with training_args.main_process_first(desc=f"{split} features"):
            features[split] = rows.map(
                function,
                fn_kwargs={"tokenizer": tokenizer, **arguments},
                batched=True,
                num_proc=task.args.preprocessing_num_workers,
                remove_columns=rows.column_names,
                load_from_cache_file=not task.args.overwrite_cache,
                desc=f"Preparing {split} features",
            )
        warn_of_no_query(split, features[split])
    return features


def _checkpoint(task: Task, model_args: ModelArguments, training_args: TrainingArguments) -> Checkpoint:
    return Checkpoint(
        name=model_args.source,
        config=None if task.head is None else head_config(model_args, task.head),
        trained=training_args.do_train,
        may_be_fresh=model_args.ignore_mismatched_sizes,
    )


class Run:
    """A model with its trainer and data.

    Args:
        task: the task.
        trainer: the trainer, with the model.
        data: rows of each split.
        features: model inputs of each split. Names of additional evaluation and test splits have a suffix
            ("validation_mismatched"). Their metrics have the same suffix ("eval_mismatched_accuracy").
        model_args: the model that training starts from.
        config_fields: fields of the configuration that depend on the data. They are needed to build the model again.
        arguments: arguments and digests of the data, by which a repeated command is compared with this run.
    """

    def __init__(
        self,
        task: Task,
        trainer: LocalAttentionTrainer,
        data: Splits,
        features: Splits,
        model_args: ModelArguments,
        config_fields: Mapping[str, Any] = MappingProxyType({}),
        arguments: Mapping[str, Any] = MappingProxyType({}),
    ):
        self.task, self.trainer, self.data, self.features = task, trainer, data, features
        self.model_args, self.config_fields = model_args, config_fields
        self.arguments = arguments
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
            found = trainer.train(resume_from_checkpoint=checkpoint).metrics
        trainer.save_model(_internal_call=True)  # `_internal_call` prevents an upload before the model has scores
        metrics = {**found, "train_samples": self._num_rows("train")}
        self._report("train", metrics)
        trainer.save_state()  # last, because this file marks training as complete
        return metrics

    def evaluate(self) -> dict[str, float]:
        """Evaluate with `do_eval`. The names of metrics begin with `eval_`."""
        metrics: dict[str, float] = {}
        for split in self._splits("validation"):
            prefix = split.replace("validation", "eval")
            own = {**self.evaluate_split(split, prefix), f"{prefix}_samples": len(self.data[split])}
            self._keep_example_scores(split, prefix)
            self._report(prefix, own)
            self.scores += scores_of_split(own, prefix)
            metrics |= own
        return metrics

    def predict(self) -> dict[str, float]:
        """Write predictions for the test rows with `do_predict`.

        Returns:
            Metrics of labeled rows. Their names begin with `predict_`.
        """
        metrics: dict[str, float] = {}
        for split in self._splits("test"):
            prefix = split.replace("test", "predict")
            output = self.predict_split(split, prefix)
            self._keep_example_scores(split, prefix)
            if self.trainer.args.should_save:
                folder = Path(self.trainer.args.output_dir)
                self.task.write_predictions(folder, split, prefix, self.data[split], output)
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
        """Write the training record and the model card, and upload the output folder if `push_to_hub` is set.

        Without training, only the upload takes place, because the files in the folder are from another run.
        """
        args = self.trainer.args
        if args.do_train and args.should_save:
            rows = {split: self._num_rows(split) for split in self.data}
            record = record_of(self.task.model_task, self.model_args, self.task.args, args, rows, self.scores)
            record.save(args.output_dir)
        if args.do_train and not args.push_to_hub:  # an upload writes the card, too
            self.trainer.create_model_card()
        if args.do_train and args.should_save:
            mark_finished(args.output_dir)
        if args.push_to_hub:
            with exit_on_user_error():
                self.trainer.push_to_hub()

    def evaluate_split(self, split: str, prefix: str) -> dict[str, Any]:
        """Return the metrics of one split, and text notes on them."""
        metrics = self.trainer.evaluate(self.features[split], metric_key_prefix=prefix, **self._examples(split))
        return metrics | self._notes(prefix)

    def predict_split(self, split: str, prefix: str) -> PredictionOutput:
        """Return predictions for one split, with metrics if it has labels."""
        trainer = self.trainer
        is_labeled = self.task.is_labeled(self.data[split])
        scores = trainer.compute_metrics
        try:
            if not is_labeled:
                trainer.compute_metrics = None
            output = trainer.predict(self.features[split], metric_key_prefix=prefix, **self._examples(split))
        finally:
            trainer.compute_metrics = scores
        metrics = dict(output.metrics)
        if not is_labeled:
            metrics.pop(f"{prefix}_loss", None)
        return output._replace(metrics=metrics | self._notes(prefix))

    def _keep_example_scores(self, split: str, prefix: str) -> None:
        """Write the scores of the examples of the last evaluation, if they are labeled."""
        rows, output = self.data[split], self.trainer.last_output
        self.trainer.last_output = None  # frees memory
        if not self.trainer.args.should_save or output is None or not self.task.is_labeled(rows):
            return
        scores = self.task.example_scores(rows, output.predictions, output.label_ids)
        if scores:
            write_example_scores(Path(self.trainer.args.output_dir), prefix, rows, scores)

    def _num_rows(self, split: str) -> int:
        """Return the number of rows of a split, or of features that are trained on if the rows are streamed."""
        args = self.trainer.args
        if split != "train" or self.task.training_rows is None:
            return len(self.data[split])
        return args.max_steps * args.train_batch_size * args.gradient_accumulation_steps * args.world_size

    def _examples(self, split: str) -> dict[str, Any]:
        return {} if self.task.logits_scored is None else {"examples": self.task.examples[split]}

    def _notes(self, prefix: str) -> dict[str, str]:
        return {f"{prefix}_{name}": note for name, note in self.trainer.notes.items()}

    def _splits(self, part: str) -> list[str]:
        return [split for split in self.features if split.startswith(part)]

    def _report(self, stage: str, metrics: dict[str, float]) -> None:
        self.trainer.log_metrics(stage, metrics)
        self.trainer.save_metrics(stage, metrics)  # also written to all_results.json
