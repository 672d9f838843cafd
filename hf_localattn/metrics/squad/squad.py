"""Exact match and F1 of SQuAD 1.1."""

import logging

import datasets
import evaluate

from hf_localattn.metrics.squad_scores import REFERENCE_FEATURES, answer_scores, is_blank

logger = logging.getLogger(__name__)

DESCRIPTION = "Exact match and F1 of SQuAD 1.1, in percent."

INPUTS_DESCRIPTION = """
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


class Squad(evaluate.Metric):
    """Exact match and F1 of SQuAD 1.1, with the interface of `squad` in the evaluate library."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text, EMNLP",
            inputs_description=INPUTS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": {"id": datasets.Value("string"), "prediction_text": datasets.Value("string")},
                    "references": REFERENCE_FEATURES,
                }
            ),
        )

    def _compute(self, predictions: list[dict], references: list[dict]) -> dict[str, float]:
        texts = {prediction["id"]: prediction["prediction_text"] for prediction in predictions}
        exact, f1 = 0.0, 0.0
        for reference in references:
            golds = reference["answers"]["text"]
            if not golds:
                raise ValueError(
                    f"question {reference['id']!r} has no answer: use squad_v2 for data with unanswerable questions."
                )
            if reference["id"] not in texts:
                logger.warning("Question %s has no prediction and scores 0.", reference["id"])
                continue
            prediction = texts[reference["id"]]
            scores = [answer_scores(prediction, gold) for gold in golds]
            exact += max(score[0] for score in scores)
            # In the official script of 1.1 a blank prediction has F1 0 even if the gold answer is blank, such as
            # "the"; torchmetrics follows 2.0, where the two agree.
            f1 += 0.0 if is_blank(prediction) else max(score[1] for score in scores)
        return {"exact_match": 100 * exact / len(references), "f1": 100 * f1 / len(references)}
