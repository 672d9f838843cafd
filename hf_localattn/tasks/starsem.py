"""Official scores of *SEM 2012 for predicted negations, and the files that the task's program reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset

from hf_localattn.data.negation_sentences import NegatedSentence, format_starsem
from hf_localattn.files import atomic_write
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.starsem_scores import INSTANCE_SCORES, STARSEM_SCORES

GOLD, PREDICTED = "starsem_gold.txt", "starsem_predicted.txt"

OFFICIAL_SCORES = (*STARSEM_SCORES, *INSTANCE_SCORES)
"""Names of the scores of `score_sentences`."""


def has_tags(rows: Dataset) -> bool:
    """Return True if all rows have part-of-speech tags, which the official scores need."""
    return all(rows["pos"][:])


def score_sentences(gold: Sequence[NegatedSentence], predicted: Sequence[NegatedSentence]) -> dict[str, float]:
    """Return the official scores, and means over negations.

    Args:
        gold: sentences with tags and true negations.
        predicted: the same sentences with predicted negations.
    """
    return load_metric("starsem").compute(
        predictions=[sentence.negations for sentence in predicted],
        references=[sentence.negations for sentence in gold],
        pos=[sentence.pos for sentence in gold],
    )


def write_sentences(
    folder: Path, gold: Sequence[NegatedSentence] | None, predicted: Sequence[NegatedSentence]
) -> None:
    """Write the columns of *SEM 2012 to `starsem_predicted.txt`, and to `starsem_gold.txt` if `gold` is not None."""
    for name, sentences in ((GOLD, gold), (PREDICTED, predicted)):
        if sentences is not None:
            atomic_write(folder / name, format_starsem(sentences))
