"""Inputs, tagging schemes and binary scores shared by all metrics of labeled words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

import numpy as np
from datasets import Features, List, Value

from hf_localattn.extras import LazyExtra

metrics = LazyExtra("sklearn.metrics", "train", "A score of labels")

LABEL_FEATURES = Features({"predictions": List(Value("string")), "references": List(Value("string"))})
"""Predicted and true labels, a list per sentence."""

# seqeval reads IOBES. BILOU and BMES use other letters for the same tags.
SAME_LETTERS = {"L": "E", "U": "S", "M": "I"}


def check_lengths(predictions: Sequence[Sequence[Any]], references: Sequence[Sequence[Any]]) -> None:
    """Raise `ValueError` if a sentence has different numbers of predicted and true labels."""
    for number, (predicted, true) in enumerate(zip(predictions, references, strict=True), start=1):
        if len(predicted) != len(true):
            raise ValueError(
                f"sentence {number}: {len(predicted)} predicted labels, but {len(true)} true ones; give one of each"
                " per word."
            )


def as_iobes(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """Convert BILOU and BMES labels to IOBES for seqeval; keep IOB, IOE and IOBES labels."""
    return [[SAME_LETTERS.get(label[:1], label[:1]) + label[1:] for label in labels] for labels in sentences]


def set_scores(predictions: Iterable[Set[Any]], references: Iterable[Set[Any]]) -> dict[str, float]:
    """Return precision, recall and F1 of the members of sets, 0 if undefined.

    Args:
        predictions: predicted members of each sentence's set.
        references: true members of each sentence's set.
    """
    correct = predicted = true = 0
    for found, wanted in zip(predictions, references, strict=True):
        correct, predicted, true = correct + len(found & wanted), predicted + len(found), true + len(wanted)
    return {
        "f1": 2 * correct / (predicted + true) if correct else 0.0,
        "precision": correct / predicted if correct else 0.0,
        "recall": correct / true if correct else 0.0,
    }


def binary_prf(predictions: Sequence[bool], references: Sequence[bool], beta: float = 1.0) -> tuple[float, ...]:
    """Return precision, recall and F-beta of the class True; 0 if a denominator is 0."""
    if not len(references):  # scikit-learn raises an error for empty inputs
        return 0.0, 0.0, 0.0
    scores = metrics.precision_recall_fscore_support(
        np.asarray(references, dtype=bool),
        np.asarray(predictions, dtype=bool),
        beta=beta,
        average="binary",
        pos_label=True,
        zero_division=0,
    )
    return tuple(map(float, scores[:3]))
