"""Rows of text classification: texts, or pairs of texts, with labels."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from datasets import Dataset, Features, List, Value

from hf_localattn.data.readers.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    infer_problem_type,
    read_label,
    with_class_labels,
)
from hf_localattn.data.readers.tables import PathLike, Record, as_list, describe_value, read_rows
from hf_localattn.data.schema import PLACE, SKIP, Column, EmptyText, Schema, check_any

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
"""Default names of text columns: the first entry whose columns a data set has is used."""

HEADER_ROWS = 1000
"""Number of rows that are searched for text columns."""


@dataclass(frozen=True)
class TextColumns:
    """Columns of texts and labels, and the kind of labels.

    Attributes:
        texts: text column, or two for pairs; by default an entry of `TEXT_COLUMNS`.
        label: label column.
        names: class names in order; by default inferred from the labels.
        problem_type: `SINGLE_LABEL`, `MULTI_LABEL` or `REGRESSION`; by default inferred from the labels.
        unlabeled: number that means "no label".
        may_be_empty: accept pairs with one empty text.
        skip_unlabeled: leave out rows without a label if labels are required.
    """

    texts: tuple[str, ...] = ()
    label: str = "label"
    names: tuple[str, ...] | None = None
    problem_type: str | None = None
    unlabeled: int | None = None
    may_be_empty: bool = False
    skip_unlabeled: bool = False


def _glue(*texts: str, names: tuple[str, ...] = (), may_be_empty: bool = False) -> TextColumns:
    problem_type = SINGLE_LABEL if names else REGRESSION
    return TextColumns(texts, "label", names or None, problem_type, unlabeled=-1, may_be_empty=may_be_empty)


GLUE_TASKS: dict[str, TextColumns] = {
    "cola": _glue("sentence", names=("unacceptable", "acceptable")),
    "mnli": _glue("premise", "hypothesis", names=("entailment", "neutral", "contradiction")),
    "mrpc": _glue("sentence1", "sentence2", names=("not_equivalent", "equivalent")),
    "qnli": _glue("question", "sentence", names=("entailment", "not_entailment")),
    # a few questions of QQP are empty
    "qqp": _glue("question1", "question2", names=("not_duplicate", "duplicate"), may_be_empty=True),
    "rte": _glue("sentence1", "sentence2", names=("entailment", "not_entailment")),
    "sst2": _glue("sentence", names=("negative", "positive")),
    "stsb": _glue("sentence1", "sentence2"),
    "wnli": _glue("sentence1", "sentence2", names=("not_entailment", "entailment")),
}
"""Columns and classes of GLUE's tasks (Wang et al. 2019), in the Hub's order; test rows have the label -1."""


def load_texts(
    path: PathLike, layout: TextColumns, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Read a file of texts into the columns `text`, `text_pair` (for pairs), `label` and `place`.

    `label` is a `ClassLabel`, a list of `ClassLabel`, or a number; None for rows without a label. `place` is the place
    of a row in the file.

    Args:
        path: UTF-8 file in `.csv`, `.tsv`, `.json` or `.jsonl` format. Several classes of a text are a list; in
            tables, a JSON list.
        layout: columns of the file.
        require_labels: raise an error for rows without a label.
        skip_empty: leave out rows with an empty text, even if `layout.may_be_empty` is set.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file or one of its rows is invalid. The message names the row and a remedy.
    """
    found = read_rows(path, what="texts and labels")
    check_any(found, "texts", str(path))
    records = [record for _, record in found if isinstance(record, dict)]
    for record in records:
        if layout.label in record:
            record[layout.label] = as_list(record[layout.label])
    columns = layout.texts or find_texts(records, str(path))
    problem_type = layout.problem_type or infer_problem_type(record.get(layout.label) for record in records)
    schema = _schema(layout, columns, problem_type, layout.names, require_labels, skip_empty)
    return schema.read(found, str(path))


