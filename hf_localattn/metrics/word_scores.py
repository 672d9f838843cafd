"""Scores of labeled words. The label set selects scores of entities, errors or single words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import chain
from typing import Any

import numpy as np

from hf_localattn.extras import LazyExtra
from hf_localattn.metrics.classification_scores import SCORES, metrics

labeling = LazyExtra("seqeval.metrics.sequence_labeling", "train", "A score of entities")

PRF = ("precision", "recall", "f1")
ENTITY_SCORES = ("f1", "precision", "recall", "accuracy")
WORD_SCORES = ("accuracy", "macro_f1")

SCHEMES = {"IOB": "IB", "IOE": "IE", "IOBES": "IBES", "BILOU": "BILU", "BMES": "BMES"}
"""Letters of the tagging schemes."""

Labels = Sequence[Sequence[str]]
"""Labels of the words of each sentence."""

Scoring = Callable[[Labels, Labels], dict[str, float]]
"""Function of predicted and true labels. `<type>_precision`, `_recall`, `_f1` and `_number` are of a type or label."""


def select_metrics(names: Iterable[str]) -> tuple[Scoring, tuple[str, ...]]:
    """Return the scores for the label set of a model, and the names of the overall ones, the main one first.

    Labels of a tagging scheme (`SCHEMES`) are scored as CGED if all their types are R, M, S or W, and as entities
    otherwise. The labels c (correct) and i (incorrect) are scored as FCE. All other labels are scored word by word.
    """
    labels = set(names)
    if is_tagging_scheme(labels):
        types = {name[2:] for name in labels - {"O"}}
        scoring = diagnosis_scores if types <= {*"RMSW"} else entity_scores
    elif labels == {"c", "i"}:
        scoring = detection_scores
    else:
        scoring = word_scores
    return scoring, tuple(scoring([[]], [[]]))


def is_tagging_scheme(labels: Set[str]) -> bool:
    """Return True if labels are those of one of `SCHEMES`: "O", or a letter and a type (`B-PER`), or a letter alone.

    Letters alone need a B or an I, without which they may be anything, such as the sizes S, M and L.
    """
    tags = labels - {"O"}
    if not all(re.fullmatch("[A-Z](-.*)?", tag) for tag in tags):
        return False
    letters = {tag[0] for tag in tags}
    has_types = all("-" in tag for tag in tags)
    is_marked = has_types or not letters.isdisjoint("BI")
    return bool(tags) and is_marked and any(letters <= set(scheme) for scheme in SCHEMES.values())


def entity_scores(predictions: Labels, references: Labels) -> dict[str, float]:
    """Return precision, recall and F1 of entities, and the accuracy of all labels."""
    result = entities(predictions, references)
    scores = {name: result.pop(f"overall_{name}") for name in ENTITY_SCORES}
    return scores | {f"{kind}_{name}": value for kind, own in result.items() for name, value in own.items()}


def word_scores(predictions: Labels, references: Labels) -> dict[str, float]:
    """Return the accuracy, and the mean F1 over the labels that occur."""
    predicted, true = (np.array(list(chain.from_iterable(labels))) for labels in (predictions, references))
    if not true.size:
        return dict.fromkeys(WORD_SCORES, 0.0)
    scores = {name: SCORES[name](predicted, true) for name in WORD_SCORES}
    names = np.unique([*predicted, *true])
    table = metrics.precision_recall_fscore_support(true, predicted, labels=names, zero_division=0)
    for kind, values in zip((*PRF, "number"), table, strict=True):
        scores |= {f"{name}_{kind}": value.item() for name, value in zip(names, values, strict=True)}
    return scores


def detection_scores(predictions: Labels, references: Labels) -> dict[str, float]:
    """Return `error_detection` of the words labeled "i", and the `word_scores`."""
    return error_detection(predictions, references) | word_scores(predictions, references)


def diagnosis_scores(predictions: Labels, references: Labels) -> dict[str, float]:
    """Return `error_diagnosis`, and the accuracy of all labels."""
    found = entity_scores(predictions, references)  # whose overall scores equal those of positions
    return error_diagnosis(predictions, references) | {name: found[name] for name in found if name not in PRF}


def entities(predictions: Labels, references: Labels) -> dict[str, Any]:
    """Return precision, recall and F1 of entities (seqeval), and the accuracy of all labels.

    An entity is right if its first word, its last word and its type are right.

    Args:
        predictions: predicted labels, a list per sentence. A label is "O", or a letter of the scheme, "-" and a type;
            schemes are IOB, IOE, IOBES, BILOU and BMES. An entity may begin without B-, as in conlleval.
        references: true labels, in the same form.

    Returns:
        overall_precision, overall_recall, overall_f1: micro averages over all types, 0 if undefined.
        overall_accuracy: share of words with the right label.
        each type: its precision, recall, f1 and number (of true entities) of each type.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("entities")
        >>> scores = metric.compute(predictions=[["B-PER", "O", "O"]], references=[["B-PER", "O", "B-LOC"]])
        >>> scores["overall_precision"], scores["overall_recall"]
        (1.0, 0.5)
    """
    predictions, references = _as_iobes(predictions, references)
    types = sorted({entity[0] for entity in [*labeling.get_entities(references), *labeling.get_entities(predictions)]})
    by_type = labeling.precision_recall_fscore_support(references, predictions, average=None, zero_division=0)
    result: dict[str, Any] = {
        name: {**dict(zip(PRF, map(float, values), strict=True)), "number": int(number)}
        for name, *values, number in zip(types, *by_type, strict=True)
    }
    result |= {f"overall_{name}": value for name, value in _positions(predictions, references).items()}
    words = any(references)
    return result | {"overall_accuracy": float(labeling.accuracy_score(references, predictions)) if words else 0.0}


def error_detection(predictions: Labels, references: Labels, positive_label: str = "i") -> dict[str, float]:
    """Return precision, recall and F0.5 of incorrect words over all sentences, as for FCE.

    F0.5 weights precision twice as much as recall, because a false alarm harms a learner more than a missed error.

    Args:
        predictions: predicted labels, a list per sentence with one label per word.
        references: true labels, in the same form.
        positive_label: label of incorrect words, *optional*, defaults to "i" (FCE: "i" is incorrect, "c" correct).

    Returns:
        f0_5, precision, recall: scores of the positive label, 0 if undefined.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("error_detection")
        >>> metric.compute(predictions=[["c", "i", "i"]], references=[["c", "i", "i"]])
        {'f0_5': 1.0, 'precision': 1.0, 'recall': 1.0}
    """
    check_lengths(predictions, references)
    found, there = (
        [{place for place, label in enumerate(labels) if label == positive_label} for labels in rows]
        for rows in (predictions, references)
    )
    return set_scores(found, there, beta=0.5)


def error_diagnosis(predictions: Labels, references: Labels) -> dict[str, float]:
    """Return precision, recall and F1 of CGED on three levels, counted as in the shared task's tool.

    Detection level: the sentence has an error or not. Identification level: the set of types of errors in the
    sentence. Position level: errors by type, first and last character, as in `entities`.

    Args:
        predictions: predicted labels, a list per sentence: "O", or B- or I- and a type of error. The other schemes of
            `entities` are read, too.
        references: true labels, in the same form.

    Returns:
        detection_precision, detection_recall, detection_f1: scores on the detection level, 0 if undefined. The same
            with identification_ and position_, as micro averages.
        false_positive_rate: share of correct sentences in which an error was found, 0 if there is no correct sentence.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("error_diagnosis")
        >>> scores = metric.compute(predictions=[["B-R", "O"], ["B-S", "O"]], references=[["B-R", "O"], ["O", "O"]])
        >>> scores["detection_precision"], scores["position_recall"], scores["false_positive_rate"]
        (0.5, 1.0, 1.0)
    """
    predictions, references = _as_iobes(predictions, references)
    found, there = (
        [{entity[0] for entity in labeling.get_entities(labels)} for labels in rows]
        for rows in (predictions, references)
    )
    by_level = {
        "detection": set_scores(*([{"error"} if types else set() for types in rows] for rows in (found, there))),
        "identification": set_scores(found, there),
        "position": _positions(predictions, references),
    }
    alarms = [bool(types) for types, true in zip(found, there, strict=True) if not true]
    scores = {f"{level}_{name}": value for level, own in by_level.items() for name, value in own.items()}
    return scores | {"false_positive_rate": sum(alarms) / max(len(alarms), 1)}


def negation_scope(predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return precision, recall and F1 of the words in the scope of a cue, and the share of right scopes.

    Precision, recall and F1 are micro averages over all rows. A row is a sentence with one cue; a sentence with two
    cues makes two rows.

    Args:
        predictions: predicted scopes, a list per row with 1 for each word in scope and 0 for the others.
        references: true scopes, in the same form.

    Returns:
        f1, precision, recall: scores of the words in scope, 0 if undefined.
        scope_exact_match: share of rows without a wrong word, known as percentage of correct scopes (PCS).

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("negation_scope")
        >>> metric.compute(predictions=[[0, 1, 1], [0, 1, 0]], references=[[0, 1, 1], [0, 1, 1]])
        {'f1': 0.8571428571428571, 'precision': 1.0, 'recall': 0.75, 'scope_exact_match': 0.5}
    """
    check_lengths(predictions, references)
    for name, rows in (("predictions", predictions), ("references", references)):
        if others := sorted(set(chain.from_iterable(rows)) - {0, 1}):
            raise ValueError(f"{name}: {others[0]} is neither 0 nor 1; mark the words in scope by 1.")
    found, there = (
        [{place for place, word in enumerate(row) if word == 1} for row in rows] for rows in (predictions, references)
    )
    exact = sum(own == true for own, true in zip(found, there, strict=True))
    return {**set_scores(found, there), "scope_exact_match": exact / len(references)}


