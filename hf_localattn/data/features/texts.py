"""Model inputs for labeled texts, and conversion of logits to predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from datasets import Dataset, List, Value
from transformers import PreTrainedTokenizerBase

from hf_localattn.data.readers.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    labels_of,
    read_label,
)
from hf_localattn.errors import join_names


def tokenize_texts(
    rows: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of texts or pairs of texts to at most `max_length` tokens, and keep labels, if present.

    If a pair is too long, the end of the longer text is cut off.
    """
    features = dict(tokenizer(rows["text"], rows.get("text_pair"), truncation=True, max_length=max_length))
    return {**features, "label": rows["label"]} if "label" in rows else features


def number_labels(rows: Dataset, labels: Labels) -> Dataset:
    """Convert the column `label` to training targets, and drop the column `place`.

    A target is the index of a class, a list with 0.0 or 1.0 per class, or a score. If a row has no label, the whole
    column is dropped.

    Raises:
        ValueError: the label of a row is not one of `labels`. The message names the row.
    """
    own = labels_of(rows)
    column = rows["label"][:]
    bare = rows.remove_columns(["label", "place"])
    if own is None or any(label is None for label in column):
        return bare
    numbers = {name: number for number, name in enumerate(labels.names)}

    def encoded(label: Any) -> Any:
        if own.problem_type == REGRESSION == labels.problem_type:
            return label
        if own.problem_type == SINGLE_LABEL and labels.problem_type == REGRESSION:
            # all scores of a split may happen to be whole numbers
            return read_label(own.names[label], REGRESSION)
        if own.problem_type != labels.problem_type:
            raise ValueError(
                f"the labels are for {_problem_name(own)}, but the model predicts {_problem_name(labels)}: give all"
                " splits the same kind of labels."
            )
        for name in (own.names[number] for number in (label if own.problem_type == MULTI_LABEL else [label])):
            if name not in numbers:
                raise ValueError(
                    f"the label {name!r} is outside the label set ({join_names(labels.names, 20)}): correct it, or add"
                    " training rows with it."
                )
        if own.problem_type == SINGLE_LABEL:
            return numbers[own.names[label]]
        hot = {numbers[own.names[number]] for number in label}
        return [float(number in hot) for number in range(len(labels.names))]

    result = []
    for number, label in enumerate(column):
        try:
            result.append(encoded(label))
        except ValueError as error:
            raise ValueError(f"{rows[number]['place']}: {error}") from None
    kinds = {SINGLE_LABEL: Value("int64"), MULTI_LABEL: List(Value("float32")), REGRESSION: Value("float32")}
    return bare.add_column("label", result, feature=kinds[labels.problem_type])


def predictions_from_logits(logits: Any, problem_type: str) -> np.ndarray:
    """Convert logits (N, labels) to class indices (N,), 0 or 1 per class (N, labels), or scores (N,)."""
    logits = logits[0] if isinstance(logits, tuple) else logits  # encoder-decoders also return hidden states
    if problem_type == REGRESSION:
        return logits[:, 0]
    if problem_type == MULTI_LABEL:
        return (logits > 0).astype(int)  # probability > 0.5
    return logits.argmax(axis=-1)


def format_predictions(logits: Any, labels: Labels) -> list[str]:
    """Return the prediction for each row as text: a class name, a JSON list of names, or a score."""
    predictions = predictions_from_logits(logits, labels.problem_type)
    if labels.problem_type == REGRESSION:
        return [f"{score:.3f}" for score in predictions]
    if labels.problem_type == SINGLE_LABEL:
        return [labels.names[number] for number in predictions]
    chosen = ([name for name, hot in zip(labels.names, row, strict=True) if hot] for row in predictions)
    return [json.dumps(names, ensure_ascii=False) for names in chosen]


def _problem_name(labels: Labels) -> str:
    return labels.problem_type.replace("_", " ")
