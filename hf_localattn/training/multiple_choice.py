"""Fine-tuning and evaluating multiple choice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import EvalPrediction
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.features.choices import MultipleChoiceCollator, choice_features
from hf_localattn.data.rows.choices import ChoiceColumns, load_choices, normalize_choices
from hf_localattn.data.schema import row_numbers
from hf_localattn.files import write_whole
from hf_localattn.metrics.classification_scores import SCORES
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments, option
from hf_localattn.training.models import batch_padding, check_room, input_length, load_model_and_tokenizer, report_cut
from hf_localattn.training.run import Run, begin
from hf_localattn.training.splits import load_splits, make_features
from hf_localattn.training.trainer import LocalAttentionTrainer

SWAG = ("allenai/swag", "regular")
"""SWAG's name and configuration on the Hub."""


@dataclass
class MultipleChoiceDataArguments(DataArguments):
    """Which choices the model is trained and evaluated on.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`. SWAG's columns are known, and taken from the Hub if neither files
    nor a data set are named. Other rows have a list of choices.
    """

    context_column_name: str = option("context", "The column with the text that the choices are about or go on.")
    question_column_name: str = option("question", "The column with the question, if there is one.")
    choices_column_name: str = option("choices", "The column with the lists of choices; SWAG's need none.")
    label_column_name: str = option("label", "The column with the number of the right choice from 0, or its letter.")

    def __post_init__(self) -> None:
        if self.dataset_name is None and not (self.train_file or self.validation_file or self.test_file):
            self.dataset_name, self.dataset_config_name = SWAG
        super().__post_init__()

    @property
    def columns(self) -> ChoiceColumns:
        """Where context, question, choices and label are."""
        return ChoiceColumns(
            self.context_column_name, self.question_column_name, self.choices_column_name, self.label_column_name
        )


class MultipleChoiceRun(Run):
    """Writes the choices as a table of index and number."""

    task = "multiple-choice"

    def write_predictions(self, split: str, prefix: str, output: PredictionOutput) -> None:
        """Write predict_results.txt: for each row its number in the data and that of the choice, both from 0."""
        choices = output.predictions.argmax(axis=-1)
        numbers = row_numbers(self.data[split])
        lines = [f"{index}\t{choice}\n" for index, choice in zip(numbers, choices, strict=True)]
        path = Path(self.trainer.args.output_dir, f"{prefix}_results.txt")
        write_whole(path, "".join(["index\tprediction\n", *lines]))


def prepare(
    model_args: ModelArguments, data_args: MultipleChoiceDataArguments, training_args: TrainingArguments
) -> MultipleChoiceRun:
    """Return a run that is ready to go; everything that can be checked has been.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    begin(training_args, {"loss": False, "accuracy": True})
    columns = data_args.columns
    data = load_splits(
        model_args,
        data_args,
        training_args,
        read=lambda path, labelled: load_choices(
            path, columns, require_labels=labelled, skip_empty=data_args.skip_empty
        ),
        check=lambda rows, name, labelled: normalize_choices(
            rows, name, columns, require_labels=labelled, skip_empty=data_args.skip_empty
        ),
    )
    model, tokenizer = load_model_and_tokenizer(MultipleChoiceRun.task, model_args, training_args)
    max_length = input_length(model, tokenizer, data_args)
    check_room(tokenizer, max_length, pair=True)
    features = make_features(
        data, data_args, training_args, choice_features, tokenizer=tokenizer, max_length=max_length
    )
    report_cut(features, max_length)
    trainer = LocalAttentionTrainer(
        model=model,
        args=training_args,
        train_dataset=features.get("train"),
        eval_dataset=features.get("validation"),
        processing_class=tokenizer,
        data_collator=MultipleChoiceCollator(
            tokenizer,
            **batch_padding(data_args, training_args, max_length),
        ),
        compute_metrics=score,
    )
    return MultipleChoiceRun(trainer, data, features, model_args, data_args)


def score(output: EvalPrediction) -> dict[str, float]:
    """Return the share of rows whose right choice has the greatest logit."""
    return {"accuracy": SCORES["accuracy"](np.argmax(output.predictions, axis=-1), output.label_ids)}
