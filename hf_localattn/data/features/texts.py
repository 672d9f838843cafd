"""Texts with labels as model inputs, and predictions as text."""

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
    listed,
    read_label,
)


def tokenize_texts(
    rows: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Turn a batch of rows into model inputs of at most `max_length` tokens, with their labels if they have any.

    Of a pair that is too long, the longer text is cut first.
    """
    features = dict(tokenizer(rows["text"], rows.get("text_pair"), truncation=True, max_length=max_length))
    return {**features, "label": rows["label"]} if "label" in rows else features


def number_labels(rows: Dataset, labels: Labels) -> Dataset:
    """Turn the column `label` into what a model is trained on, and drop the column `place`.

    That is a class's number, a 0.0 or 1.0 for each class, or a score. If any row has no label, the whole column goes.

    Raises:
        ValueError: a row's label is not one of `labels`; names the row.
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
        if (
            own.problem_type == SINGLE_LABEL and labels.problem_type == REGRESSION
        ):  # a split may happen to have whole scores only
            return read_label(own.names[label], REGRESSION)
        if own.problem_type != labels.problem_type:
            raise ValueError(f"the labels are for {_spoken(own)}, but those to be predicted for {_spoken(labels)}.")
        for name in (own.names[number] for number in (label if own.problem_type == MULTI_LABEL else [label])):
            if name not in numbers:
                raise ValueError(
                    f"the label {name!r} is outside the label set ({listed(labels.names)}): correct it, or train on"
                    " rows that have it."
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
    """Turn logits (N, labels) into class numbers (N,), 0 or 1 per class (N, labels), or scores (N,)."""
    logits = logits[0] if isinstance(logits, tuple) else logits  # encoder-decoders give their states as well
    if problem_type == REGRESSION:
        return logits[:, 0]
    if problem_type == MULTI_LABEL:
        return (logits > 0).astype(int)  # a probability above a half
    return logits.argmax(axis=-1)


def format_predictions(logits: Any, labels: Labels) -> list[str]:
    """Return each row's prediction as text."""
    predictions = predictions_from_logits(logits, labels.problem_type)
    if labels.problem_type == REGRESSION:
        return [f"{score:.3f}" for score in predictions]
    if labels.problem_type == SINGLE_LABEL:
        return [labels.names[number] for number in predictions]
    chosen = ([name for name, hot in zip(labels.names, row, strict=True) if hot] for row in predictions)
    return [json.dumps(names, ensure_ascii=False) for names in chosen]


def _spoken(labels: Labels) -> str:
    return labels.problem_type.replace("_", " ")
