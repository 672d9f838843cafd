"""Folds for cross-validation: which rows of the training data train, validate and test in each of its runs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import datasets
import numpy as np
from datasets import ClassLabel, List
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

logger = logging.getLogger(__name__)

MOST_NAMES = 10
"""Names of classes in a warning."""


@dataclass(frozen=True)
class Fold:
    """One run of a cross-validation.

    Attributes:
        number: number of the fold, from 1.
        count: how many there are.
        seed: of the partition, the same in all of them.
    """

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
    """Split rows into "train" and the parts that are held out of it, rows of each in their old order.

    The first part is the fold itself: over all folds every row is in it once. The second one is drawn from the rest
    and as large, but at most half of the rest (which two folds would leave without anything to train on).

    Args:
        rows: the training data.
        fold: which split. Nothing but `rows` and `fold` decides on it.
        parts: names of at most two parts; without any all rows train.
        group_column: rows with the same value there are never parted.
        class_column: a column whose classes every part has in the same shares, if it is a `ClassLabel`.

    Raises:
        ValueError: there are more folds than rows or groups, too few are left to train on, or no such column.
    """
    groups = _groups(rows, group_column)
    classes = None
    if class_column is not None and isinstance(rows.features[class_column], ClassLabel):
        classes = np.asarray(rows[class_column][:])
    units = "rows" if group_column is None else f"different values of {group_column}, whose rows stay together"

    total = len(np.unique(groups))
    if parts and total < fold.count:
        raise ValueError(
            f"--num_folds {fold.count} needs at least {fold.count} {units}; the training data have {total}."
            " Choose fewer folds."
        )
    rest = np.arange(len(rows))
    held_out = {}
    for part, count, chosen, seed in zip(
        parts,
        (fold.count, max(fold.count - 1, 2)),  # a share of the rest that is as large as the fold
        (fold.number - 1, 0),
        (fold.seed, fold.seed + fold.number),  # or each fold would draw from the same places of its rest
        strict=False,
    ):
        if (left := len(np.unique(groups[rest]))) < count:
            raise ValueError(
                f"--num_folds {fold.count} leaves too few to train on: of {total} {units}, {left} are left for"
                " validation and training. Give more data, or --validation_file."
            )
        kept, held = _partition(groups[rest], None if classes is None else classes[rest], count, seed)[chosen]
        held_out[part] = rest[held]
        rest = rest[kept]
    return {name: rows.select(numbers) for name, numbers in {"train": rest, **held_out}.items()}


def warn_of_lone_classes(data: Mapping[str, datasets.Dataset], column: str, fold: Fold | None = None) -> None:
    """Warn of classes that are not learnt, as no training row has them, or not evaluated, as no other row has.

    Args:
        data: splits. Those without any class are left out, such as test rows without labels.
        column: of classes, or of sets of them. Nothing is said where it is no `ClassLabel`, nor a list of them.
        fold: which run of a cross-validation has these splits, for the warning.
    """
    found = {split: names for split, rows in data.items() if (names := _classes_in(rows, column))}
    where = "" if fold is None else f"Fold {fold.number}: "
    lone: set[str] = set()
    for split, names in found.items():
        others = [own for other, own in found.items() if other != split]
        if others and (own := names.difference(*others)):
            lone |= own
            why = "no score will tell how well they are learnt" if split == "train" else "they are not learnt"
            logger.warning("%sOnly the %s rows have the classes %s: %s.", where, split, _listed(own), why)
    if "train" in found and (missing := set().union(*found.values()) - found["train"] - lone):
        logger.warning(
            "%sNo train row has the classes %s, which the other splits have: they are not learnt.",
            *(where, _listed(missing)),
        )


def _classes_in(rows: datasets.Dataset, column: str) -> set[str]:
    """The names of the classes that rows have."""
    kind = rows.features[column]
    if isinstance(kind, ClassLabel):
        numbers = set(rows.unique(column))
    elif isinstance(kind, List) and isinstance(kind.feature, ClassLabel):
        kind, numbers = kind.feature, {number for numbers in rows[column][:] for number in numbers or ()}
    else:
        return set()
    return {kind.int2str(number) for number in numbers if number is not None}


def _listed(names: set[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(sorted(names)[:MOST_NAMES]) + more


def _groups(rows: datasets.Dataset, column: str | None) -> np.ndarray:
    """The number of each row's group; by default every row is one by itself."""
    if column is None:
        return np.arange(len(rows))
    if column not in rows.column_names:
        raise ValueError(
            f"--num_folds keeps together the rows that have one {column}, but the training data have no such column;"
            f" they have {', '.join(rows.column_names)}."
        )
    numbers: dict[object, int] = {}
    return np.asarray([numbers.setdefault(value, len(numbers)) for value in rows[column]])


def _partition(
    groups: np.ndarray, classes: np.ndarray | None, count: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Places that stay and places that are held out, for each of `count` shuffled shares."""
    if len(np.unique(groups)) < len(groups):
        return list(GroupKFold(count, shuffle=True, random_state=seed).split(groups, groups=groups))
    if classes is None or np.bincount(classes).max() < count:  # no class has a row for each share
        return list(KFold(count, shuffle=True, random_state=seed).split(groups))
    with warnings.catch_warnings():
        # Of rare classes `warn_of_lone_classes` says more.
        warnings.filterwarnings("ignore", message="The least populated class")
        return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(groups, classes))
