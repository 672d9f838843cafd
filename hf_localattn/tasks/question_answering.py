"""Extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import numpy as np
import torch
from transformers import PreTrainedModel

from hf_localattn.data.answers import extract_answers, format_answers
from hf_localattn.data.questions import (
    QuestionAnsweringCollator,
    count_unanswerable,
    evaluation_features,
    load_squad,
    train_features,
)
from hf_localattn.data.rows import Data
from hf_localattn.metrics.squad_scores import squad, squad_v2
from hf_localattn.settings.data import QuestionAnsweringDataArguments
from hf_localattn.tasks.labels import Head
from hf_localattn.tasks.task import Encoder, Encoding, Rows, Scored, Split, Target, Task, prefix_of

NO_ANSWER_LOGIT = 1e6
"""Logit of "no answer" of the plain rival: above any threshold that a reader is given."""


class QuestionAnswering(Task):
    """Extraction of answers from passages, as in SQuAD 1.1 and 2.0.

    Features are windows: a long passage is split into several windows. Scores are computed per question.
    """

    name = model_task = "question-answering"
    input_columns = ("context", "question")
    DataArguments = QuestionAnsweringDataArguments
    scores_tokens = True
    streams = True
    writes_validation = True
    has_classes = False  # labels are positions
    own_metrics = ("squad", "squad_v2")
    group_column = "context"  # a passage must not be in both training and test data
    args: QuestionAnsweringDataArguments

    @property
    def no_answer_threshold(self) -> float | None:
        """Score by which "no answer" must be better than any answer; None if every question has an answer."""
        return self.args.null_score_diff_threshold if self.args.version_2_with_negative else None

    def read(
        self, data: Data, layout: Any = None, *, labeled: bool, predicted: bool = False
    ) -> tuple[datasets.Dataset, Any]:
        return load_squad(data, require_answers=labeled, skip_empty=self.args.skip_empty), None

    def choose_target(self, rows: Rows, layout: Any, head: Head) -> Target:
        # Evaluation has no loss, because it would be computed over windows, not over questions.
        names = ["f1", "exact_match"]
        prediction: dict[str, Any] = {"id": "0", "prediction_text": "text"}
        if self.args.version_2_with_negative:
            names = ["f1", "exact", "HasAns_f1", "HasAns_exact", "best_f1", "best_exact"]
            prediction["no_answer_probability"] = 0.0
        reference = {"id": "0", "answers": {"text": ["text"], "answer_start": [0]}}
        return Target(
            dict.fromkeys(names, True),
            own_metrics=self.own_metrics,
            examples=([prediction], [reference]),
            has_classes=False,
        )

    def prepare_rows(self, rows: Rows, target: Target) -> Rows:
        if self.args.version_2_with_negative:
            return rows
        for name, questions in rows.items():
            is_labeled = name != "test" or self.args.held_out is not None
            unanswerable = count_unanswerable(questions)
            if is_labeled and unanswerable:
                raise ValueError(
                    f"{unanswerable} of {len(questions)} {name} questions have no answer: pass"
                    " --version_2_with_negative (SQuAD 2.0), or remove them."
                )
        return rows

    def encoder(self, split: str, target: Target, encoding: Encoding) -> Encoder:
        function = train_features if split == "train" else evaluation_features
        return function, {"max_length": encoding.max_length, "doc_stride": self.args.doc_stride}

    def finish_features(
        self, name: str, rows: datasets.Dataset, features: datasets.Dataset, encoding: Encoding
    ) -> Split:
        # Rows and features are not one to one: long passages are split into windows.
        if not len(features):
            raise ValueError(f"The tokenizer drops the answers of all {len(rows)} {name} questions: take another one.")
        return Split(name, rows, features)

    def collator(self, encoding: Encoding, model: PreTrainedModel, multiple: int | None) -> Any:
        length = encoding.max_length if self.args.pad_to_max_length else None
        return QuestionAnsweringCollator(encoding.tokenizer, max_length=length, pad_to_multiple_of=multiple)

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(outputs[:2])  # logits of start and end

    def score(self, split: Split, outputs: Any, target: Target, encoding: Any = None) -> Scored:
        """Return the answers by the id of their question, and SQuAD's scores in percent."""
        starts, ends = outputs
        threshold = self.no_answer_threshold
        answers = extract_answers(
            dict(zip(split.rows["id"], split.rows["context"], strict=True)),
            split.features,
            starts,
            ends,
            n_best_size=self.args.n_best_size,
            max_answer_length=self.args.max_answer_length,
            no_answer_threshold=threshold,
        )
        references = split.rows.select_columns(["id", "answers"]).to_list()
        if not any(row["answers"]["text"] for row in references):
            return Scored(answers, {})
        chosen = [{"id": name, "prediction_text": answer.best.text} for name, answer in answers.items()]
        if threshold is None:
            scores = self.score_pair(chosen, references, target)
            return Scored(answers, scores, pair=(chosen, references))
        # The best span, not the chosen answer: the metric applies the threshold, and also tries other thresholds.
        spans = [
            {
                "id": name,
                "prediction_text": answer.best_span.text if answer.best_span else "",
                "no_answer_probability": float(np.float32(answer.null_odds)),
            }
            for name, answer in answers.items()
        ]
        scores = squad_v2(spans, references, threshold)
        certain = [{**prediction, "no_answer_probability": 0.0} for prediction in chosen]
        return Scored(answers, scores, pair=(certain, references))

    def score_pair(self, predictions: Any, references: Any, target: Target) -> dict[str, float]:
        return (squad if self.no_answer_threshold is None else squad_v2)(predictions, references)

    def constant_outputs(self, split: Split, train: Split, target: Target) -> Any:
        """Return logits with which no question has an answer; None where every question has one."""
        if self.no_answer_threshold is None:
            return None
        rows = []
        for feature in split.features.select_columns(["input_ids", "no_answer_position"]):
            logits = np.zeros(len(feature["input_ids"]))
            logits[feature["no_answer_position"]] = NO_ANSWER_LOGIT
            rows.append(logits)
        return rows, rows

    def files(self, split: Split, predictions: Any, target: Target) -> dict[str, str]:
        """Return `eval_predictions.json` and the other files that transformers' question answering script writes."""
        return format_answers(predictions, prefix_of(split.name))
