"""Fine-tuning and evaluating extractive question answering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import datasets
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.features.answers import AnswerSettings
from hf_localattn.data.features.windows import (
    QuestionAnsweringCollator,
    check_window_settings,
    evaluation_features,
    train_features,
)
from hf_localattn.data.rows.questions import count_unanswerable, load_squad, normalize_squad
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments, option
from hf_localattn.training.models import input_length, load_model_and_tokenizer
from hf_localattn.training.run import Run, begin
from hf_localattn.training.splits import load_splits, make_features
from hf_localattn.training.trainer import QuestionAnsweringTrainer

BEST_METRICS = {
    False: ("f1", "exact_match"),
    True: ("f1", "exact", "HasAns_f1", "HasAns_exact", "best_f1", "best_exact"),
}


@dataclass
class QuestionAnsweringDataArguments(DataArguments):
    """Which questions the model is trained and evaluated on, and how they become inputs and answers.

    Files are `.json` (SQuAD's layout or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns.
    """

    max_seq_length: int = option(384, "Tokens of a window: question, passage and special tokens.")
    pad_to_max_length: bool = option(
        True, "Pad every window to max_seq_length; if false to the longest of its batch, which is faster off a TPU."
    )
    version_2_with_negative: bool = option(False, "Some questions have no answer (SQuAD 2.0).")
    null_score_diff_threshold: float = option(
        0.0, "Answer nothing if 'no answer' scores higher than the best answer by more than this (SQuAD 2.0)."
    )
    doc_stride: int = option(128, "Tokens by which the windows of a long passage overlap.")
    n_best_size: int = option(20, "How many starts and ends are combined, and answers kept, per question.")
    max_answer_length: int = option(30, "Tokens of the longest answer.")


class QuestionAnsweringRun(Run):
    """Scores and writes the answers to the questions, which the trainer makes from the windows."""

    task = "question-answering"
    trainer: QuestionAnsweringTrainer

    def evaluate_split(self, split: str, prefix: str) -> dict[str, float]:
        return self.trainer.evaluate(self.features[split], eval_examples=self.data[split], metric_key_prefix=prefix)

    def predict_split(self, split: str, prefix: str) -> PredictionOutput:
        return self.trainer.predict(self.features[split], self.data[split], metric_key_prefix=prefix)

    def write_predictions(self, split: str, prefix: str, output: PredictionOutput) -> None:
        """Nothing is left to do: the trainer has written the answers."""


def prepare(
    model_args: ModelArguments, data_args: QuestionAnsweringDataArguments, training_args: TrainingArguments
) -> QuestionAnsweringRun:
    """Return a run that is ready to go; everything that can be checked has been.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    # Windows are evaluated without their loss: the best model is told by its answers.
    begin(training_args, dict.fromkeys(BEST_METRICS[data_args.version_2_with_negative], True))
    data = load_splits(
        model_args,
        data_args,
        training_args,
        read=lambda path, labelled: load_squad(path, require_answers=labelled, skip_empty=data_args.skip_empty),
        check=lambda rows, name, labelled: normalize_squad(
            rows, name, require_answers=labelled, skip_empty=data_args.skip_empty
        ),
        group_column="context",  # a passage to be tested on is not to be known from training
    )
    if not data_args.version_2_with_negative:
        check_all_answered(data, answered_tests=data_args.fold is not None)
    model, tokenizer = load_model_and_tokenizer("question-answering", model_args, training_args)
    max_length = input_length(model, tokenizer, data_args)
    check_window_settings(tokenizer, max_length, data_args.doc_stride)
    windows: dict[str, Any] = {"max_length": max_length, "doc_stride": data_args.doc_stride}
    features = make_features(
        data, data_args, training_args, evaluation_features, train_features, tokenizer=tokenizer, **windows
    )
    trainer = QuestionAnsweringTrainer(
        model=model,
        args=training_args,
        train_dataset=features.get("train"),
        eval_dataset=features.get("validation"),
        eval_examples=data.get("validation"),
        processing_class=tokenizer,
        data_collator=QuestionAnsweringCollator(
            tokenizer,
            max_length=max_length if data_args.pad_to_max_length else None,
            pad_to_multiple_of=8 if training_args.fp16 or training_args.bf16 else None,
        ),
        answer_settings=AnswerSettings(
            n_best_size=data_args.n_best_size,
            max_answer_length=data_args.max_answer_length,
            handle_no_answer=data_args.version_2_with_negative,
            null_score_diff_threshold=data_args.null_score_diff_threshold,
        ),
    )
    return QuestionAnsweringRun(trainer, data, features, model_args, data_args)


def check_all_answered(data: dict[str, datasets.Dataset], *, answered_tests: bool = False) -> None:
    """Raise `ValueError` if a question to train or evaluate on has no answer, or one to test on that should."""
    for split, questions in data.items():
        unanswerable = 0 if split == "test" and not answered_tests else count_unanswerable(questions)
        if unanswerable:
            raise ValueError(
                f"{unanswerable} of {len(questions)} {split} questions have no answer: pass"
                " --version_2_with_negative (SQuAD 2.0), or remove them."
            )
