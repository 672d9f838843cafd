"""Folds for cross-validation: splitting the training data into train, validation and test rows of each run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import datasets
import numpy as np
from datasets import ClassLabel, List
from scipy import sparse
from scipy.sparse import csgraph
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
    inputs: Sequence[str],
    group_column: str | None = None,
    class_column: str | None = None,
) -> dict[str, datasets.Dataset]:
    """Split rows into "train" and held-out parts; each keeps the order of its rows.

    The first part is the fold itself. Over all folds, each row is in the first part exactly once. The second part is a
    random part of the other rows, as large as the fold, but at most half of them. Rows with equal inputs stay in one
    part: a model would know held-out rows by heart.

    Args:
        rows: Rows to split. The split depends only on them and on `fold`.
        fold: Fold to hold out.
        parts: Names of the held-out parts, at most two.
        inputs: Columns of what a model reads. Rows may lack some of them.
        group_column (*optional*): Column. Rows with the same value stay in one part.
        class_column (*optional*): Column by which the parts are stratified if it is a `ClassLabel`.

    Raises:
        ValueError: There are too few rows or groups.
    """
    numbers = _numbers_of(_inputs_of(rows, inputs))
    groups = numbers
    if group_column is not None:
        groups = _connected(numbers, _numbers_of(rows[group_column]))
    if repeats := len(rows) - len(np.unique(numbers)):
        message = "%d of %d rows repeat the input of another row; they are in the same part of each fold."
        logger.info(message, repeats, len(rows))
    classes = None
    if class_column is not None and isinstance(rows.features[class_column], ClassLabel):
        classes = np.asarray(rows[class_column][:])
    units = "different rows" if group_column is None else f"values of {group_column} (equal ones stay together)"

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


def warn_of_shared_inputs(data: Mapping[str, datasets.Dataset], inputs: Sequence[str]) -> None:
    """Warn of held-out rows whose input is also that of a training row. Their scores say little about new rows.

    Args:
        data: Rows by split.
        inputs: Columns of what a model reads.
    """
    if "train" not in data:
        return
    trained = set(_inputs_of(data["train"], inputs))
    for split, rows in data.items():
        shared = 0 if split == "train" else sum(key in trained for key in _inputs_of(rows, inputs))
        if shared:
            message = "%d of %d %s rows repeat the input of a training row: scores on them are too good."
            logger.warning(message, shared, len(rows), split)


def _inputs_of(rows: datasets.Dataset, inputs: Sequence[str]) -> list[Hashable]:
    """Return what a model reads of each row; the index of each row if the rows have no such columns."""
    columns = [rows[name][:] for name in inputs if name in rows.column_names]
    if not columns:
        return list(range(len(rows)))
    return [
        tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row) for row in zip(*columns, strict=True)
    ]


def _numbers_of(values: Iterable[Hashable]) -> np.ndarray:
    """Return the same number for equal values, counted from 0."""
    numbers: dict[Hashable, int] = {}
    return np.asarray([numbers.setdefault(value, len(numbers)) for value in values])


def _connected(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the number of each row's group: rows with a number of `first` or of `second` in common are in one."""
    count = first.max() + 1
    size = count + second.max() + 1
    edges = sparse.coo_array((np.ones(len(first)), (first, count + second)), shape=(size, size))
    _, groups = csgraph.connected_components(edges, directed=False)
    return np.asarray(groups[first])


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
    shared = {"groups": groups} if len(np.unique(groups)) < len(groups) else {}
    if classes is None or np.bincount(classes).max() < count:  # no class is large enough to stratify
        folds = model_selection.GroupKFold if shared else model_selection.KFold
        return list(folds(**options).split(groups, **shared))
    folds = model_selection.StratifiedGroupKFold if shared else model_selection.StratifiedKFold
    with warnings.catch_warnings():
        # `warn_of_lone_classes` reports rare classes
        warnings.filterwarnings("ignore", message="The least populated class")
        return list(folds(**options).split(groups, classes, **shared))
