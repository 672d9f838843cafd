"""Official scores of *SEM 2012 for predicted negations, and the files that the task's program reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from datasets import Dataset

from hf_localattn.data.negation_corpora import format_starsem
from hf_localattn.files import atomic_write
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.starsem_scores import INSTANCE_SCORES, STARSEM_SCORES

Sentences: TypeAlias = Sequence[Sequence[Mapping[str, Any]]]
"""Rows of each sentence, as `group_sentences` returns them."""

GOLD, PREDICTED = "starsem_gold.txt", "starsem_predicted.txt"

OFFICIAL_SCORES = (*STARSEM_SCORES, *INSTANCE_SCORES)
"""Names of the scores of `score_sentences`."""


def has_tags(rows: Dataset) -> bool:
    """Return True if all rows have part-of-speech tags, which the official scores need."""
    return all(rows["pos"][:])


def score_sentences(gold: Sentences, predicted: Sentences) -> dict[str, float]:
    """Return the official scores, and means over negations.

    Args:
        gold: sentences with tags and true negations.
        predicted: the same sentences with predicted negations.
    """
    return load_metric("starsem").compute(
        predictions=list(map(_negations, predicted)),
        references=list(map(_negations, gold)),
        pos=[rows[0]["pos"] for rows in gold],
    )


def _negations(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, list[str]]]:
    """Return the characters of cue and scope of each negation of a sentence."""
    return [{name: row[name] for name in ("cue_text", "scope_text")} for row in rows if any(row["cue_text"])]


def write_sentences(folder: Path, gold: Sentences | None, predicted: Sentences) -> None:
    """Write the columns of *SEM 2012 to `starsem_predicted.txt`, and to `starsem_gold.txt` if `gold` is not None."""
    for name, sentences in ((GOLD, gold), (PREDICTED, predicted)):
        if sentences is not None:
            atomic_write(folder / name, format_starsem(sentences))
