"""Exact match and F1 of SQuAD 2.0, also for answerable and unanswerable questions, and best thresholds."""

import logging

import datasets
import evaluate

from hf_localattn.metrics.squad_scores import REFERENCE_FEATURES, question_scores

logger = logging.getLogger(__name__)

DESCRIPTION = "Exact match and F1 of SQuAD 2.0, where a question may have no answer, in percent."

INPUTS_DESCRIPTION = """
Args:
    predictions: list of {"id", "prediction_text", "no_answer_probability"}; the text "" means "no answer".
    references: list of {"id", "answers": {"text": [...], "answer_start": [...]}}; unanswerable: no texts.
    no_answer_threshold: a greater no_answer_probability makes the prediction "", *optional*, defaults to 1.0. Any
        score can serve as probability, such as the logit of "no answer" minus the logit of the best answer.
Returns:
    exact, f1, total: mean scores in percent, and the number of questions. The same with HasAns_ for answerable and
        NoAns_ for unanswerable questions, if there are any.
    best_exact, best_f1: best scores over all thresholds, at best_exact_thresh and best_f1_thresh; only if
        no_answer_probability differs between questions.
A question without a prediction scores 0, with a warning. The official script excludes such questions, so its scores
are higher if predictions are missing.
Example:
    >>> from hf_localattn.metrics import load_metric
    >>> predictions = [{"id": "1", "prediction_text": "", "no_answer_probability": 0.0}]
    >>> references = [{"id": "1", "answers": {"text": [], "answer_start": []}}]
    >>> load_metric("squad_v2").compute(predictions=predictions, references=references)["exact"]
    100.0
"""


class SquadV2(evaluate.Metric):
    """Exact match and F1 of SQuAD 2.0, with the interface of `squad_v2` in the evaluate library."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD, ACL",
            inputs_description=INPUTS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": {
                        "id": datasets.Value("string"),
                        "prediction_text": datasets.Value("string"),
                        "no_answer_probability": datasets.Value("float32"),
                    },
                    "references": REFERENCE_FEATURES,
                }
            ),
        )

    def _compute(
        self, predictions: list[dict], references: list[dict], no_answer_threshold: float = 1.0
    ) -> dict[str, float]:
        texts = {prediction["id"]: prediction["prediction_text"] for prediction in predictions}
        no_answer = {prediction["id"]: prediction["no_answer_probability"] for prediction in predictions}
        answerable = {reference["id"]: bool(reference["answers"]["text"]) for reference in references}
        raw, thresholded = {}, {}
        for reference in references:
            identifier = reference["id"]
            if identifier not in texts:
                logger.warning("Question %s has no prediction and scores 0.", identifier)
                texts[identifier], no_answer[identifier] = " ", float("-inf")  # not "", which means "no answer"
                raw[identifier] = thresholded[identifier] = (0.0, 0.0)
                continue
            raw[identifier] = question_scores(texts[identifier], reference["answers"]["text"])
            abstains = no_answer[identifier] > no_answer_threshold
            thresholded[identifier] = (float(not answerable[identifier]),) * 2 if abstains else raw[identifier]

        result = _means(list(thresholded.values()))
        for prefix, kind in (("HasAns", True), ("NoAns", False)):
            own = [thresholded[identifier] for identifier in thresholded if answerable[identifier] is kind]
            if own:
                result |= {f"{prefix}_{name}": value for name, value in _means(own).items()}
        if len({prediction["no_answer_probability"] for prediction in predictions}) > 1:
            for column, name in enumerate(("exact", "f1")):
                own_scores = {identifier: scores[column] for identifier, scores in raw.items()}
                best, threshold = _best_threshold(texts, own_scores, no_answer, answerable)
                result |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
        return result


def _means(scores: list[tuple[float, float]]) -> dict[str, float]:
    total = len(scores)
    return {
        "exact": 100 * sum(exact for exact, _ in scores) / total,
        "f1": 100 * sum(f1 for _, f1 in scores) / total,
        "total": total,
    }


def _best_threshold(
    texts: dict[str, str], scores: dict[str, float], no_answer: dict[str, float], answerable: dict[str, bool]
) -> tuple[float, float]:
    """Return the best mean score in percent and its threshold.

    The search starts with "no answer" for all questions, and adds one answer at a time, by increasing no-answer score.
    """
    current = best = float(sum(not has_answer for has_answer in answerable.values()))
    threshold = 0.0
    for identifier in sorted((i for i in no_answer if i in scores), key=no_answer.__getitem__):
        if answerable[identifier]:
            current += scores[identifier]
        elif texts[identifier]:
            current -= 1
        if current > best:
            best, threshold = current, no_answer[identifier]
    return 100 * best / len(scores), threshold
