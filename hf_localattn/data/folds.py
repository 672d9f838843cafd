"""Folds for cross-validation: splitting the training data into train, validation and test rows of each run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import datasets
import numpy as np
from datasets import ClassLabel, List
from sklearn import model_selection

from hf_localattn.errors import join_names

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fold:
    """One of `count` runs of a cross-validation, counted from 1. All split the rows by the same seed."""

    index: int
    count: int
    seed: int


def split_rows(
    rows: datasets.Dataset,
    fold: Fold,
    parts: Sequence[str],
    *,
    group_column: str | None = None,
    class_column: str | None = None,
) -> dict[str, datasets.Dataset]:
    """Split rows into "train" and held-out parts; each keeps the order of its rows.

    The first part is the fold itself. Over all folds, each row is in the first part exactly once. The second part is a
    random part of the other rows, as large as the fold, but at most half of them.

    Args:
        rows: Rows to split. The split depends only on them and on `fold`.
        fold: Fold to hold out.
        parts: Names of the held-out parts, at most two.
        group_column (*optional*): Column. Rows with the same value stay in one part.
        class_column (*optional*): Column by which the parts are stratified if it is a `ClassLabel`.

    Raises:
        ValueError: There are too few rows or groups.
    """
    groups = np.arange(len(rows))
    if group_column is not None:
        ids: dict[object, int] = {}
        groups = np.asarray([ids.setdefault(value, len(ids)) for value in rows[group_column]])
    classes = None
    if class_column is not None and isinstance(rows.features[class_column], ClassLabel):
        classes = np.asarray(rows[class_column][:])
    units = "rows" if group_column is None else f"values of {group_column} (rows with the same one stay together)"

    rest = np.arange(len(rows))
    held_out = {}
    # The rest is cut into `count` shares, each as large as the fold, of which one is held out.
    # Each fold has its own second seed, or all folds would draw from the same positions.
    first_draw = (fold.count, fold.index - 1, fold.seed)
    second_draw = (max(fold.count - 1, 2), 0, fold.seed + fold.index)
    for part, (count, share, seed) in zip(parts, (first_draw, second_draw), strict=False):
        left = len(np.unique(groups[rest]))
        if left < count:
            raise ValueError(
                f"--num_folds {fold.count}: {part} rows are one of {count} parts, but there are only {left} {units}."
                " Choose fewer folds, or give more data."
            )
        classes_of_rest = None if classes is None else classes[rest]
        train, held = _partition(groups[rest], classes_of_rest, count, seed)[share]
        held_out[part] = rest[held]
        rest = rest[train]
    return {name: rows.select(indices) for name, indices in {"train": rest, **held_out}.items()}


def warn_of_lone_classes(data: Mapping[str, datasets.Dataset], column: str, fold: Fold | None = None) -> None:
    """Warn of classes that are only in the training rows (not evaluated) or never in them (not learned).

    Splits without any class (test rows without labels), and columns that have no `ClassLabel`, are ignored.
    """
    classes = {split: _classes_in(rows, column) for split, rows in data.items()}
    trained = classes.pop("train", set())
    scored = set().union(*classes.values())
    if not trained or not scored:
        return
    where = "" if fold is None else f"Fold {fold.index}: "
    message = f"{where}%s the classes %s: %s."
    if names := join_names(sorted(trained - scored)):
        logger.warning(message, "Only the train rows have", names, "no score shows how well they are learned")
    if names := join_names(sorted(scored - trained)):
        logger.warning(message, "No train row has", names, "they are not learned")


def _classes_in(rows: datasets.Dataset, column: str) -> set[str]:
    """Return the classes that occur in a column; none if it has no `ClassLabel`."""
    feature = rows.features[column]
    labels: Iterable[int | None] = rows[column][:]
    if isinstance(feature, List):
        feature = feature.feature
        labels = chain.from_iterable(filter(None, rows[column][:]))
    if not isinstance(feature, ClassLabel):
        return set()
    return {feature.int2str(label) for label in labels if label is not None}


def _partition(
    groups: np.ndarray, classes: np.ndarray | None, count: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the indices of train and held-out rows for each of `count` shares."""
    options = {"n_splits": count, "shuffle": True, "random_state": seed}
    if len(np.unique(groups)) < len(groups):
        return list(model_selection.GroupKFold(**options).split(groups, groups=groups))
    if classes is None or np.bincount(classes).max() < count:  # no class is large enough to stratify
        return list(model_selection.KFold(**options).split(groups))
    with warnings.catch_warnings():
        # `warn_of_lone_classes` reports rare classes
        warnings.filterwarnings("ignore", message="The least populated class")
        return list(model_selection.StratifiedKFold(**options).split(groups, classes))
