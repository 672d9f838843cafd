"""Plain rivals of a trained model: a constant answer, and for a frozen encoder a linear model of its mean states."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION
from hf_localattn.hub.record import RIVALS
from hf_localattn.training.frozen_states import FrozenStates
from hf_localattn.training.scores import main_score

logger = logging.getLogger(__name__)


class Rivals:
    """The rivals of a trained model. They are fitted to the training rows.

    Args:
        task: `hf_localattn.tasks.Task` with its rows and features.
        frozen (*optional*): States of a frozen encoder.
    """

    def __init__(self, task: Any, frozen: FrozenStates | None = None):
        self.task = task
        self.frozen = frozen

    def scores(self, split: str, scores: Mapping[str, float]) -> dict[str, float]:
        """Score the rivals on a split, and warn if the model is not better.

        Args:
            split: Name of the split.
            scores: Scores of the model.

        Returns:
            The main score of each rival, such as `accuracy_of_constant`; {} without a rival or labels.
        """
        task = self.task
        is_regression = "rmse" in task.metrics
        score_name = "rmse" if is_regression else main_score(task.metrics)  # a constant has no correlation
        if score_name not in scores or "train" not in task.features:
            return {}
        outputs = {"constant": task.constant_outputs(split)}
        if self.frozen is not None and task.model_task == "text-classification":
            outputs["linear"] = self._linear_outputs(split, self.frozen)
        features = task.features[split]
        labels = np.asarray(features["label"][:]) if "label" in features.column_names else None
        results = {}
        for rival, values in outputs.items():
            if values is not None:
                results[rival] = task.score(split, values, labels).scores[score_name]
        better = max if task.metrics[score_name] else min
        score = scores[score_name]
        for rival, result in results.items():
            if better(score, result) == result:
                logger.warning(
                    "The model is not better than %s on the %s rows (%s %.4f, against %.4f): train it longer, or with"
                    " another --learning_rate.",
                    RIVALS[rival],
                    split,
                    score_name,
                    score,
                    result,
                )
        return {f"{score_name}_of_{rival}": result for rival, result in results.items()}

    def _linear_outputs(self, split: str, frozen: FrozenStates) -> np.ndarray:
        """Return the predictions of the linear model in the form of logits (N, labels)."""
        kind = self.task.labels.problem_type
        model = self._linear_model
        states = frozen.mean_states(self.task.features[split])
        if kind == MULTI_LABEL:
            return model.decision_function(states)
        predictions = model.predict(states)
        return predictions.reshape(-1, 1) if kind == REGRESSION else np.eye(self.task.labels.num_labels)[predictions]

    @cached_property
    def _linear_model(self) -> Any:
        """A linear model of mean states, fitted once for all splits."""
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.multiclass import OneVsRestClassifier

        assert self.frozen is not None
        kind = self.task.labels.problem_type
        model: Any = Ridge() if kind == REGRESSION else LogisticRegression(max_iter=1000)
        if kind == MULTI_LABEL:
            model = OneVsRestClassifier(model)
        train = self.task.features["train"]
        return model.fit(self.frozen.mean_states(train), np.asarray(train["label"][:]))
