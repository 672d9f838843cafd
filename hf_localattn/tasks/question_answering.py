"""Extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.answers import extract_answers, format_answers
from hf_localattn.data.questions import (
    QuestionAnsweringCollator,
    count_unanswerable,
    evaluation_features,
    load_squad,
    train_features,
)
from hf_localattn.data.rows import Data
from hf_localattn.metrics import load_metric
from hf_localattn.tasks.task import DataArguments, Encoder, Scored, Splits, Task
from hf_localattn.training.arguments import documented


@documented
@dataclass
class QuestionAnsweringDataArguments(DataArguments):
    """Data arguments for extractive question answering.

    Files are `.json` (SQuAD's format, or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns.

    Args:
        max_seq_length: Number of tokens of a window: question, passage and special tokens.
        pad_to_max_length: Pad all windows to max_seq_length; if false, to the longest in the batch (faster except on
            TPUs).
        version_2_with_negative: Some questions have no answer (SQuAD 2.0).
        null_score_diff_threshold: Predict 'no answer' if its score exceeds that of the best answer by more than this
            (SQuAD 2.0).
        doc_stride: Number of tokens by which the windows of a long passage overlap.
        n_best_size: Number of start and end positions combined, and of answers kept, per question.
        max_answer_length: Maximum number of tokens of an answer.
    """

    max_seq_length: int = 384
    pad_to_max_length: bool = True
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0
    doc_stride: int = 128
    n_best_size: int = 20
    max_answer_length: int = 30


class QuestionAnswering(Task):
    """Extraction of answers from passages, as in SQuAD 1.1 and 2.0.

    Features are windows: a long passage is split into several windows. Scores are computed per question.
    """

    name = model_task = "question-answering"
    DataArguments = QuestionAnsweringDataArguments
    scores_tokens = True
    streams = True
    writes_validation = True
    has_classes = False  # labels are positions
    own_metrics = ("squad", "squad_v2")
    group_column = "context"  # a passage must not be in both training and test data
    args: QuestionAnsweringDataArguments

    def __init__(self, args: QuestionAnsweringDataArguments, training_args: Any):
        super().__init__(args, training_args)
        # Evaluation has no loss, because it would be computed over windows, not over questions.
        two = ("f1", "exact", "HasAns_f1", "HasAns_exact", "best_f1", "best_exact")
        self.metrics = dict.fromkeys(two if args.version_2_with_negative else ("f1", "exact_match"), True)
        self.null_threshold = args.null_score_diff_threshold if args.version_2_with_negative else None

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_squad(data, require_answers=labeled, skip_empty=self.args.skip_empty)

    def prepare_rows(self, data: Splits) -> Splits:
        for split, questions in data.items():
            is_labeled = split != "test" or self.args.held_out is not None
            if not self.args.version_2_with_negative and is_labeled and (number := count_unanswerable(questions)):
                raise ValueError(
                    f"{number} of {len(questions)} {split} questions have no answer: pass --version_2_with_negative"
                    " (SQuAD 2.0), or remove them."
                )
        return data

    def encoder(self, split: str) -> Encoder:
        function = train_features if split == "train" else evaluation_features
        return function, {"max_length": self.max_length, "doc_stride": self.args.doc_stride}

    def metric_examples(self) -> tuple[Any, Any]:
        prediction: dict[str, Any] = {"id": "0", "prediction_text": "text"}
        if self.null_threshold is not None:
            prediction["no_answer_probability"] = 0.0
        return [prediction], [{"id": "0", "answers": {"text": ["text"], "answer_start": [0]}}]

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        return features  # long passages are split into windows

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        length = self.max_length if self.args.pad_to_max_length else None
        return QuestionAnsweringCollator(tokenizer, max_length=length, pad_to_multiple_of=multiple)

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(outputs[:2])  # logits of start and end

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the answers by the id of their question, and SQuAD's scores in percent."""
        rows, (starts, ends) = self.rows[split], outputs
        contexts = dict(zip(rows["id"], rows["context"], strict=True))
        answers = extract_answers(
            contexts,
            self.features[split],
            starts,
            ends,
            n_best_size=self.args.n_best_size,
            max_answer_length=self.args.max_answer_length,
            null_threshold=self.null_threshold,
        )
        references = rows.select_columns(["id", "answers"]).to_list()
        if not any(row["answers"]["text"] for row in references):
            return Scored(answers, {})
        chosen = [{"id": name, "prediction_text": answer.best.text} for name, answer in answers.items()]
        if self.null_threshold is None:
            scores = load_metric("squad").compute(predictions=chosen, references=references)
            return Scored(answers, scores, pair=(chosen, references))
        # The best span, not the chosen answer: the metric applies the threshold, and also tries other thresholds.
        spans = [
            {
                "id": name,
                "prediction_text": answer.best_span.text if answer.best_span else "",
                "no_answer_probability": np.float32(answer.null_odds),
            }
            for name, answer in answers.items()
        ]
        scores = load_metric("squad_v2").compute(
            predictions=spans, references=references, no_answer_threshold=self.null_threshold
        )
        return Scored(answers, scores, pair=([{**one, "no_answer_probability": 0.0} for one in chosen], references))

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return `eval_predictions.json` and the other files that transformers' question answering script writes."""
        return format_answers(predictions, prefix)
