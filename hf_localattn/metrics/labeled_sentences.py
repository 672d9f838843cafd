"""Inputs, spans and binary scores that all metrics of labeled words share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from datasets import Features, List, Value
from sklearn.metrics import precision_recall_fscore_support

LABEL_FEATURES = Features({"predictions": List(Value("string")), "references": List(Value("string"))})
"""A list of labels per sentence, predicted and true."""

# seqeval reads IOBES; the other schemes say the same by other letters.
SAME_LETTERS = {"L": "E", "U": "S", "M": "I"}


def check_lengths(predictions: Sequence[Sequence[Any]], references: Sequence[Sequence[Any]]) -> None:
    """Raise `ValueError` if a sentence has more labels of one kind than of the other."""
    for number, (predicted, true) in enumerate(zip(predictions, references, strict=True), start=1):
        if len(predicted) != len(true):
            raise ValueError(f"sentence {number}: {len(predicted)} predicted labels, but {len(true)} true ones.")


def as_iobes(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the labels of sentences by the letters that seqeval reads; those of BILOU and BMES are others."""
    return [[SAME_LETTERS.get(label[:1], label[:1]) + label[1:] for label in labels] for labels in sentences]


def binary_prf(predictions: Sequence[bool], references: Sequence[bool], beta: float = 1.0) -> tuple[float, ...]:
    """Return precision, recall and F-beta of True among answers of yes or no; 0 where nothing is to divide by."""
    if not len(references):  # which scikit-learn refuses
        return 0.0, 0.0, 0.0
    scores = precision_recall_fscore_support(
        np.asarray(references, dtype=bool),
        np.asarray(predictions, dtype=bool),
        beta=beta,
        average="binary",
        pos_label=True,
        zero_division=0,
    )
    return tuple(map(float, scores[:3]))
