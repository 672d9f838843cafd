"""SQuAD's nested layout: articles of paragraphs of questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hf_localattn.data.readers.tables import Record, shape_of


def nested_records(path: Path, number: int, article: Record) -> Iterator[tuple[str, Any]]:
    """Yield the place of each question of an article, and its record.

    Args:
        path: of the file, for errors.
        number: of the article, from 1.
        article: an object with the list `paragraphs`.

    Raises:
        ValueError: a list is missing; names its place.
    """
    for p, paragraph in enumerate(_children(path, f"article {number}", article, "paragraphs"), start=1):
        where = f"article {number}, paragraph {p}"
        for q, question in enumerate(_children(path, where, paragraph, "qas"), start=1):
            shared = {"title": article.get("title"), "context": paragraph.get("context")}
            shared = {key: value for key, value in shared.items() if value is not None}
            yield f"{where}, question {q}", {**shared, **question} if isinstance(question, dict) else question


def _children(path: Path, where: str, parent: Any, field: str) -> list[Any]:
    children = parent.get(field) if isinstance(parent, dict) else None
    if not isinstance(children, list):
        raise ValueError(f"{path}, {where}: expected a list {field!r}; found {shape_of(parent)}.")
    return children
