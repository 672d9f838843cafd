"""The labels that a token classifier knows, in their order: those of its checkpoint, or those of the data."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig

logger = logging.getLogger(__name__)


def choose_names(of_data: Sequence[str], of_model: Sequence[str], *, trained: bool, may_be_fresh: bool) -> list[str]:
    """Return the labels of a model by number: its own if it knows all of the data's, else the data's.

    Args:
        of_data: the labels that the data may have; none if unknown.
        of_model: those of the checkpoint's head; none if its head is a fresh one.
        trained: whether the model is trained on the data, and can learn others.
        may_be_fresh: whether a head of another size starts afresh.

    Raises:
        ValueError: no label is known, or those of data and model do not go together.
    """
    numbered = list(of_model) == [f"LABEL_{number}" for number in range(len(of_model))]
    if not of_data and numbered:
        raise ValueError("It is not known which labels there are: the model names none; give --label_names_file.")
    if set(of_data) <= set(of_model):
        return list(of_model)
    if of_model and not numbered and not trained:
        unknown = sorted(set(of_data) - set(of_model))
        raise ValueError(
            f"The model knows {', '.join(of_model)}, but the data have {', '.join(unknown)}: choose a model that was"
            " trained on such labels, or train it by --do_train."
        )
    if of_model and len(of_model) != len(of_data) and not may_be_fresh:
        raise ValueError(
            f"The model has a head for {len(of_model)} labels, but the data have {len(of_data)}"
            f" ({', '.join(of_data)}): pass --ignore_mismatched_sizes to start its head afresh."
        )
    if of_model and not numbered:
        logger.warning("The model knows %s; taking them for %s.", ", ".join(of_model), ", ".join(of_data))
    return list(of_data)


def checkpoint_names(config: PreTrainedConfig | None) -> list[str]:
    """Return the labels of a checkpoint's head from its configuration; none without one."""
    return [] if config is None else [config.id2label[number] for number in sorted(config.id2label)]


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a model's configuration that name its labels."""
    label_ids = {name: number for number, name in enumerate(names)}
    return {"num_labels": len(names), "id2label": dict(enumerate(names)), "label2id": label_ids}
