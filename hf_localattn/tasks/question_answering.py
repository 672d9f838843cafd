"""Extractive question answering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.answers import AnswerSettings, QuestionAnswers, extract_answers, write_answers
from hf_localattn.data.questions import count_unanswerable, load_squad
from hf_localattn.data.rows import Data
from hf_localattn.data.windows import (
    QuestionAnsweringCollator,
    check_window_settings,
    evaluation_features,
    train_features,
)
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.squad_scores import is_blank, question_scores
from hf_localattn.tasks.arguments import DataArguments, option
from hf_localattn.tasks.lengths import input_length
from hf_localattn.tasks.splits import Splits
from hf_localattn.tasks.task import Task

BEST_METRICS = {
    False: ("f1", "exact_match"),
    True: ("f1", "exact", "HasAns_f1", "HasAns_exact", "best_f1", "best_exact"),
}


@dataclass
class QuestionAnsweringDataArguments(DataArguments):
    """Data arguments for extractive question answering.

    Files are `.json` (SQuAD's format, or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns.
    """

    max_seq_length: int = option(384, "Number of tokens of a window: question, passage and special tokens.")
    pad_to_max_length: bool = option(
        True, "Pad all windows to max_seq_length; if false, to the longest in the batch (faster except on TPUs)."
    )
    version_2_with_negative: bool = option(False, "Some questions have no answer (SQuAD 2.0).")
    null_score_diff_threshold: float = option(
        0.0, "Predict 'no answer' if its score exceeds that of the best answer by more than this (SQuAD 2.0)."
    )
    doc_stride: int = option(128, "Number of tokens by which the windows of a long passage overlap.")
    n_best_size: int = option(20, "Number of start and end positions combined, and of answers kept, per question.")
    max_answer_length: int = option(30, "Maximum number of tokens of an answer.")


class QuestionAnswering(Task):
    """Extraction of answers from passages, as in SQuAD 1.1 and 2.0.

    Features are windows: a long passage is split into several windows. Scores are computed per question.
    """

    name = model_task = "question-answering"
    DataArguments = QuestionAnsweringDataArguments
    logits_scored = 2  # start and end
    streams = True
    group_column = "context"  # a passage must not be in both training and test data
    args: QuestionAnsweringDataArguments

    def __init__(self, args: QuestionAnsweringDataArguments):
        super().__init__(args)
        # Evaluation has no loss, because it would be computed over windows, not over questions.
        self.metrics = dict.fromkeys(BEST_METRICS[args.version_2_with_negative], True)
        self.settings = AnswerSettings(
            n_best_size=args.n_best_size,
            max_answer_length=args.max_answer_length,
            handle_no_answer=args.version_2_with_negative,
            null_score_diff_threshold=args.null_score_diff_threshold,
        )

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_squad(data, require_answers=labeled, skip_empty=self.args.skip_empty)

    def load(self, parts: Mapping[str, str], **hub: Any) -> Splits:
        data = super().load(parts, **hub)
        self.examples = dict(data)
        return data

    def check_rows(self, data: Splits) -> None:
        if not self.args.version_2_with_negative:
            check_all_answered(data, answered_tests=self.args.held_out is not None)

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Splits) -> None:
        self.max_length = input_length(model, tokenizer, self.args)
        check_window_settings(tokenizer, self.max_length, self.args.doc_stride)

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        function = train_features if split == "train" else evaluation_features
        return function, {"max_length": self.max_length, "doc_stride": self.args.doc_stride}

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        length = self.max_length if self.args.pad_to_max_length else None
        return QuestionAnsweringCollator(tokenizer, max_length=length, pad_to_multiple_of=multiple)

    def score_examples(
        self, logits: tuple[np.ndarray, ...], examples: datasets.Dataset, features: datasets.Dataset
    ) -> tuple[dict[str, QuestionAnswers], dict[str, float]]:
        starts, ends = logits
        contexts = dict(zip(examples["id"], examples["context"], strict=True))
        answers = extract_answers(contexts, features, starts, ends, self.settings)
        return answers, score_answers(answers, examples, self.settings)

    def example_scores(self, rows: datasets.Dataset, predictions: Any, labels: Any) -> dict[str, Sequence[float]]:
        names = ("exact" if self.settings.handle_no_answer else "exact_match", "f1")
        golds = dict(zip(rows["id"], rows["answers"], strict=True))
        if not any(gold["text"] for gold in golds.values()):
            return {}
        scores = []
        for identifier, gold in golds.items():
            text = predictions[identifier].best.text
            exact, f1 = question_scores(text, gold["text"])
            blank = not self.settings.handle_no_answer and is_blank(text)  # as in the script of SQuAD 1.1
            scores.append((100 * exact, 0.0 if blank else 100 * f1))
        return dict(zip(names, zip(*scores, strict=True), strict=True))

    def write_scored(self, folder: Path, prefix: str, predictions: dict[str, QuestionAnswers]) -> None:
        """Write `eval_predictions.json` and the other files that transformers' question answering script writes."""
        write_answers(predictions, folder, prefix)

    def write_predictions(
        self, folder: Path, split: str, prefix: str, rows: datasets.Dataset, output: PredictionOutput
    ) -> None:
        """Do nothing: `write_scored` writes the answers."""


def score_answers(
    answers: dict[str, QuestionAnswers], examples: datasets.Dataset, settings: AnswerSettings
) -> dict[str, float]:
    """Return SQuAD's metrics for the best answers; empty if no question has a gold answer.

    If "no answer" is allowed, `best_f1_thresh` and `best_exact_thresh` are values for `null_score_diff_threshold`.
    """
    golds = dict(zip(examples["id"], examples["answers"], strict=True))
    if not any(gold["text"] for gold in golds.values()):
        return {}
    references = [{"id": identifier, "answers": gold} for identifier, gold in golds.items()]
    if not settings.handle_no_answer:
        predictions = [{"id": i, "prediction_text": answer.best.text} for i, answer in answers.items()]
        return load_metric("squad").compute(predictions=predictions, references=references)
    # Pass the best span, not the chosen answer: the metric applies the threshold, and also tries other thresholds.
    return load_metric("squad_v2").compute(
        predictions=[
            {
                "id": identifier,
                "prediction_text": answer.best_span.text if answer.best_span else "",
                "no_answer_probability": np.float32(answer.null_odds),
            }
            for identifier, answer in answers.items()
        ],
        references=references,
        no_answer_threshold=settings.null_score_diff_threshold,
    )


def check_all_answered(data: dict[str, datasets.Dataset], *, answered_tests: bool = False) -> None:
    """Raise `ValueError` if a question has no answer. Test questions are checked only with `answered_tests`."""
    for split, questions in data.items():
        unanswerable = 0 if split == "test" and not answered_tests else count_unanswerable(questions)
        if unanswerable:
            raise ValueError(
                f"{unanswerable} of {len(questions)} {split} questions have no answer: pass"
                " --version_2_with_negative (SQuAD 2.0), or remove them."
            )
