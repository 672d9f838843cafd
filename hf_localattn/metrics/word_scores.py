"""Scores of labels of words: of whole entities where labels mark entities, else of each word by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.classification_scores import SCORES

ENTITY_SCORES = ("f1", "precision", "recall", "accuracy")
WORD_SCORES = ("accuracy", "macro_f1")

_ENTITY_LABEL = re.compile("[BIESLUM](-.*)?")

Labels = Sequence[Sequence[str]]


def mark_entities(names: Iterable[str]) -> bool:
    """Tell whether labels are those of IOB, IOE, IOBES, BILOU or BMES: "O", or a letter and a type."""
    others = set(names) - {"O"}
    return bool(others) and all(_ENTITY_LABEL.fullmatch(name) for name in others)


def entity_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return precision, recall and F1 of entities, and accuracy of the words' labels.

    Args:
        predictions, references: labels of each sentence's words.
        each: whether to add `<type>_precision`, `_recall`, `_f1` and `_number` of each type.
    """
    result = load_metric("entities").compute(predictions=predictions, references=references)
    scores = {name: result.pop(f"overall_{name}") for name in ENTITY_SCORES}
    if each:
        scores |= {f"{kind}_{name}": value for kind, own in result.items() for name, value in own.items()}
    return scores


def word_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return accuracy, and the mean F1 of the labels that occur.

    Args:
        predictions, references: labels of each sentence's words.
        each: whether to add `<label>_precision`, `_recall`, `_f1` and `_number` of each label.
    """
    predicted, true = (np.array(list(chain.from_iterable(labels))) for labels in (predictions, references))
    if not true.size:
        return dict.fromkeys(WORD_SCORES, 0.0)
    scores = {name: SCORES[name](predicted, true) for name in WORD_SCORES}
    if each:
        names = np.unique([*predicted, *true])
        table = precision_recall_fscore_support(true, predicted, labels=names, zero_division=0)
        for name, *values in zip(names, *table, strict=True):
            kinds = ("precision", "recall", "f1", "number")
            scores |= {f"{name}_{kind}": value.item() for kind, value in zip(kinds, values, strict=True)}
    return scores
