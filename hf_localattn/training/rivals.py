"""Plain rivals of a trained model: a constant answer, and for a frozen encoder a linear model of its mean states."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION, Labels
from hf_localattn.hub.record import RIVALS
from hf_localattn.tasks.task import Split
from hf_localattn.training.evaluation import Evaluation
from hf_localattn.training.frozen_states import FrozenStates
from hf_localattn.training.scores import main_score

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rivals:
    """The rivals of a trained model. They are fitted to the training rows.

    Args:
        evaluation: The task and its splits.
        frozen (*optional*): States of a frozen encoder.
    """

    evaluation: Evaluation
    frozen: FrozenStates | None = None

    def scores(self, split: Split, scores: Mapping[str, float]) -> dict[str, float]:
        """Score the rivals on a split, and warn if the model is not better.

        Args:
            split: The split.
            scores: Scores of the model.

        Returns:
            The main score of each rival, such as `accuracy_of_constant`; {} without a rival or labels.
        """
        task, target = self.evaluation.task, self.evaluation.target
        train = self.evaluation.splits.get("train")
        is_regression = "rmse" in target.metrics
        score_name = "rmse" if is_regression else main_score(target.metrics)  # a constant has no correlation
        if score_name not in scores or train is None:
            return {}
        outputs = {"constant": task.constant_outputs(split, train, target)}
        if self.frozen is not None and task.model_task == "text-classification":
            states = self.frozen.mean_states(split.features)
            outputs["linear"] = linear_outputs(self._linear_model, states, target.labels)
        results = {}
        for rival, values in outputs.items():
            if values is not None:
                scored = task.score(split, values, target, self.evaluation.encoding)
                results[rival] = scored.scores[score_name]
        better = max if target.metrics[score_name] else min
        score = scores[score_name]
        for rival, result in results.items():
            if better(score, result) == result:
                logger.warning(
                    "The model is not better than %s on the %s rows (%s %.4f, against %.4f): train it longer, or with"
                    " another --learning_rate.",
                    RIVALS[rival],
                    split.name,
                    score_name,
                    score,
                    result,
                )
        return {f"{score_name}_of_{rival}": result for rival, result in results.items()}

    @cached_property
    def _linear_model(self) -> Any:
        """A linear model of mean states, fitted once for all splits."""
        assert self.frozen is not None
        train = self.evaluation.splits["train"].features
        labels = np.asarray(train["label"][:])
        return fit_linear_model(self.frozen.mean_states(train), labels, self.evaluation.target.labels)


def fit_linear_model(states: np.ndarray, targets: np.ndarray, labels: Labels | None) -> Any:
    """Fit a linear model of mean states (N, H) to targets (N,), or (N, labels) for sets."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    assert labels is not None
    model: Any = Ridge() if labels.problem_type == REGRESSION else LogisticRegression(max_iter=1000)
    if labels.problem_type == MULTI_LABEL:
        model = OneVsRestClassifier(model)
    return model.fit(states, targets)


def linear_outputs(model: Any, states: np.ndarray, labels: Labels | None) -> np.ndarray:
    """Return the predictions of a linear model for mean states (N, H) in the form of logits (N, labels)."""
    assert labels is not None
    if labels.problem_type == MULTI_LABEL:
        return model.decision_function(states)
    predictions = model.predict(states)
    is_number = labels.problem_type == REGRESSION
    return predictions.reshape(-1, 1) if is_number else np.eye(labels.num_labels)[predictions]
