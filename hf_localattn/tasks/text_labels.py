"""The classes that a run predicts: those of the data, in the order of the checkpoint."""

from __future__ import annotations

import logging
from typing import Any

from transformers import PreTrainedConfig

from hf_localattn.data.readers.labels import REGRESSION, SINGLE_LABEL, Labels, labels_of
from hf_localattn.tasks.splits import Data
from hf_localattn.tasks.task import Checkpoint

logger = logging.getLogger(__name__)


def choose_labels(data: Data, checkpoint: Checkpoint, *, fixed: bool) -> Labels:
    """Return what is predicted: of the training data, or else of what is evaluated and the checkpoint.

    A checkpoint that was trained on the same classes in another order keeps its order.

    Args:
        data: the rows of the splits, as `load_texts` gives them.
        checkpoint: the model that is trained or evaluated.
        fixed: whether the classes are the task's, not merely those that the data happen to have.

    Raises:
        ValueError: the data have no labels or one class only, or the checkpoint's head is for other ones.
    """
    known = checkpoint_labels(checkpoint.config)
    own = next((labels for rows in data.values() if (labels := labels_of(rows)) is not None), None)
    if own is None:
        if known is None:
            raise ValueError("Nothing says which labels there are: neither the data nor the model has any.")
        return known
    if known is not None:
        if (same := _in_order_of(known, own)) is not None:
            return same
        if "train" not in data and not fixed and (from_checkpoint := _seen_partly(known, own)) is not None:
            return from_checkpoint
        _check_head(known, own, checkpoint)
    if own.problem_type == SINGLE_LABEL and own.num_labels < 2:
        raise ValueError(f"All rows have the label {own.names[0]!r}: there is nothing to learn from one class.")
    return own


def checkpoint_labels(config: PreTrainedConfig | None) -> Labels | None:
    """Return the labels of a checkpoint's head from its configuration; None without one."""
    if config is None:
        return None
    problem_type = config.problem_type or (REGRESSION if config.num_labels == 1 else SINGLE_LABEL)
    return Labels(problem_type, () if problem_type == REGRESSION else _names(config))


def labels_in_config(labels: Labels) -> dict[str, Any]:
    """Return the fields of a model's configuration that say what it predicts, so that a pipeline prints names."""
    fields: dict[str, Any] = {"num_labels": labels.num_labels, "problem_type": labels.problem_type}
    if labels.names:
        fields["id2label"] = dict(enumerate(labels.names))
        fields["label2id"] = {name: number for number, name in enumerate(labels.names)}
    return fields


def _names(config: Any) -> tuple[str, ...]:
    return tuple(str(config.id2label[number]) for number in range(config.num_labels))


def _in_order_of(known: Labels, own: Labels) -> Labels | None:
    """The data's labels in the checkpoint's order, if they are the same but for capitals."""
    spelling = {name.casefold(): name for name in own.names}
    names = [name.casefold() for name in known.names]
    if sorted(names) != sorted(name.casefold() for name in own.names):
        return None
    return own if len(spelling) < len(names) else Labels(own.problem_type, tuple(spelling[name] for name in names))


def _seen_partly(known: Labels, own: Labels) -> Labels | None:
    """The checkpoint's labels, if those of rows to evaluate, which need not have all of them, go with them."""
    if known.problem_type == REGRESSION:  # the scores may happen to be whole numbers
        return known if own.problem_type in (REGRESSION, SINGLE_LABEL) else None
    if known.problem_type != own.problem_type:
        return None
    numbers = tuple(str(number) for number in range(known.num_labels))
    if set(own.names) <= set(numbers) and not set(own.names) <= set(known.names):
        return Labels(own.problem_type, numbers)  # the data number the classes, and so do the predictions
    return known if _has_real_names(known) else None


def _check_head(known: Labels, own: Labels, checkpoint: Checkpoint) -> None:
    """Raise `ValueError` if a checkpoint's head does not fit the data, and warn if it fits by its size alone."""
    if known.num_labels != own.num_labels and not checkpoint.may_be_fresh:
        raise ValueError(
            f"{checkpoint.name} predicts {_spoken(known)}, but the data have {_spoken(own)}. Pass"
            " --ignore_mismatched_sizes to start its head afresh, or choose another model."
        )
    if _has_real_names(known):
        logger.warning("%s predicts %s; taking them for the data's %s.", checkpoint.name, _spoken(known), _spoken(own))


def _has_real_names(labels: Labels) -> bool:
    return any(name != f"LABEL_{number}" for number, name in enumerate(labels.names))


def _spoken(labels: Labels) -> str:
    if labels.problem_type == REGRESSION:
        return "scores"
    names = ", ".join(labels.names[:10]) + (", …" if labels.num_labels > 10 else "")
    return f"{labels.num_labels} labels ({names})"
