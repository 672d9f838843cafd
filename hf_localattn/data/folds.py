"""Folds for cross-validation: splitting the training data into train, validation and test rows of each run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import datasets
import numpy as np
from datasets import ClassLabel, List

from hf_localattn.errors import join_names
from hf_localattn.extras import LazyExtra

logger = logging.getLogger(__name__)

model_selection = LazyExtra("sklearn.model_selection", "train", "--num_folds")


@dataclass(frozen=True)
class Fold:
    """Number of a run of a cross-validation, counted from 1, of `count` runs that split the rows by the same seed."""

    number: int
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
    random part of the other rows, as large as the fold, but at most half of them. The split depends only on `rows` and
    `fold`.

    `parts` are the names of at most two held-out parts. Rows with the same value of `group_column` stay in one part.
    The parts are stratified by `class_column` if it is a `ClassLabel`. Too few rows or groups are a `ValueError`.
    """
    groups = np.arange(len(rows))
    if group_column is not None:
        numbers: dict[object, int] = {}
        groups = np.asarray([numbers.setdefault(value, len(numbers)) for value in rows[group_column]])
    classes = None
    if class_column is not None and isinstance(rows.features[class_column], ClassLabel):
        classes = np.asarray(rows[class_column][:])
    units = "rows" if group_column is None else f"values of {group_column} (rows with the same one stay together)"

    rest = np.arange(len(rows))
    held_out = {}
    # Number of shares of the rest, each as large as the fold; the share that is held out; and a seed: one per fold, or
    # all folds would draw from the same positions.
    draws = (fold.count, fold.number - 1, fold.seed), (max(fold.count - 1, 2), 0, fold.seed + fold.number)
    for part, (count, chosen, seed) in zip(parts, draws, strict=False):
        if (left := len(np.unique(groups[rest]))) < count:
            raise ValueError(
                f"--num_folds {fold.count}: {part} rows are one of {count} parts, but there are only {left} {units}."
                " Choose fewer folds, or give more data."
            )
        kept, held = _partition(groups[rest], None if classes is None else classes[rest], count, seed)[chosen]
        held_out[part] = rest[held]
        rest = rest[kept]
    return {name: rows.select(numbers) for name, numbers in {"train": rest, **held_out}.items()}


def warn_of_lone_classes(data: Mapping[str, datasets.Dataset], column: str, fold: Fold | None = None) -> None:
    """Warn of classes that are only in the training rows (not evaluated) or never in them (not learned).

    Splits without any class (test rows without labels), and columns that have no `ClassLabel`, are ignored.
    """
    found = {split: _classes_in(rows, column) for split, rows in data.items()}
    trained = found.pop("train", set())
    scored = set().union(*found.values())
    for start, names, why in (
        ("Only the train rows have", trained - scored, "no score shows how well they are learned"),
        ("No train row has", scored - trained, "they are not learned"),
    ):
        if trained and scored and names:
            where = "" if fold is None else f"Fold {fold.number}: "
            logger.warning("%s%s the classes %s: %s.", where, start, join_names(sorted(names)), why)


def _classes_in(rows: datasets.Dataset, column: str) -> set[str]:
    kind, labels = rows.features[column], rows[column][:]
    if isinstance(kind, List):
        kind, labels = kind.feature, [label for own in labels for label in own or ()]
    return {kind.int2str(number) for number in labels if number is not None} if isinstance(kind, ClassLabel) else set()


def _partition(
    groups: np.ndarray, classes: np.ndarray | None, count: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    if len(np.unique(groups)) < len(groups):
        return list(model_selection.GroupKFold(count, shuffle=True, random_state=seed).split(groups, groups=groups))
    if classes is None or np.bincount(classes).max() < count:  # no class is large enough to stratify
        return list(model_selection.KFold(count, shuffle=True, random_state=seed).split(groups))
    with warnings.catch_warnings():
        # `warn_of_lone_classes` reports rare classes
        warnings.filterwarnings("ignore", message="The least populated class")
        return list(model_selection.StratifiedKFold(count, shuffle=True, random_state=seed).split(groups, classes))
