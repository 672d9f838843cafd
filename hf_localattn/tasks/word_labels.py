"""Label sets of token classifiers, from the checkpoint or from the data."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig

logger = logging.getLogger(__name__)


def choose_names(of_data: Sequence[str], of_model: Sequence[str], *, trained: bool, may_be_fresh: bool) -> list[str]:
    """Return the label names in order: the data's labels, or the model's if these include the data's.

    Args:
        of_data: possible labels of the data; empty if unknown.
        of_model: labels of the checkpoint's head; empty if the head will be newly initialized.
        trained: True if the run trains the model, so that it can learn other labels.
        may_be_fresh: True if a head of another size may be newly initialized.

    Raises:
        ValueError: no label is known, or the labels of data and model do not match.
    """
    numbered = list(of_model) == [f"LABEL_{number}" for number in range(len(of_model))]
    if not of_data and numbered:
        raise ValueError("The labels are unknown, as neither data nor model names them: give --label_names_file.")
    if set(of_data) <= set(of_model):
        return list(of_model)
    if of_model and not numbered and not trained:
        unknown = sorted(set(of_data) - set(of_model))
        raise ValueError(
            f"The model predicts {', '.join(of_model)}, but the data have {', '.join(unknown)}: choose a model trained"
            " on these labels, or pass --do_train."
        )
    if of_model and len(of_model) != len(of_data) and not may_be_fresh:
        raise ValueError(
            f"The model has a head for {len(of_model)} labels, but the data have {len(of_data)}"
            f" ({', '.join(of_data)}): pass --ignore_mismatched_sizes to initialize a new head."
        )
    if of_model and not numbered:
        logger.warning("The model predicts %s; taking them for %s.", ", ".join(of_model), ", ".join(of_data))
    return list(of_data)


def checkpoint_names(config: PreTrainedConfig | None) -> list[str]:
    """Return the label names of a checkpoint's head; empty without a configuration."""
    return [] if config is None else [config.id2label[number] for number in sorted(config.id2label)]


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a configuration that name the labels."""
    label_ids = {name: number for number, name in enumerate(names)}
    return {"num_labels": len(names), "id2label": dict(enumerate(names)), "label2id": label_ids}
