"""Plain rivals of a trained model: a constant answer, and for a frozen encoder a linear model of its mean states."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION
from hf_localattn.training.frozen_states import FrozenStates
from hf_localattn.training.scores import main_score

logger = logging.getLogger(__name__)

RIVALS = {
    "constant": "the commonest label, or the mean",
    "linear": "logistic or ridge regression on the encoder's mean states",
}
"""Rivals by the end of the names of their scores."""


def rival_scores(
    task: Any, split: str, scores: Mapping[str, float], frozen: FrozenStates | None = None
) -> dict[str, float]:
    """Score the rivals of a trained model on a split, and warn if the model is not better.

    Args:
        task: `hf_localattn.tasks.Task` with its rows and features.
        split: name of the split.
        scores: scores of the model.
        frozen: states of a frozen encoder, *optional*.

    Returns:
        The main score of each rival, such as `accuracy_of_constant`; {} without a rival or labels.
    """
    is_regression = "rmse" in task.metrics
    score_name = "rmse" if is_regression else main_score(task.metrics)  # a constant has no correlation
    if score_name not in scores or "train" not in task.features:
        return {}
    outputs = {"constant": task.constant_outputs(split)}
    if frozen is not None and task.model_task == "text-classification":
        outputs["linear"] = _linear_outputs(task, split, frozen)
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


def _linear_outputs(task: Any, split: str, frozen: FrozenStates) -> np.ndarray:
    """Fit a linear model to the training rows, and return its predictions in the form of logits (N, labels)."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    kind = task.labels.problem_type
    model: Any = Ridge() if kind == REGRESSION else LogisticRegression(max_iter=1000)
    if kind == MULTI_LABEL:
        model = OneVsRestClassifier(model)
    train = task.features["train"]
    model.fit(frozen.mean_states(train), np.asarray(train["label"][:]))
    states = frozen.mean_states(task.features[split])
    if kind == MULTI_LABEL:
        return model.decision_function(states)
    predictions = model.predict(states)
    return predictions.reshape(-1, 1) if kind == REGRESSION else np.eye(task.labels.num_labels)[predictions]
