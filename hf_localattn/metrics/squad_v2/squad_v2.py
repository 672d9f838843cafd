"""SQuAD 2.0's exact match and F1, with and without the unanswerable questions, and the best no-answer thresholds."""

import logging

import datasets
import evaluate

from hf_localattn.metrics.squad_scores import REFERENCE_FEATURES, answer_scores, is_blank

logger = logging.getLogger(__name__)

DESCRIPTION = "Exact match and F1 of SQuAD 2.0, where a question may have no answer, in percent."

INPUTS_DESCRIPTION = """
Args:
    predictions: list of {"id", "prediction_text", "no_answer_probability"}; text "" predicts that there is no answer.
    references: list of {"id", "answers": {"text": [...], "answer_start": [...]}}; no answers: unanswerable.
    no_answer_threshold: a no_answer_probability above it makes the prediction "" (any increasing score will do for a
        probability, such as the difference of the "no answer" and the best answer's logits).
Returns:
    exact, f1, total and the same of the answerable (HasAns_) and unanswerable questions (NoAns_), where there are
    any; if no_answer_probability differs between questions also best_exact and best_f1, reachable by choosing the
    threshold on these data, and best_exact_thresh and best_f1_thresh. A question without a prediction scores 0, with a
    warning. The official script leaves such questions out, so that a system is scored on those it likes to answer:
    with any missing, its numbers are higher.
"""


class SquadV2(evaluate.Metric):
    """Exact match and F1 of SQuAD 2.0 with the interface of the evaluate library's metric of this name."""

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
                texts[identifier], no_answer[identifier] = " ", float("-inf")  # a text, so not "no answer"
                raw[identifier] = thresholded[identifier] = (0.0, 0.0)
                continue
            golds = [gold for gold in reference["answers"]["text"] if not is_blank(gold)] or [""]
            scores = [answer_scores(texts[identifier], gold) for gold in golds]
            raw[identifier] = (max(score[0] for score in scores), max(score[1] for score in scores))
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
    """Best mean score in percent and its threshold; starts from "no answer" everywhere and lets go one by one."""
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
