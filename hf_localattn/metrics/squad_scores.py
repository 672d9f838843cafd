"""Exact match and F1 of SQuAD 1.1 and 2.0; torchmetrics compares the answers."""

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hf_localattn.extras import LazyExtra

logger = logging.getLogger(__name__)

text_metrics = LazyExtra("torchmetrics.functional.text", "train", "A score of answers")  # takes seconds to import


@lru_cache(maxsize=4096)  # the same answers are scored after every epoch
def answer_scores(prediction: str, gold: str) -> tuple[float, float]:
    """Return exact match (0 or 1) and F1 (0 to 1) of a predicted and a gold answer after SQuAD's normalization.

    The normalization drops articles and punctuation. Two answers also agree if both are empty after it.
    """
    scores = text_metrics.squad(
        {"id": "", "prediction_text": prediction}, {"id": "", "answers": {"text": [gold], "answer_start": [0]}}
    )
    return float(scores["exact_match"]) / 100, float(scores["f1"]) / 100


def question_scores(prediction: str, golds: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 for the best gold answer. Without gold answers, a blank prediction is correct."""
    scores = [answer_scores(prediction, gold) for gold in [gold for gold in golds if not is_blank(gold)] or [""]]
    return max(exact for exact, _ in scores), max(f1 for _, f1 in scores)


def is_blank(answer: str) -> bool:
    """Return True if an answer is empty after SQuAD's normalization."""
    return answer_scores(answer, "")[0] == 1


def squad(predictions: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return exact match and F1 of SQuAD 1.1, in percent.

    Args:
        predictions: list of {"id", "prediction_text"}.
        references: list of {"id", "answers": {"text": [...], "answer_start": [...]}}; `answer_start` is ignored.

    Returns:
        exact_match, f1: mean over all questions of the best score against any of their answers, in percent. A question
            without a prediction scores 0, with a warning.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> predictions = [{"id": "1", "prediction_text": "the old mill"}]
        >>> references = [{"id": "1", "answers": {"text": ["old mill", "mill"], "answer_start": [4, 8]}}]
        >>> load_metric("squad").compute(predictions=predictions, references=references)
        {'exact_match': 100.0, 'f1': 100.0}
    """
    texts = {prediction["id"]: prediction["prediction_text"] for prediction in predictions}
    exact, f1 = 0.0, 0.0
    for reference in references:
        identifier, golds = reference["id"], reference["answers"]["text"]
        if not golds:
            raise ValueError(f"question {identifier!r} has no answer: use squad_v2.")
        if identifier not in texts:
            logger.warning("Question %s has no prediction and scores 0.", identifier)
            continue
        scores = [answer_scores(texts[identifier], gold) for gold in golds]
        exact += max(score[0] for score in scores)
        # In the official script of 1.1 a blank prediction has F1 0 even if the gold answer is blank, such as
        # "the"; torchmetrics follows 2.0, where the two agree.
        f1 += 0.0 if is_blank(texts[identifier]) else max(score[1] for score in scores)
    return {"exact_match": 100 * exact / len(references), "f1": 100 * f1 / len(references)}


def squad_v2(
    predictions: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]], no_answer_threshold: float = 1.0
) -> dict[str, float]:
    """Return exact match and F1 of SQuAD 2.0, where a question may have no answer, in percent.

    Args:
        predictions: list of {"id", "prediction_text", "no_answer_probability"}; the text "" means "no answer".
        references: list of {"id", "answers": {"text": [...], "answer_start": [...]}}; unanswerable: no texts.
        no_answer_threshold: a greater no_answer_probability makes the prediction "", *optional*, defaults to 1.0. Any
            score can serve as probability, such as the logit of "no answer" minus the logit of the best answer.

    Returns:
        exact, f1, total: mean scores in percent, and the number of questions. The same with HasAns_ for answerable and
            NoAns_ for unanswerable questions, if there are any. A question without a prediction scores 0, with a
            warning; the official script leaves such questions out.
        best_exact, best_f1: best scores over all thresholds, at best_exact_thresh and best_f1_thresh; only if
            no_answer_probability differs between questions.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> predictions = [{"id": "1", "prediction_text": "", "no_answer_probability": 0.0}]
        >>> references = [{"id": "1", "answers": {"text": [], "answer_start": []}}]
        >>> load_metric("squad_v2").compute(predictions=predictions, references=references)["exact"]
        100.0
    """
    given = {prediction["id"]: prediction for prediction in predictions}
    missing = {"prediction_text": " ", "no_answer_probability": float("-inf")}  # not "", which means "no answer"
    golds = {reference["id"]: reference["answers"]["text"] for reference in references}
    no_answer = {name: found["no_answer_probability"] for name, found in given.items() if name in golds}
    texts, raw, thresholded = {}, {}, {}
    for identifier, gold in golds.items():
        found = given.get(identifier, missing)
        texts[identifier], no_answer[identifier] = found["prediction_text"], found["no_answer_probability"]
        raw[identifier] = (0.0, 0.0) if found is missing else question_scores(texts[identifier], gold)
        if found is missing:
            logger.warning("Question %s has no prediction and scores 0.", identifier)
        abstains = no_answer[identifier] > no_answer_threshold
        thresholded[identifier] = (float(not gold),) * 2 if abstains else raw[identifier]

    result = _means(list(thresholded.values()))
    for prefix, kind in (("HasAns", True), ("NoAns", False)):
        if own := [scores for identifier, scores in thresholded.items() if bool(golds[identifier]) is kind]:
            result |= {f"{prefix}_{name}": value for name, value in _means(own).items()}
    if len({prediction["no_answer_probability"] for prediction in predictions}) > 1:
        for column, name in enumerate(("exact", "f1")):
            scores = {identifier: both[column] for identifier, both in raw.items()}
            result[f"best_{name}"], result[f"best_{name}_thresh"] = _best_threshold(texts, scores, no_answer, golds)
    return result


def _means(scores: list[tuple[float, float]]) -> dict[str, float]:
    exact, f1 = (100 * sum(column) / len(scores) for column in zip(*scores, strict=True))
    return {"exact": exact, "f1": f1, "total": len(scores)}


def _best_threshold(
    texts: dict[str, str], scores: dict[str, float], no_answer: dict[str, float], golds: dict[str, list[str]]
) -> tuple[float, float]:
    """Return the best mean score in percent and its threshold.

    The search starts with "no answer" for all questions, and adds one answer at a time, by increasing no-answer score.
    """
    current = best = float(sum(not gold for gold in golds.values()))
    threshold = 0.0
    for identifier in sorted(no_answer, key=no_answer.__getitem__):
        if golds[identifier]:
            current += scores[identifier]
        elif texts[identifier]:
            current -= 1
        if current > best:
            best, threshold = current, no_answer[identifier]
    return 100 * best / len(scores), threshold
