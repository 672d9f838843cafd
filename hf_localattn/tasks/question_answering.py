"""Extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence
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
from hf_localattn.settings.data import QuestionAnsweringDataArguments
from hf_localattn.tasks.task import Encoder, Scored, Splits, Task

NO_ANSWER_LOGIT = 1e6
"""Logit of "no answer" of the plain rival: above any threshold that a reader is given."""


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
        names = ["f1", "exact_match"]
        if args.version_2_with_negative:
            names = ["f1", "exact", "HasAns_f1", "HasAns_exact", "best_f1", "best_exact"]
        self.metrics = dict.fromkeys(names, True)
        self.no_answer_threshold = args.null_score_diff_threshold if args.version_2_with_negative else None

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_squad(data, require_answers=labeled, skip_empty=self.args.skip_empty)

    def prepare_rows(self, data: Splits) -> Splits:
        if self.args.version_2_with_negative:
            return data
        for split, questions in data.items():
            is_labeled = split != "test" or self.args.held_out is not None
            unanswerable = count_unanswerable(questions)
            if is_labeled and unanswerable:
                raise ValueError(
                    f"{unanswerable} of {len(questions)} {split} questions have no answer: pass"
                    " --version_2_with_negative (SQuAD 2.0), or remove them."
                )
        return data

    def encoder(self, split: str) -> Encoder:
        function = train_features if split == "train" else evaluation_features
        return function, {"max_length": self.max_length, "doc_stride": self.args.doc_stride}

    def metric_examples(self) -> tuple[Any, Any]:
        prediction: dict[str, Any] = {"id": "0", "prediction_text": "text"}
        if self.no_answer_threshold is not None:
            prediction["no_answer_probability"] = 0.0
        return [prediction], [{"id": "0", "answers": {"text": ["text"], "answer_start": [0]}}]

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        # Rows and features are not one to one: long passages are split into windows.
        if not len(features):
            raise ValueError(
                f"The tokenizer drops the answers of all {len(rows)} {split} questions: take another one."
            )
        return features

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        length = self.max_length if self.args.pad_to_max_length else None
        return QuestionAnsweringCollator(tokenizer, max_length=length, pad_to_multiple_of=multiple)

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(outputs[:2])  # logits of start and end

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the answers by the id of their question, and SQuAD's scores in percent."""
        rows = self.rows[split]
        starts, ends = outputs
        answers = extract_answers(
            dict(zip(rows["id"], rows["context"], strict=True)),
            self.features[split],
            starts,
            ends,
            n_best_size=self.args.n_best_size,
            max_answer_length=self.args.max_answer_length,
            no_answer_threshold=self.no_answer_threshold,
        )
        references = rows.select_columns(["id", "answers"]).to_list()
        if not any(row["answers"]["text"] for row in references):
            return Scored(answers, {})
        chosen = [{"id": name, "prediction_text": answer.best.text} for name, answer in answers.items()]
        if self.no_answer_threshold is None:
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
            predictions=spans, references=references, no_answer_threshold=self.no_answer_threshold
        )
        certain = [{**prediction, "no_answer_probability": 0.0} for prediction in chosen]
        return Scored(answers, scores, pair=(certain, references))

    def constant_outputs(self, split: str) -> Any:
        """Return logits with which no question has an answer; None where every question has one."""
        if self.no_answer_threshold is None:
            return None
        rows = []
        for feature in self.features[split].select_columns(["input_ids", "no_answer_position"]):
            logits = np.zeros(len(feature["input_ids"]))
            logits[feature["no_answer_position"]] = NO_ANSWER_LOGIT
            rows.append(logits)
        return rows, rows

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return `eval_predictions.json` and the other files that transformers' question answering script writes."""
        return format_answers(predictions, prefix)
