"""SQuAD's nested format: articles with paragraphs, paragraphs with questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hf_localattn.data.readers.tables import describe_value


def flatten_articles(path: Path, found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield a record for each question of each article; records that are not articles are passed through.

    Args:
        path: path of the file, for error messages.
        found: pairs of a place in the file and the record at this place.

    Raises:
        ValueError: an article has no list of paragraphs, or a paragraph has no list of questions. The message
            names the place.
    """
    for number, (place, article) in enumerate(found, start=1):
        if not isinstance(article, dict) or "paragraphs" not in article:
            yield place, article
            continue
        for p, paragraph in enumerate(_children(path, f"article {number}", article, "paragraphs"), start=1):
            where = f"article {number}, paragraph {p}"
            for q, question in enumerate(_children(path, where, paragraph, "qas"), start=1):
                shared = {"title": article.get("title"), "context": paragraph.get("context")}
                shared = {key: value for key, value in shared.items() if value is not None}
                yield f"{where}, question {q}", {**shared, **question} if isinstance(question, dict) else question


def _children(path: Path, where: str, parent: Any, field: str) -> list[Any]:
    children = parent.get(field) if isinstance(parent, dict) else None
    if not isinstance(children, list):
        raise ValueError(f"{path}, {where}: expected a list {field!r}; found {describe_value(parent)}.")
    return children
