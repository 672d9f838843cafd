"""Texts and pairs of texts with labels: files and Hub data sets, checked, then turned into model inputs."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, List, Value

from hf_localattn.data.readers.labels import CLASS, SCORE, SEVERAL, problem_of, read_label, with_class_labels
from hf_localattn.data.readers.tables import Record, as_list, read_rows, shape_of

logger = logging.getLogger(__name__)


TEXT_COLUMNS = (
    ("text", "text_pair"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("text",),
    ("sentence",),
    ("question",),
)
"""Columns that are known to hold texts; the first of these that a data set has are taken if none are named."""


@dataclass(frozen=True)
class Layout:
    """Where a data set has its texts and labels, and what is known of the labels before they are read.

    Attributes:
        texts: one column, or two for pairs; found by `TEXT_COLUMNS` if empty.
        label: the column of the labels.
        names: of the classes by number, where they are fixed.
        problem_type: `CLASS`, `SEVERAL` or `SCORE` of `readers.labels`, where the labels do not tell by themselves.
        unlabelled: a number that stands for "no label".
        may_be_empty: whether a text may be empty, if its other half is not.
        skip_unlabelled: whether rows without a label are left out, where rows must have one.
    """

    texts: tuple[str, ...] = ()
    label: str = "label"
    names: tuple[str, ...] | None = None
    problem_type: str | None = None
    unlabelled: int | None = None
    may_be_empty: bool = False
    skip_unlabelled: bool = False


def _glue(*texts: str, names: tuple[str, ...] = (), may_be_empty: bool = False) -> Layout:
    problem_type = CLASS if names else SCORE
    return Layout(texts, "label", names or None, problem_type, unlabelled=-1, may_be_empty=may_be_empty)


GLUE_TASKS: dict[str, Layout] = {
    "cola": _glue("sentence", names=("unacceptable", "acceptable")),
    "mnli": _glue("premise", "hypothesis", names=("entailment", "neutral", "contradiction")),
    "mrpc": _glue("sentence1", "sentence2", names=("not_equivalent", "equivalent")),
    "qnli": _glue("question", "sentence", names=("entailment", "not_entailment")),
    # a few of Quora's questions are empty
    "qqp": _glue("question1", "question2", names=("not_duplicate", "duplicate"), may_be_empty=True),
    "rte": _glue("sentence1", "sentence2", names=("entailment", "not_entailment")),
    "sst2": _glue("sentence", names=("negative", "positive")),
    "stsb": _glue("sentence1", "sentence2"),
    "wnli": _glue("sentence1", "sentence2", names=("not_entailment", "entailment")),
}
"""Columns and classes of GLUE's tasks (Wang et al. 2019), in the Hub's order; test rows have the label -1."""


def load_texts(path: str | os.PathLike[str], layout: Layout, *, require_labels: bool = True) -> Dataset:
    """Read a file of texts into the columns text, text_pair (of pairs), label and place.

    `label` is a `ClassLabel`, a list of them, or a number; None where there is none. `place` says where a row is from.

    Args:
        path: a `.csv`, `.tsv`, `.json` or `.jsonl` file, UTF-8. Sets of classes are lists; in a cell, as json.
        layout: its columns.
        require_labels: whether a row without a label is an error.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file or one of its rows is not usable; names the row and the remedy.
    """
    path = Path(path)
    found = read_rows(path, what="texts and labels")
    if not found:
        raise ValueError(f"{path}: holds no texts.")
    records = [record for _, record in found if isinstance(record, dict)]
    for record in records:
        if layout.label in record:
            record[layout.label] = as_list(record[layout.label])
    columns = _text_columns(str(path), records[0] if records else {}, layout)
    problem_type = layout.problem_type or problem_of(record.get(layout.label) for record in records)
    rows = []
    for where, record in found:
        place = f"{path}, {where}"
        try:
            rows.append({**_normalised(record, columns, layout, problem_type, require_labels), "place": place})
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    checked = Dataset.from_list(rows, features=_features(columns, problem_type))
    if require_labels and layout.skip_unlabelled:
        checked = _labelled(checked, str(path))
    return with_class_labels(checked, problem_type, layout.names)


def normalize_texts(
    dataset: Dataset, layout: Layout, name: str = "data set", *, require_labels: bool = True
) -> Dataset:
    """Make the checks of `load_texts` on a data set from elsewhere, and return it with the same columns.

    Classes that have names there keep them and their order.

    Raises:
        ValueError: a column is missing or a row is not usable; names the row and the remedy.
    """
    if len(dataset) == 0:
        raise ValueError(f"{name}: holds no texts.")
    columns = _text_columns(name, dataset[0], layout)
    kind = dataset.features.get(layout.label)
    if kind is None and require_labels:
        raise ValueError(
            f"{name}: has no column {layout.label!r} (it has {', '.join(dataset.column_names)}); name the one with the"
            " labels by --label_column_name."
        )
    several = isinstance(kind, List)
    problem_type = layout.problem_type or (SEVERAL if several else None)
    if problem_type is None:
        problem_type = CLASS if kind is None else problem_of(dataset.unique(layout.label))
    names = layout.names or getattr(kind.feature if several else kind, "names", None)

    def normalised(row: Record, index: int) -> Record:
        place = f"{name}, row {index + 1}"
        try:
            own = _normalised(dict(row), columns, layout, problem_type, require_labels, names)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        return {**own, "place": place}

    checked = dataset.map(
        normalised,
        with_indices=True,
        remove_columns=dataset.column_names,
        features=_features(columns, problem_type),
        desc=f"Checking {name}",
    )
    if require_labels and layout.skip_unlabelled:
        checked = _labelled(checked, name)
    return with_class_labels(checked, problem_type, names)


def _text_columns(name: str, first: Record, layout: Layout) -> tuple[str, ...]:
    for columns in [layout.texts] if layout.texts else TEXT_COLUMNS:
        if all(isinstance(first.get(column), str) for column in columns) or (
            layout.texts and set(columns) <= set(first)
        ):
            return columns
    has = f"it has {', '.join(map(str, first)) or 'none'}"
    if layout.texts:
        missing = [column for column in layout.texts if column not in first]
        raise ValueError(
            f"{name}: has no column {', '.join(missing)} ({has}); name those with texts by --text_column_names."
        )
    raise ValueError(
        f"{name}: which columns hold the texts ({has})? Name one, or two for pairs, by --text_column_names."
    )


def _features(columns: tuple[str, ...], problem_type: str) -> Features:
    labels = {CLASS: Value("string"), SEVERAL: List(Value("string")), SCORE: Value("float32")}
    names = ("text", "text_pair")[: len(columns)]
    return Features({**dict.fromkeys(names, Value("string")), "label": labels[problem_type], "place": Value("string")})


def _normalised(
    record: Any,
    columns: tuple[str, ...],
    layout: Layout,
    problem_type: str,
    require_labels: bool,
    names: tuple[str, ...] | None = None,
) -> Record:
    """The texts and the label of a record; raises ValueError without saying where."""
    if not isinstance(record, dict):
        raise ValueError(f"expected an object with {', '.join([*columns, layout.label])}; found {shape_of(record)}.")
    texts = []
    for column in columns:
        text = record.get(column)
        if text is None:
            raise ValueError(f"the field {column!r} is missing (found {', '.join(record) or 'none'}).")
        if not isinstance(text, str):
            raise ValueError(f"the field {column!r} must be a text; found {shape_of(text)}.")
        texts.append(text)
    for column, text in zip(columns, texts, strict=True):
        if not text.strip() and not (layout.may_be_empty and "".join(texts).strip()):
            raise ValueError(f"the field {column!r} is empty.")
    label = record.get(layout.label)
    if _is_absent(label, layout, names) or (not require_labels and str(label) == "-1"):
        if require_labels and layout.label not in record:
            has = f"found {', '.join(record)}"
            raise ValueError(f"the field {layout.label!r} is missing ({has}); name labels by --label_column_name.")
        if require_labels and not layout.skip_unlabelled:
            raise ValueError(
                f"the field {layout.label!r} holds no label; found {shape_of(label)}. Mend the row, or pass"
                " --skip_unlabelled to leave out such rows."
            )
        label = None
    else:
        label = read_label(label, problem_type, layout.names or names)
    return {**dict(zip(("text", "text_pair"), texts, strict=False)), "label": label}


def _labelled(rows: Dataset, name: str) -> Dataset:
    """The rows that have a label; says how many have none."""
    numbers = [number for number, label in enumerate(rows["label"][:]) if label is not None]
    if not numbers:
        raise ValueError(f"{name}: no row has a label; name the column with the labels by --label_column_name.")
    if len(numbers) < len(rows):
        logger.warning(
            "%s: leaving out %d of %d rows, which have no label.", name, len(rows) - len(numbers), len(rows)
        )
    return rows.select(numbers)


def _is_absent(label: Any, layout: Layout, names: tuple[str, ...] | None) -> bool:
    if label is None or (isinstance(label, str) and not label.strip()):
        return True
    if names is not None and label == -1:  # what `datasets` has for a class that is not given
        return True
    return layout.unlabelled is not None and str(label) in (f"{layout.unlabelled}", f"{layout.unlabelled}.0")
