"""Scores of labeled words. The label set selects scores of entities, errors or single words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, product
from typing import NamedTuple, Protocol

import numpy as np

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.classification_scores import SCORES, metrics

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
"""All scores, each with True if greater is better."""

CORRECT_OR_NOT = frozenset({"c", "i"})
"""Labels of FCE and corpora in its format: correct or incorrect."""

DIAGNOSES = frozenset("RMSW")
"""Error types of CGED: redundant word, missing word, wrong word (selection), wrong word order."""

_ENTITY_LABEL = re.compile("[BIESLUM](-.*)?")

Labels = Sequence[Sequence[str]]


class WordScore(Protocol):
    """Function of the predicted and the true labels of each sentence."""

    def __call__(self, predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
        """Return the overall scores and, if `each`, the scores of each type or label."""


class Scoring(NamedTuple):
    """A function that scores labels, and the names of its overall scores, the main one first."""

    score: WordScore
    reported: tuple[str, ...]


def select_metrics(names: Iterable[str]) -> Scoring:
    """Select the scores by the label set of a model.

    Entity labels (see `mark_entities`) are scored as CGED if all their types are in `DIAGNOSES`, and as entities
    otherwise. The label set `CORRECT_OR_NOT` is scored as FCE. All other labels are scored word by word.
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
    """Return True if labels follow a tagging scheme (IOB, IOE, IOBES, BILOU, BMES): "O", or a letter and a type."""
    others = set(names) - {"O"}
    return bool(others) and all(_ENTITY_LABEL.fullmatch(name) for name in others)


def entity_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return precision, recall and F1 of entities, and the accuracy of all labels.

    Args:
        predictions: predicted labels of each sentence's words.
        references: correct labels of each sentence's words.
        each: add `<type>_precision`, `_recall`, `_f1` and `_number` of each type, *optional*, defaults to False.
    """
    result = load_metric("entities").compute(predictions=predictions, references=references)
    scores = {name: result.pop(f"overall_{name}") for name in ENTITY_SCORES}
    if each:
        scores |= {f"{kind}_{name}": value for kind, own in result.items() for name, value in own.items()}
    return scores


def word_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return the accuracy, and the mean F1 over the labels that occur.

    Args:
        predictions: predicted labels of each sentence's words.
        references: correct labels of each sentence's words.
        each: add `<label>_precision`, `_recall`, `_f1` and `_number` of each label, *optional*, defaults to False.
    """
    predicted, true = (np.array(list(chain.from_iterable(labels))) for labels in (predictions, references))
    if not true.size:
        return dict.fromkeys(WORD_SCORES, 0.0)
    scores = {name: SCORES[name](predicted, true) for name in WORD_SCORES}
    if each:
        names = np.unique([*predicted, *true])
        table = metrics.precision_recall_fscore_support(true, predicted, labels=names, zero_division=0)
        for name, *values in zip(names, *table, strict=True):
            kinds = ("precision", "recall", "f1", "number")
            scores |= {f"{name}_{kind}": value.item() for kind, value in zip(kinds, values, strict=True)}
    return scores


def detection_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return precision, recall and F0.5 of the words labeled as errors ("i"), and the `word_scores`.

    Args:
        predictions: predicted labels of each sentence's words, "c" or "i".
        references: correct labels of each sentence's words.
        each: see `word_scores`.
    """
    scores = load_metric("error_detection").compute(predictions=predictions, references=references)
    return scores | word_scores(predictions, references, each=each)


def diagnosis_scores(predictions: Labels, references: Labels, *, each: bool = False) -> dict[str, float]:
    """Return the scores of the three levels of CGED (`error_diagnosis`), and the accuracy of all labels.

    Args:
        predictions: predicted labels of each sentence's characters.
        references: correct labels of each sentence's characters.
        each: see `entity_scores`.
    """
    scores = load_metric("error_diagnosis").compute(predictions=predictions, references=references)
    # the F1 of entities equals F1 on the position level
    entities = entity_scores(predictions, references, each=each)
    return scores | {name: entities[name] for name in entities if name not in ("f1", "precision", "recall")}
