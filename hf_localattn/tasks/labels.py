"""Label sets of texts and words: those of the data, in the order of the checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig

from hf_localattn.data.texts import REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.errors import join_names
from hf_localattn.training.arguments import ModelArguments

logger = logging.getLogger(__name__)


def choose_labels(
    own: Labels | None,
    model_args: ModelArguments,
    config: PreTrainedConfig | None,
    *,
    trained: bool,
    fixed: bool = False,
) -> Labels:
    """Return the labels to predict, based on the data and the checkpoint.

    The checkpoint's labels are kept if they include the data's, and without training. If data and checkpoint have the
    same labels in different spellings, the data's spelling is kept.

    Args:
        own: labels of the data; None if unknown.
        model_args: the model.
        config: configuration of a checkpoint with such a head; None if the head will be new.
        trained: the run trains the model, so that it can learn other labels.
        fixed: the task defines the labels, whatever names the checkpoint has for them.
    """
    known = None if config is None else checkpoint_labels(config)
    if own is None or known is None:
        if own is None and known is None:
            raise ValueError("No labels: neither the data nor the model has any; give data with labels.")
        return own or known  # type: ignore[return-value]
    if own.problem_type == known.problem_type and (same := _spelled(known, own)) is not None:
        return same
    if not trained and not fixed and (of_checkpoint := _without_training(known, own)) is not None:
        return of_checkpoint
    if known.num_labels != own.num_labels and not model_args.ignore_mismatched_sizes:
        raise ValueError(
            f"{model_args.source} predicts {_describe(known)}, but the data have {_describe(own)}. Pass"
            " --ignore_mismatched_sizes to initialize a new head, or choose another model."
        )
    if _has_real_names(known):
        message = "%s predicts %s; taking them for the data's %s."
        logger.warning(message, model_args.source, _describe(known), _describe(own))
    return own


def checkpoint_labels(config: PreTrainedConfig) -> Labels:
    """Return the labels of a checkpoint's head."""
    problem_type = config.problem_type or (REGRESSION if config.num_labels == 1 else SINGLE_LABEL)
    names = () if problem_type == REGRESSION else tuple(str(config.id2label[i]) for i in range(config.num_labels))
    return Labels(problem_type, names)


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a configuration that name the labels; without names those of a single score."""
    if not names:
        return {"num_labels": 1}
    label_ids = {name: number for number, name in enumerate(names)}
    return {"num_labels": len(names), "id2label": dict(enumerate(names)), "label2id": label_ids}


def _spelled(known: Labels, own: Labels) -> Labels | None:
    """Return the checkpoint's labels in the data's spelling; None if the data have others."""
    spelling = {name.casefold(): name for name in own.names}
    names = [name.casefold() for name in known.names]
    if len(spelling) < len(own.names) or len(set(names)) < len(names):  # names that differ only in case
        return known if set(own.names) <= set(known.names) else None
    return (
        Labels(own.problem_type, tuple(map(spelling.get, names, known.names))) if set(spelling) <= {*names} else None
    )


def _without_training(known: Labels, own: Labels) -> Labels | None:
    """Return the checkpoint's labels if evaluation rows may have them; None if not."""
    if known.problem_type == REGRESSION:  # all scores may happen to be whole numbers
        return known if own.problem_type in (REGRESSION, SINGLE_LABEL) else None
    if known.problem_type != own.problem_type:
        return None
    numbers = tuple(str(number) for number in range(known.num_labels))
    if set(own.names) <= set(numbers):
        return Labels(own.problem_type, numbers)  # data and predictions use indices instead of names
    return known if _has_real_names(known) else None


def _has_real_names(labels: Labels) -> bool:
    return any(name != f"LABEL_{number}" for number, name in enumerate(labels.names))


def _describe(labels: Labels) -> str:
    if labels.problem_type == REGRESSION:
        return "scores"
    return f"{labels.num_labels} labels ({join_names(labels.names)})"
