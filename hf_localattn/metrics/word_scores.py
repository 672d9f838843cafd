"""Scores of labeled words. The label set selects scores of entities, errors or single words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import chain, product
from operator import eq
from typing import Any

import numpy as np
from seqeval.metrics import sequence_labeling as labeling
from sklearn import metrics

from hf_localattn.metrics.classification_scores import SCORES

PRF = ("precision", "recall", "f1")
LEVELS = ("detection", "identification", "position")

# Names of the overall scores of each function, the main one first
ENTITY_SCORES = ("f1", "precision", "recall", "accuracy")
WORD_SCORES = ("accuracy", "macro_f1")
DETECTION_SCORES = ("f0_5", "precision", "recall", *WORD_SCORES)
DIAGNOSIS_SCORES = (
    *(f"{level}_{score}" for level, score in product(LEVELS, ("f1", "precision", "recall"))),
    "false_positive_rate",
    "accuracy",
)

SCHEMES = {"IOB": "IB", "IOE": "IE", "IOBES": "IBES", "BILOU": "BILU", "BMES": "BMES"}
"""Letters of the tagging schemes."""

LabelLists = Sequence[Sequence[str]]
"""A list of labels for each sentence."""

Scoring = Callable[[LabelLists, LabelLists], dict[str, float]]
"""Function of predicted and true labels. `<type>_precision`, `_recall`, `_f1` and `_number` are of a type or label."""


def select_metrics(names: Iterable[str]) -> tuple[Scoring, tuple[str, ...]]:
    """Return the scores for the label set of a model, and the names of the overall ones, the main one first.

    Labels of a tagging scheme (`SCHEMES`) are scored as CGED if all their types are R, M, S or W, and as entities
    otherwise. The labels c (correct) and i (incorrect) are scored as FCE. All other labels are scored word by word.
    """
    labels = set(names)
    if is_tagging_scheme(labels):
        types = {name[2:] for name in labels - {"O"}}
        if types <= {*"RMSW"}:
            return diagnosis_scores, DIAGNOSIS_SCORES
        return entity_scores, ENTITY_SCORES
    if labels == {"c", "i"}:
        return detection_scores, DETECTION_SCORES
    return word_scores, WORD_SCORES


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


def find_stray_tag(labels: Set[str]) -> str | None:
    """Return a label that is not of the tagging scheme of the others, such as "o" beside "O" and "B-PER".

    Entities could not be scored because of it. None if there is no scheme, or no such label.
    """
    tags = {label for label in labels if label == "O" or re.fullmatch("[A-Z]-.+", label)}
    strays = labels - tags
    return min(strays) if strays and is_tagging_scheme(tags) else None


def entity_scores(predictions: LabelLists, references: LabelLists) -> dict[str, float]:
    """Return precision, recall and F1 of entities, and the accuracy of all labels."""
    result = entities(predictions, references)
    scores = {name: result.pop(f"overall_{name}") for name in ENTITY_SCORES}
    for entity_type, of_type in result.items():
        scores |= {f"{entity_type}_{name}": value for name, value in of_type.items()}
    return scores


def word_scores(predictions: LabelLists, references: LabelLists) -> dict[str, float]:
    """Return the accuracy, and the mean F1 over the labels that occur."""
    predicted = np.array(list(chain.from_iterable(predictions)))
    true = np.array(list(chain.from_iterable(references)))
    if not true.size:
        return dict.fromkeys(WORD_SCORES, 0.0)
    scores = {name: SCORES[name](predicted, true) for name in WORD_SCORES}
    labels = np.unique([*predicted, *true])
    table = metrics.precision_recall_fscore_support(true, predicted, labels=labels, zero_division=0)
    for name, values in zip((*PRF, "number"), table, strict=True):
        scores |= {f"{label}_{name}": value.item() for label, value in zip(labels, values, strict=True)}
    return scores


def detection_scores(predictions: LabelLists, references: LabelLists) -> dict[str, float]:
    """Return `error_detection` of the words labeled "i", and the `word_scores`."""
    return error_detection(predictions, references) | word_scores(predictions, references)


def diagnosis_scores(predictions: LabelLists, references: LabelLists) -> dict[str, float]:
    """Return `error_diagnosis`, and the accuracy of all labels."""
    of_entities = entity_scores(predictions, references)
    for name in PRF:
        del of_entities[name]  # equal to those of positions
    return error_diagnosis(predictions, references) | of_entities


def entities(predictions: LabelLists, references: LabelLists) -> dict[str, Any]:
    """Return precision, recall and F1 of entities (seqeval), and the accuracy of all labels.

    An entity is right if its first word, its last word and its type are right.

    Args:
        predictions: Predicted labels, a list per sentence. A label is "O", or a letter of the scheme, "-" and a type;
            schemes are IOB, IOE, IOBES, BILOU and BMES. An entity may begin without B-, as in conlleval.
        references: True labels, in the same form.

    Returns:
        overall_precision, overall_recall, overall_f1: Micro averages over all types, 0 if undefined.
        overall_accuracy: Share of words with the right label.
        each type: Its precision, recall, f1 and number (of true entities) of each type.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("entities")
        >>> scores = metric.compute(predictions=[["B-PER", "O", "O"]], references=[["B-PER", "O", "B-LOC"]])
        >>> scores["overall_precision"], scores["overall_recall"]
        (1.0, 0.5)
    """
    check_lengths(predictions, references)
    predictions = _as_iobes(predictions)
    references = _as_iobes(references)
    types = sorted(_types(references) | _types(predictions))
    table = _scores(predictions, references, average=None)
    result: dict[str, Any] = {entity_type: {} for entity_type in types}
    for name, values in zip((*PRF, "number"), table, strict=True):
        for entity_type, value in zip(types, values, strict=True):
            result[entity_type][name] = value.item()
    for name, value in _overall_scores(predictions, references).items():
        result[f"overall_{name}"] = value
    accuracy = labeling.accuracy_score(references, predictions) if any(references) else 0
    result["overall_accuracy"] = float(accuracy)
    return result


def error_detection(predictions: LabelLists, references: LabelLists, positive_label: str = "i") -> dict[str, float]:
    """Return precision, recall and F0.5 of incorrect words over all sentences, as for FCE.

    F0.5 weights precision twice as much as recall, because a false alarm harms a learner more than a missed error.

    Args:
        predictions: Predicted labels, a list per sentence with one label per word.
        references: True labels, in the same form.
        positive_label (*optional*, defaults to "i"): Label of incorrect words, as in FCE.

    Returns:
        f0_5, precision, recall: Scores of the positive label, 0 if undefined.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("error_detection")
        >>> metric.compute(predictions=[["c", "i", "i"]], references=[["c", "i", "i"]])
        {'f0_5': 1.0, 'precision': 1.0, 'recall': 1.0}
    """
    check_lengths(predictions, references)
    predicted = [_indices_of(positive_label, labels) for labels in predictions]
    true = [_indices_of(positive_label, labels) for labels in references]
    return set_scores(predicted, true, beta=0.5)


def error_diagnosis(predictions: LabelLists, references: LabelLists) -> dict[str, float]:
    """Return precision, recall and F1 of CGED on three levels, counted as in the shared task's tool.

    Detection level: the sentence has an error or not. Identification level: the set of types of errors in the
    sentence. Position level: errors by type, first and last character, as in `entities`.

    Args:
        predictions: Predicted labels, a list per sentence: "O", or B- or I- and a type of error. The other schemes of
            `entities` are read, too.
        references: True labels, in the same form.

    Returns:
        detection_precision, detection_recall, detection_f1: Scores on the detection level, 0 if undefined. The same
            with identification_ and position_, as micro averages.
        false_positive_rate: Share of correct sentences in which an error was found, 0 if there is no correct sentence.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("error_diagnosis")
        >>> scores = metric.compute(predictions=[["B-R", "O"], ["B-S", "O"]], references=[["B-R", "O"], ["O", "O"]])
        >>> scores["detection_precision"], scores["position_recall"], scores["false_positive_rate"]
        (0.5, 1.0, 1.0)
    """
    check_lengths(predictions, references)
    predictions = _as_iobes(predictions)
    references = _as_iobes(references)
    predicted = list(map(_types, predictions))
    true = list(map(_types, references))
    has_error = [set(map(bool, types)) for types in predicted]
    truly_has_error = [set(map(bool, types)) for types in true]
    by_level = {
        "detection": set_scores(has_error, truly_has_error),
        "identification": set_scores(predicted, true),
        "position": _overall_scores(predictions, references),
    }
    scores: dict[str, float] = {}
    for level, of_level in by_level.items():
        scores |= {f"{level}_{name}": value for name, value in of_level.items()}
    of_correct = [types for types, true_types in zip(predicted, true, strict=True) if not true_types]
    alarms = sum(map(bool, of_correct))
    return scores | {"false_positive_rate": alarms / max(len(of_correct), 1)}


def negation_scope(predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return precision, recall and F1 of the words in the scope of a cue, and the share of right scopes.

    Precision, recall and F1 are micro averages over all rows. A row is a sentence with one cue; a sentence with two
    cues makes two rows.

    Args:
        predictions: Predicted scopes, a list per row with 1 for each word in scope and 0 for the others.
        references: True scopes, in the same form.

    Returns:
        f1, precision, recall: Scores of the words in scope, 0 if undefined.
        scope_exact_match: Share of rows without a wrong word, known as percentage of correct scopes (PCS).

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
    predicted = [_indices_of(1, row) for row in predictions]
    true = [_indices_of(1, row) for row in references]
    exact = sum(map(eq, predicted, true))
    return {**set_scores(predicted, true), "scope_exact_match": exact / len(references)}


def check_lengths(predictions: Sequence[Sequence[Any]], references: Sequence[Sequence[Any]]) -> None:
    """Raise `ValueError` if a sentence has different numbers of predicted and true labels."""
    for count, (predicted, true) in enumerate(zip(predictions, references, strict=True), start=1):
        if len(predicted) != len(true):
            raise ValueError(f"sentence {count}: {len(predicted)} predicted labels, but {len(true)} true ones.")


def set_scores(
    predictions: Iterable[Set[Any]], references: Iterable[Set[Any]], *, beta: float = 1.0
) -> dict[str, float]:
    """Return F-beta, precision and recall of the members of each sentence's predicted and true set, 0 if undefined."""
    f_beta = f"f{beta:g}".replace(".", "_")
    correct = predicted = true = 0
    for predicted_set, true_set in zip(predictions, references, strict=True):
        correct += len(predicted_set & true_set)
        predicted += len(predicted_set)
        true += len(true_set)
    if not correct:
        return {f_beta: 0.0, "precision": 0.0, "recall": 0.0}
    return {
        f_beta: (1 + beta**2) * correct / (predicted + beta**2 * true),
        "precision": correct / predicted,
        "recall": correct / true,
    }


def _indices_of(value: Any, row: Iterable[Any]) -> set[int]:
    return {index for index, entry in enumerate(row) if entry == value}


def _as_iobes(sentences: LabelLists) -> list[list[str]]:
    """Convert labels of BILOU and BMES to IOBES, as seqeval reads it; keep those of IOB and IOE."""
    letters = str.maketrans({"L": "E", "U": "S", "M": "I"})
    return [[label[:1].translate(letters) + label[1:] for label in labels] for labels in sentences]


def _types(labels: Sequence[Any]) -> set[str]:
    """Return the types of the entities in one sentence or in several."""
    return {entity_type for entity_type, _, _ in labeling.get_entities(labels)}


def _overall_scores(predictions: LabelLists, references: LabelLists) -> dict[str, float]:
    values = _scores(predictions, references, average="micro")
    return dict(zip(PRF, map(float, values[:3]), strict=True))


def _scores(predictions: LabelLists, references: LabelLists, average: str | None) -> Any:
    return labeling.precision_recall_fscore_support(references, predictions, average=average, zero_division=0)
