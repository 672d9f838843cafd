"""Fine-tuning and evaluating text classification: GLUE, and other texts with classes, sets of classes or scores."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from transformers import DataCollatorWithPadding, EvalPrediction
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.features.texts import decide, number_labels, spoken_predictions, tokenize_texts
from hf_localattn.data.readers.labels import CLASS, SCORE, SEVERAL, Labels
from hf_localattn.data.rows.texts import GLUE_TASKS, Layout, load_texts, normalize_texts
from hf_localattn.data.schema import row_numbers
from hf_localattn.files import write_whole
from hf_localattn.metrics.classification_scores import GLUE_METRICS, LOWER_IS_BETTER, SCORES
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments, option
from hf_localattn.training.folds import warn_of_lone_classes
from hf_localattn.training.models import batch_padding, check_room, input_length, load_model_and_tokenizer, report_cut
from hf_localattn.training.run import Run, begin, check_best_metric
from hf_localattn.training.splits import SPLITS, Data, load_splits, make_features
from hf_localattn.training.text_labels import choose_labels, labels_in_config
from hf_localattn.training.trainer import LocalAttentionTrainer

logger = logging.getLogger(__name__)

GLUE = "nyu-mll/glue"
MNLI_SPLITS = {
    "train": ("train",),
    "validation": ("validation_matched", "validation_mismatched"),
    "test": ("test_matched", "test_mismatched"),
}
METRICS = {
    CLASS: ("accuracy", "macro_f1"),
    SEVERAL: ("micro_f1", "macro_f1", "subset_accuracy"),
    SCORE: ("pearson", "spearmanr", "mse", "rmse"),
}
"""What is always reported. Two classes have `f1` as well, and classes may have `matthews_correlation`."""
COMBINED = "combined_score"
COMBINED_METRICS = {task: metrics for task, metrics in GLUE_METRICS.items() if len(metrics) > 1}
"""GLUE takes the mean of a task's metrics, if it has several."""


@dataclass
class TextClassificationDataArguments(DataArguments):
    """Which texts the model is trained and evaluated on, and what is predicted of them.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`.
    """

    task_name: str | None = option(
        None, f"A task of GLUE, from the Hub or from files with its columns: {', '.join(GLUE_TASKS)}."
    )
    text_column_names: str | None = option(
        None, "The column of the texts, or two with a comma between them; by default found by its usual names."
    )
    label_column_name: str | None = option(None, "The column of the labels; by default 'label'.")
    metric_name: str | None = option(
        None, f"The metric that tells the best model, reported beside the usual ones: {', '.join(SCORES)}."
    )
    do_regression: bool | None = option(
        None, "true: labels are scores; false: they are classes; by default scores if they have a decimal point."
    )

    skip_unlabelled: bool = option(
        False, "Leave out the rows to train and evaluate on that have no label, instead of refusing their file."
    )

    def __post_init__(self) -> None:
        if self.task_name is not None:
            self.task_name = self.task_name.lower()
            if self.task_name not in GLUE_TASKS:
                raise ValueError(
                    f"--task_name must be one of {', '.join(GLUE_TASKS)}; got {self.task_name!r}."
                    " Other data need none: give --dataset_name or files."
                )
            if self.do_regression is not None:
                raise ValueError("--do_regression does not go with --task_name: GLUE's labels are known.")
            if self.dataset_name is None and not (self.train_file or self.validation_file or self.test_file):
                self.dataset_name, self.dataset_config_name = GLUE, self.task_name
        super().__post_init__()
        if len(self.layout.texts) > 2:
            raise ValueError(f"--text_column_names takes one column, or two; got {self.text_column_names!r}.")
        if self.metric_name is not None and self.metric_name not in SCORES:
            raise ValueError(f"--metric_name must be one of {', '.join(SCORES)}; got {self.metric_name!r}.")

    @property
    def layout(self) -> Layout:
        """Where the texts and labels are, as far as that is said."""
        layout = GLUE_TASKS[self.task_name] if self.task_name is not None else Layout()
        if self.do_regression is not None:
            layout = replace(layout, problem_type=SCORE if self.do_regression else CLASS)
        if self.text_column_names is not None:
            layout = replace(layout, texts=tuple(name.strip() for name in self.text_column_names.split(",")))
        return replace(layout, label=self.label_column_name or layout.label, skip_unlabelled=self.skip_unlabelled)


class TextClassificationRun(Run):
    """Scores classes, sets of classes or numbers, and writes them as tables of index and prediction."""

    task = "text-classification"
    data_args: TextClassificationDataArguments
    labels: Labels

    def write_predictions(self, split: str, prefix: str, output: PredictionOutput) -> None:
        """Write predict_results.txt, under GLUE's names predict_results_cola.txt … predict_results_mnli-mm.txt.

        A class is written by its name, a set of them as a list in json, a score with three decimals.
        """
        name = "_".join(["predict_results", *filter(None, [self.data_args.task_name])])
        name += {"test": "", "test_mismatched": "-mm"}.get(split, split.removeprefix("test"))
        texts = spoken_predictions(output.predictions, self.labels)
        numbers = row_numbers(self.data[split])
        lines = [f"{index}\t{text}\n" for index, text in zip(numbers, texts, strict=True)]
        write_whole(Path(self.trainer.args.output_dir, f"{name}.txt"), "".join(["index\tprediction\n", *lines]))


