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
    "constant": "the commonest label of the training rows, or their mean",
    "linear": "a linear model (logistic or ridge regression) of the encoder's mean states",
}
"""Rivals by the end of the names of their scores."""


def rival_scores(
    task: Any, split: str, scores: Mapping[str, float], frozen: FrozenStates | None = None
) -> dict[str, float]:
    """Score the rivals of a trained model on a split, and log whether the model is better.

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
    has_labels = "labels" in features.column_names and not task.scores_tokens
    labels = np.asarray(features["labels"][:]) if has_labels else None
    results = {}
    for rival, values in outputs.items():
        if values is not None:
            results[rival] = task.score(split, values, labels).scores[score_name]
    better = max if task.metrics[score_name] else min
    score = scores[score_name]
    for rival, result in results.items():
        logger.info("%s %s: %.4f, against %.4f of %s.", split, score_name, score, result, RIVALS[rival])
        if better(score, result) == result:
            logger.warning(
                "The model is not better than %s: train it longer, or with another --learning_rate.", RIVALS[rival]
            )
    return {f"{score_name}_of_{rival}": result for rival, result in results.items()}


def _linear_outputs(task: Any, split: str, frozen: FrozenStates) -> np.ndarray:
    """Fit a linear model to the training rows, and return its predictions in the form of logits (N, labels)."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kind = task.labels.problem_type
    model: Any = Ridge() if kind == REGRESSION else LogisticRegression(max_iter=1000)
    if kind == MULTI_LABEL:
        model = OneVsRestClassifier(model)
    train = task.features["train"]
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline.fit(frozen.mean_states(train), np.asarray(train["labels"][:]))
    predictions = pipeline.predict(frozen.mean_states(task.features[split]))
    if kind == REGRESSION:
        return predictions.reshape(-1, 1)
    return predictions - 0.5 if kind == MULTI_LABEL else np.eye(task.labels.num_labels)[predictions]