def normalize_texts(
    dataset: Dataset,
    layout: TextColumns,
    name: str = "data set",
    *,
    require_labels: bool = True,
    skip_empty: bool = False,
) -> Dataset:
    """Convert the rows of a data set to the columns of `load_texts`.

    The names of a `ClassLabel` keep their order.

    Args:
        dataset: data set from the Hub or any other source.
        layout: columns of the data set.
        name: name of the data set, for error messages.
        require_labels: raise an error for rows without a label.
        skip_empty: leave out rows with an empty text.

    Raises:
        ValueError: a column is missing or a row is invalid. The message names the row and a remedy.
    """
    check_any(dataset, "texts", name)
    columns = layout.texts or find_texts(dataset, name)
    kind = dataset.features.get(layout.label)
    several = isinstance(kind, List)
    problem_type = layout.problem_type or (MULTI_LABEL if several else None)
    if problem_type is None:
        problem_type = SINGLE_LABEL if kind is None else infer_problem_type(dataset.unique(layout.label))
    names = layout.names or getattr(kind.feature if several else kind, "names", None)
    schema = _schema(layout, columns, problem_type, names, require_labels, skip_empty)
    return schema.normalize(dataset, name)


def find_texts(records: Iterable[Record], source: str) -> tuple[str, ...]:
    """Return the first entry of `TEXT_COLUMNS` whose columns contain texts in one of the first records.

    Args:
        records: the records; the first `HEADER_ROWS` are searched.
        source: the file or data set, for error messages.

    Raises:
        ValueError: no record has such columns. The message names the columns of the first record.
    """
    has: Record = {}
    for record in islice(records, HEADER_ROWS):
        for columns in TEXT_COLUMNS:
            if all(isinstance(record.get(column), str) for column in columns):
                return columns
        has = has or record
    raise ValueError(
        f"{source}: no known text columns (it has {', '.join(has) or 'none'}). Give one, or two for pairs, with"
        " --text_column_names."
    )


def _schema(
    layout: TextColumns,
    columns: tuple[str, ...],
    problem_type: str,
    names: tuple[str, ...] | None,
    require_labels: bool,
    skip_empty: bool,
) -> Schema:
    remedy = "give the text columns with --text_column_names"
    texts = [Column(column, may_be_empty=layout.may_be_empty and not skip_empty, remedy=remedy) for column in columns]
    label = Column(
        layout.label, None, required=require_labels, remedy="give the label column with --label_column_name"
    )
    labels = {SINGLE_LABEL: Value("string"), MULTI_LABEL: List(Value("string")), REGRESSION: Value("float32")}
    kinds = dict.fromkeys(("text", "text_pair")[: len(columns)], Value("string"))
    features = Features({**kinds, "label": labels[problem_type], PLACE: Value("string")})

    def convert(record: Record) -> Record:
        values = [column.read(record) for column in texts]
        if not "".join(values).strip():
            raise EmptyText(f"the field {str(texts[0])!r} is empty, and so is the other text of the pair; {SKIP}")
        value = record.get(layout.label)
        if not _is_absent(value, layout, names) and (require_labels or str(value) != "-1"):
            value = read_label(value, problem_type, names)
        elif require_labels and layout.label not in record:
            raise label.missing(record)
        elif require_labels and not layout.skip_unlabeled:
            raise ValueError(
                f"the field {layout.label!r} holds no label; found {describe_value(value)}. Correct the row, or leave"
                " out such rows with --skip_unlabeled."
            )
        else:
            value = None
        return {**dict(zip(("text", "text_pair"), values, strict=False)), "label": value}

    def complete(rows: Dataset, source: str) -> Dataset:
        kept = _labeled(rows, source) if require_labels and layout.skip_unlabeled else rows
        return with_class_labels(kept, problem_type, names)

    return Schema("texts", [*texts, label], features, convert, skip_empty=skip_empty, complete=complete)


def _is_absent(label: Any, layout: TextColumns, names: tuple[str, ...] | None) -> bool:
    if label is None or (isinstance(label, str) and not label.strip()):
        return True
    if names is not None and label == -1:  # a missing class in `datasets`
        return True
    return layout.unlabeled is not None and str(label) in (f"{layout.unlabeled}", f"{layout.unlabeled}.0")


def _labeled(rows: Dataset, name: str) -> Dataset:
    """Return the rows that have a label, and log the number of rows left out."""
    numbers = [number for number, label in enumerate(rows["label"][:]) if label is not None]
    if not numbers:
        raise ValueError(f"{name}: no row has a label; give the label column with --label_column_name.")
    if len(numbers) < len(rows):
        logger.warning(
            "%s: leaving out %d of %d rows, which have no label.", name, len(rows) - len(numbers), len(rows)
        )
    return rows.select(numbers)
