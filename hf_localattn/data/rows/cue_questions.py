"""Rows that ask for the cues of a sentence, next to the rows that ask for the scope of a cue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from datasets import Dataset, Features, List, Value

from hf_localattn.data.readers.negation.rows import NEGATION_FEATURES, no_cue_columns
from hf_localattn.models.negation_finder import OUTSIDE, cue_label

QUESTION_FEATURES = Features({**NEGATION_FEATURES, "cue_labels": List(Value("string"))})
"""`NEGATION_FEATURES` and `cue_labels`: the label of each word in rows that ask for cues, empty in other rows."""


def add_questions(rows: Dataset, limit: int | None = None) -> Dataset:
    """Add a row for each sentence, which asks for its cues. It comes before the rows with its cues.

    Args:
        rows: rows of `NEGATION_FEATURES`. Sentences without a cue have a row without one.
        limit (*optional*): maximum number of `rows` to use. A sentence is used only if all its rows are within the
            limit, except for the first sentence.
    """
    sentences: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        sentences.setdefault((row["document_id"], row["sentence_id"], *row["tokens"]), []).append(row)
    questions_and_rows: list[dict[str, Any]] = []
    used = 0
    for sentence in sentences.values():
        used += len(sentence)
        if limit is not None and used > limit and questions_and_rows:
            break
        first, known = sentence[0], all(row["scope"] for row in sentence)
        question = {
            **first,
            "id": first["sentence_id"],
            **no_cue_columns(len(first["tokens"]), known=known),
            "cue_labels": labels_of_cues(sentence),
        }
        cues = [{**row, "cue_labels": []} for row in sentence if any(row["cue"])]
        questions_and_rows += [question, *cues]
    return Dataset.from_list(questions_and_rows, features=QUESTION_FEATURES)


def split_sentences(rows: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows of each sentence, given the rows of `add_questions`. The first row asks for the cues."""
    sentences: list[list[dict[str, Any]]] = []
    for row in rows:
        if any(row["cue"]):
            sentences[-1].append(row)
        else:
            sentences.append([row])
    return sentences


def labels_of_cues(sentence: Sequence[dict[str, Any]]) -> list[str]:
    """Return the label of each word of a sentence, given its rows. A word of two cues has the label of the first."""
    labels = [OUTSIDE] * len(sentence[0]["tokens"])
    for row in sentence:
        for word, is_cue in enumerate(row["cue"]):
            if is_cue and labels[word] == OUTSIDE:
                labels[word] = cue_label(row["cue_kind"], row["cue_type"])
    return labels