def prepare(
    model_args: ModelArguments, data_args: TextClassificationDataArguments, training_args: TrainingArguments
) -> TextClassificationRun:
    """Return a run that is ready to go; everything that can be checked has been.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    if data_args.metric_name is not None and training_args.metric_for_best_model in (None, "loss"):
        training_args.metric_for_best_model = data_args.metric_name
    # Which of them there are is known when the labels are.
    possible = {name: name not in LOWER_IS_BETTER for name in ("loss", *SCORES, COMBINED)}
    begin(training_args, possible, all_reported=False)
    layout = data_args.layout
    data = load_splits(
        model_args,
        data_args,
        training_args,
        read=lambda path, labelled: load_texts(path, layout, require_labels=labelled, skip_empty=data_args.skip_empty),
        check=lambda rows, name, labelled: normalize_texts(
            rows, layout, name, require_labels=labelled, skip_empty=data_args.skip_empty
        ),
        hub_splits=MNLI_SPLITS if data_args.task_name == "mnli" else SPLITS,
        class_column="label",
    )
    labels = choose_labels(data, model_args, fixed=layout.names is not None)
    check_same_texts(data)
    warn_of_lone_classes(data, "label", data_args.fold)
    metrics = metric_names(labels, data_args)
    what = str(labels)
    if "f1" in metrics:
        what = f"{what.removesuffix(')')}; F1 is of {labels.names[1]!r})"
    logger.info("Predicting %s of %s.", what, "pairs of texts" if is_pairs(data) else "texts")
    combined = COMBINED_METRICS.get(data_args.task_name or "", ())
    check_best_metric(training_args, ("loss", *([COMBINED] if combined else []), *metrics))
    data = {split: number_labels(rows, labels) for split, rows in data.items()}
    fields = labels_in_config(labels)
    model, tokenizer = load_model_and_tokenizer(TextClassificationRun.task, model_args, training_args, **fields)
    max_length = input_length(model, tokenizer, data_args)
    check_room(tokenizer, max_length, pair=is_pairs(data))
    features = make_features(
        data, data_args, training_args, tokenize_texts, tokenizer=tokenizer, max_length=max_length
    )
    report_cut(features, max_length)
    trainer = LocalAttentionTrainer(
        model=model,
        args=training_args,
        train_dataset=features.get("train"),
        eval_dataset=features.get("validation"),
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(
            tokenizer,
            **batch_padding(data_args, training_args, max_length),
        ),
        compute_metrics=score_function(labels, metrics, combined),
    )
    run = TextClassificationRun(trainer, data, features, model_args, data_args, fields)
    run.labels = labels
    return run


def is_pairs(data: Data) -> bool:
    """Whether rows have two texts."""
    return any("text_pair" in rows.column_names for rows in data.values())


def check_same_texts(data: Data) -> None:
    """Raise `ValueError` if one split has texts and another one pairs."""
    pairs = {split: "text_pair" in rows.column_names for split, rows in data.items()}
    if len(set(pairs.values())) > 1:
        kinds = ", ".join(
            f"{split} has {'pairs of texts' if pair else 'single texts'}" for split, pair in pairs.items()
        )
        raise ValueError(f"The files do not go together: {kinds}; name the columns by --text_column_names.")


def metric_names(labels: Labels, data_args: TextClassificationDataArguments) -> tuple[str, ...]:
    """Return the metrics to report: those of GLUE's task or of the kind of labels, and `--metric_name`.

    Raises:
        ValueError: that one is not for these labels.
    """
    usual = METRICS[labels.problem_type]
    possible = usual
    if labels.problem_type == CLASS:
        usual += ("f1",) if labels.num_labels == 2 else ()
        possible = (*usual, "matthews_correlation")
    if data_args.task_name is not None:
        usual = GLUE_METRICS[data_args.task_name]
    own = data_args.metric_name
    if own is not None and own not in possible:
        what = labels.problem_type.replace("_", " ")
        classes = f" of {labels.num_labels} classes" if labels.problem_type == CLASS else ""
        raise ValueError(f"--metric_name {own} is not for {what}{classes}; there are {', '.join(possible)}.")
    return usual if own is None or own in usual else (*usual, own)


def score_function(
    labels: Labels, metrics: tuple[str, ...], combined: tuple[str, ...]
) -> Callable[[EvalPrediction], dict[str, float]]:
    """Return what computes `metrics` from a trainer's logits and labels, and the mean of those to be combined."""

    def compute(output: EvalPrediction) -> dict[str, float]:
        predictions = decide(output.predictions, labels.problem_type)
        scores = {name: SCORES[name](predictions, output.label_ids) for name in metrics}
        if combined:
            scores[COMBINED] = float(np.mean([scores[name] for name in combined]))
        return scores

    return compute
