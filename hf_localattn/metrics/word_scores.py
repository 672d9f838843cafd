"""Scores of labels of words, which are chosen by the labels: of errors, of whole entities, or of each word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, product
from typing import NamedTuple, Protocol

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.classification_scores import SCORES

ENTITY_SCORES = ("f1", "precision", "recall", "accuracy")
WORD_SCORES = ("accuracy", "macro_f1")
DETECTION_SCORES = ("f0_5", "precision", "recall", *WORD_SCORES)
DIAGNOSIS_SCORES = (
    *map("_".join, product(("detection", "identification", "position"), ("f1", "precision", "recall"))),
    "false_positive_rate",
    "accuracy",
)

GREATER_IS_BETTER = {
    name: name != "false_positive_rate"
    for name in dict.fromkeys((*ENTITY_SCORES, *WORD_SCORES, *DETECTION_SCORES, *DIAGNOSIS_SCORES))
}
"""All scores there are, and whether more is better."""

CORRECT_OR_NOT = frozenset({"c", "i"})
"""The labels of FCE, and of corpora in its form: a word is correct, or it is not."""

DIAGNOSES = frozenset("RMSW")
"""The errors of CGED: a redundant or missing word, a wrong choice (selection) or order of words."""

_ENTITY_LABEL = re.compile("[BIESLUM](-.*)?")

Labels = Sequence[Sequence[str]]


class Score(Protocol):
    """A function of predicted and true labels of each sentence's words."""

    def __call__(self, predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
        """Return the overall scores and, with `each`, those of each type or label."""


class Scoring(NamedTuple):
    """A way to score labels, with the names of its overall scores, the main one first."""

    score: Score
    reported: tuple[str, ...]


def select_metrics(names: Iterable[str]) -> Scoring:
    """Choose the scores of a model by its labels, which are the same for all of its data.

    Labels of entities whose types are all of `DIAGNOSES` are scored as CGED's, others as entities. The two labels
    `CORRECT_OR_NOT` are scored as FCE's, all others word by word.
    """
    known = set(names)
    if mark_entities(known):
        if {name[2:] for name in known - {"O"}} <= DIAGNOSES:
            return Scoring(diagnosis_scores, DIAGNOSIS_SCORES)
        return Scoring(entity_scores, ENTITY_SCORES)
    if known == CORRECT_OR_NOT:
        return Scoring(detection_scores, DETECTION_SCORES)
    return Scoring(word_scores, WORD_SCORES)


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


def detection_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return precision, recall and F0.5 of the words that are labeled as errors ("i"), besides `word_scores`.

    Args:
        predictions, references: labels of each sentence's words, "c" or "i".
        each: as in `word_scores`.
    """
    scores = load_metric("error_detection").compute(predictions=predictions, references=references)
    return scores | word_scores(predictions, references, each=each)


def diagnosis_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return the scores of the three levels of CGED (`error_diagnosis`), and accuracy of the characters' labels.

    Args:
        predictions, references: labels of each sentence's characters.
        each: as in `entity_scores`.
    """
    scores = load_metric("error_diagnosis").compute(predictions=predictions, references=references)
    # F1 of entities is that of the position level
    entities = entity_scores(predictions, references, each=each)
    return scores | {name: entities[name] for name in entities if name not in ("f1", "precision", "recall")}
