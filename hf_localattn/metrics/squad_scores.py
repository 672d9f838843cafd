"""Reference format and answer scores of both SQuAD metrics; torchmetrics compares the answers."""

from collections.abc import Sequence
from functools import lru_cache

from datasets import List, Value

from hf_localattn.extras import LazyExtra

text_metrics = LazyExtra("torchmetrics.functional.text", "train", "A score of answers")  # takes seconds to import

REFERENCE_FEATURES = {
    "id": Value("string"),
    "answers": {"text": List(Value("string")), "answer_start": List(Value("int32"))},
}


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
