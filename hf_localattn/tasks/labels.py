"""Labels that a run predicts: those of its data, or of the checkpoint that it starts from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedConfig

from hf_localattn.data.labels import REGRESSION, SINGLE_LABEL, Labels

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Head:
    """Head of the model that a run starts from.

    Args:
        source: Name of the model, for messages.
        labels: Labels of a checkpoint's head; None for a new head.
        is_trained: The run trains it.
        may_change: A head for other labels may be replaced by a new one (`--ignore_mismatched_sizes`).
    """

    source: str
    labels: Labels | None = None
    is_trained: bool = True
    may_change: bool = False


def choose_labels(of_data: Labels | None, head: Head, *, fixed: bool = False) -> Labels:
    """Return the labels to predict, based on the data and the checkpoint.

    The checkpoint's labels are kept if they include the data's, and without training. If data and checkpoint have the
    same labels in different spellings, the data's spelling is kept.

    Args:
        of_data: Labels of the data, or None.
        head: Head of the model.
        fixed: True if the task defines the labels.

    Raises:
        ValueError: There are no labels, or data and checkpoint have other numbers of labels.
    """
    of_model = head.labels
    if of_model is None:
        if of_data is None:
            raise ValueError("No labels: neither the data nor the model has any; give data with labels.")
        return of_data
    if of_data is None:
        return of_model
    is_named = any(name != f"LABEL_{index}" for index, name in enumerate(of_model.names))
    keeps_model = not (head.is_trained or fixed)
    if of_data.problem_type == of_model.problem_type:
        if set(of_data.names) <= set(of_model.names):
            return of_model
        spelled = {name.casefold(): name for name in of_data.names}
        names = tuple(spelled.get(name.casefold(), name) for name in of_model.names)
        if set(of_data.names) <= set(names) and len(set(names)) == len(names):
            return Labels(of_data.problem_type, names)
        indices = tuple(map(str, range(of_model.num_labels)))
        if keeps_model and set(of_data.names) <= set(indices):
            return Labels(of_data.problem_type, indices)  # data and predictions use indices instead of names
        if keeps_model and is_named:
            return of_model
    elif keeps_model and of_model.problem_type == REGRESSION and of_data.problem_type == SINGLE_LABEL:
        return of_model  # all scores may happen to be whole numbers
    if of_model.num_labels != of_data.num_labels and not head.may_change:
        raise ValueError(
            f"{head.source} predicts {of_model}, but the data have {of_data}. Pass --ignore_mismatched_sizes to"
            " initialize a new head, or choose another model."
        )
    if is_named:
        logger.warning("%s predicts %s; taking them for the data's %s.", head.source, of_model, of_data)
    return of_data


def checkpoint_labels(config: PreTrainedConfig) -> Labels:
    """Return the labels of a checkpoint's head."""
    problem_type = config.problem_type or (REGRESSION if config.num_labels == 1 else SINGLE_LABEL)
    if problem_type == REGRESSION:
        return Labels(REGRESSION)
    names = [str(config.id2label[index]) for index in range(config.num_labels)]
    return Labels(problem_type, tuple(names))


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a configuration that name the labels; without names those of a single score."""
    names = names or ["LABEL_0"]
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }
