"""Label sets of texts and words: those of the data, in the order of the checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig

from hf_localattn.data.labels import REGRESSION, SINGLE_LABEL, Labels, labels_of
from hf_localattn.errors import join_names
from hf_localattn.tasks.splits import Splits
from hf_localattn.tasks.task import Checkpoint

logger = logging.getLogger(__name__)


def choose_labels(data: Splits, checkpoint: Checkpoint, *, fixed: bool) -> Labels:
    """Return the labels to predict, based on the data and the checkpoint.

    If data and checkpoint have the same classes in different orders, the order of the checkpoint is kept. Without
    training data, the checkpoint's classes are kept if the data have only some of them.

    Args:
        data: rows by split, as `load_texts` returns them.
        checkpoint: model that is trained or evaluated.
        fixed: True if the task defines the classes, so that the data have no other classes.

    Raises:
        ValueError: there are no labels, there is only one class, or the checkpoint's head has other labels.
    """
    known = checkpoint_labels(checkpoint.config)
    own = next((labels for rows in data.values() if (labels := labels_of(rows)) is not None), None)
    if own is None:
        if known is None:
            raise ValueError("No labels: neither the data nor the model has any; give data with labels.")
        return known
    if known is not None:
        if (same := _in_order_of(known, own)) is not None:
            return same
        if "train" not in data and not fixed and (from_checkpoint := _seen_partly(known, own)) is not None:
            return from_checkpoint
        _check_head(known, own, checkpoint)
    if own.problem_type == SINGLE_LABEL and own.num_labels < 2:
        raise ValueError(f"All rows have the label {own.names[0]!r}: give data with at least two classes.")
    return own


def checkpoint_labels(config: PreTrainedConfig | None) -> Labels | None:
    """Return the labels of a checkpoint's head; None without a configuration."""
    if config is None:
        return None
    problem_type = config.problem_type or (REGRESSION if config.num_labels == 1 else SINGLE_LABEL)
    return Labels(problem_type, () if problem_type == REGRESSION else _names(config))


def labels_in_config(labels: Labels) -> dict[str, Any]:
    """Return the fields of a configuration that describe the labels, including their names for pipelines."""
    fields = label_fields(labels.names) if labels.names else {"num_labels": 1}
    return {**fields, "problem_type": labels.problem_type}


def _names(config: Any) -> tuple[str, ...]:
    return tuple(str(config.id2label[number]) for number in range(config.num_labels))


def _in_order_of(known: Labels, own: Labels) -> Labels | None:
    """Return the data's labels in the checkpoint's order; None if they differ in more than case."""
    spelling = {name.casefold(): name for name in own.names}
    names = [name.casefold() for name in known.names]
    if sorted(names) != sorted(name.casefold() for name in own.names):
        return None
    return own if len(spelling) < len(names) else Labels(own.problem_type, tuple(spelling[name] for name in names))


def _seen_partly(known: Labels, own: Labels) -> Labels | None:
    """Return the checkpoint's labels if evaluation rows match; None if not. Rows may lack some of the labels."""
    if known.problem_type == REGRESSION:  # all scores may happen to be whole numbers
        return known if own.problem_type in (REGRESSION, SINGLE_LABEL) else None
    if known.problem_type != own.problem_type:
        return None
    numbers = tuple(str(number) for number in range(known.num_labels))
    if set(own.names) <= set(numbers) and not set(own.names) <= set(known.names):
        return Labels(own.problem_type, numbers)  # data and predictions use indices instead of names
    return known if _has_real_names(known) else None


def _check_head(known: Labels, own: Labels, checkpoint: Checkpoint) -> None:
    """Raise `ValueError` if the size of a checkpoint's head does not match the data; warn if only the names differ."""
    if known.num_labels != own.num_labels and not checkpoint.may_be_fresh:
        raise ValueError(
            f"{checkpoint.name} predicts {_describe(known)}, but the data have {_describe(own)}. Pass"
            " --ignore_mismatched_sizes to initialize a new head, or choose another model."
        )
    if _has_real_names(known):
        message = "%s predicts %s; taking them for the data's %s."
        logger.warning(message, checkpoint.name, _describe(known), _describe(own))


def _has_real_names(labels: Labels) -> bool:
    return any(name != f"LABEL_{number}" for number, name in enumerate(labels.names))


def _describe(labels: Labels) -> str:
    if labels.problem_type == REGRESSION:
        return "scores"
    return f"{labels.num_labels} labels ({join_names(labels.names)})"


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