def check_lengths(predictions: Sequence[Sequence[Any]], references: Sequence[Sequence[Any]]) -> None:
    """Raise `ValueError` if a sentence has different numbers of predicted and true labels."""
    for number, (predicted, true) in enumerate(zip(predictions, references, strict=True), start=1):
        if len(predicted) != len(true):
            raise ValueError(f"sentence {number}: {len(predicted)} predicted labels, but {len(true)} true ones.")


def set_scores(
    predictions: Iterable[Set[Any]], references: Iterable[Set[Any]], *, beta: float = 1.0
) -> dict[str, float]:
    """Return F-beta, precision and recall of the members of each sentence's predicted and true set, 0 if undefined."""
    correct = predicted = true = 0
    for found, wanted in zip(predictions, references, strict=True):
        correct, predicted, true = correct + len(found & wanted), predicted + len(found), true + len(wanted)
    return {
        f"f{beta:g}".replace(".", "_"): (1 + beta**2) * correct / (predicted + beta**2 * true) if correct else 0.0,
        "precision": correct / predicted if correct else 0.0,
        "recall": correct / true if correct else 0.0,
    }


def _as_iobes(*both: Labels) -> list[list[list[str]]]:
    """Convert predicted and true labels of BILOU and BMES to IOBES, as seqeval reads it; keep those of IOB and IOE."""
    check_lengths(*both)
    letters = {"L": "E", "U": "S", "M": "I"}
    return [
        [[letters.get(label[:1], label[:1]) + label[1:] for label in labels] for labels in sentences]
        for sentences in both
    ]


def _positions(predictions: Labels, references: Labels) -> dict[str, float]:
    values = labeling.precision_recall_fscore_support(references, predictions, average="micro", zero_division=0)
    return dict(zip(PRF, map(float, values[:3]), strict=True))
