"""Exact match and F1 of SQuAD 1.1 and 2.0; torchmetrics compares the answers."""

import logging
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

logger = logging.getLogger(__name__)


@lru_cache(maxsize=4096)  # the same answers are scored after every epoch
def answer_scores(prediction: str, gold: str) -> tuple[float, float]:
    """Return exact match (0 or 1) and F1 (0 to 1) of two answers, without articles and punctuation."""
    predicted = {"id": "", "prediction_text": prediction}
    true = {"id": "", "answers": {"text": [gold], "answer_start": [0]}}
    from torchmetrics.functional.text import squad as squad_scores  # takes seconds

    scores = squad_scores(predicted, true)
    return float(scores["exact_match"]) / 100, float(scores["f1"]) / 100


def is_blank(answer: str) -> bool:
    """Return True if an answer is empty after SQuAD's normalization."""
    return answer_scores(answer, "")[0] == 1


def _best_scores(prediction: str, golds: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 for the best gold answer."""
    exact, f1 = zip(*[answer_scores(prediction, gold) for gold in golds], strict=True)
    return max(exact), max(f1)


def squad(predictions: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return exact match and F1 of SQuAD 1.1, in percent.

    Args:
        predictions: List of {"id", "prediction_text"}.
        references: List of {"id", "answers": {"text": [...], "answer_start": [...]}}; `answer_start` is ignored.

    Returns:
        exact_match, f1: Mean over all questions of the best score against any of their answers, in percent. A question
            without a prediction scores 0, with a warning.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> predictions = [{"id": "1", "prediction_text": "the old mill"}]
        >>> references = [{"id": "1", "answers": {"text": ["old mill", "mill"], "answer_start": [4, 8]}}]
        >>> load_metric("squad").compute(predictions=predictions, references=references)
        {'exact_match': 100.0, 'f1': 100.0}
    """
    texts = {prediction["id"]: prediction["prediction_text"] for prediction in predictions}
    scores = []
    for reference in references:
        identifier = reference["id"]
        golds = reference["answers"]["text"]
        if not golds:
            raise ValueError(f"question {identifier!r} has no answer: use squad_v2.")
        if identifier not in texts:
            logger.warning("Question %s has no prediction and scores 0.", identifier)
            scores.append((0.0, 0.0))
            continue
        exact, f1 = _best_scores(texts[identifier], golds)
        # In the official script of 1.1 a blank prediction has F1 0 even if the gold answer is blank, such as
        # "the"; torchmetrics follows 2.0, where the two agree.
        scores.append((exact, 0.0 if is_blank(texts[identifier]) else f1))
    means = _means(scores)
    return {"exact_match": means["exact"], "f1": means["f1"]}


def squad_v2(
    predictions: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]], no_answer_threshold: float = 1.0
) -> dict[str, float]:
    """Return exact match and F1 of SQuAD 2.0, where a question may have no answer, in percent.

    Args:
        predictions: List of {"id", "prediction_text", "no_answer_probability"}; the text "" means "no answer".
        references: List of {"id", "answers": {"text": [...], "answer_start": [...]}}; unanswerable: no texts.
        no_answer_threshold (*optional*, defaults to 1.0): A greater no_answer_probability makes the prediction "". Any
            score can serve as probability, such as the logit of "no answer" minus the logit of the best answer.

    Returns:
        exact, f1, total: Mean scores in percent, and the number of questions. The same with HasAns_ for answerable and
            NoAns_ for unanswerable questions, if there are any. A question without a prediction scores 0, with a
            warning; the official script leaves such questions out.
        best_exact, best_f1: Best scores over all thresholds, at best_exact_thresh and best_f1_thresh; only if
            no_answer_probability differs between questions.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> predictions = [{"id": "1", "prediction_text": "", "no_answer_probability": 0.0}]
        >>> references = [{"id": "1", "answers": {"text": [], "answer_start": []}}]
        >>> load_metric("squad_v2").compute(predictions=predictions, references=references)["exact"]
        100.0
    """
    texts = {prediction["id"]: prediction["prediction_text"] for prediction in predictions}
    no_answer = {prediction["id"]: prediction["no_answer_probability"] for prediction in predictions}
    golds = {reference["id"]: reference["answers"]["text"] for reference in references}
    scores = {}  # of the predicted texts
    thresholded = {}
    for identifier, gold in golds.items():
        if identifier not in texts:
            scores[identifier] = (0.0, 0.0)
            logger.warning("Question %s has no prediction and scores 0.", identifier)
        else:
            answers = [text for text in gold if not is_blank(text)]
            scores[identifier] = _best_scores(texts[identifier], answers or [""])  # without one, "" is right
        thresholded[identifier] = scores[identifier]
        if no_answer.get(identifier, -math.inf) > no_answer_threshold:
            thresholded[identifier] = (float(not gold), float(not gold))

    result = _means(list(thresholded.values()))
    with_answer = [thresholded[identifier] for identifier, gold in golds.items() if gold]
    without_answer = [thresholded[identifier] for identifier, gold in golds.items() if not gold]
    for prefix, part in (("HasAns", with_answer), ("NoAns", without_answer)):
        if part:
            result |= {f"{prefix}_{name}": value for name, value in _means(part).items()}
    if len(set(no_answer.values())) < 2:
        return result

    # Begin with "no answer" for all questions, and add one answer at a time, by increasing no-answer score.
    # A question without a prediction counts as a wrong answer.
    predicted_first = [identifier for identifier in {**texts, **golds} if identifier in golds]
    order = sorted(predicted_first, key=lambda identifier: no_answer.get(identifier, -math.inf))
    for column, name in enumerate(("exact", "f1")):
        current = best = float(len(without_answer))
        threshold = 0.0
        for identifier in order:
            if golds[identifier]:
                current += scores[identifier][column]
            elif texts.get(identifier, "wrong"):
                current -= 1
            if current > best:
                best = current
                threshold = no_answer[identifier]
        result[f"best_{name}"] = 100 * best / len(golds)
        result[f"best_{name}_thresh"] = threshold
    return result


def _means(scores: Sequence[tuple[float, float]]) -> dict[str, float]:
    exact, f1 = (100 * sum(column) / len(scores) for column in zip(*scores, strict=True))
    return {"exact": exact, "f1": f1, "total": len(scores)}
