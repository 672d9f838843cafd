"""Extractive question answering: rows in SQuAD's format."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, List, Value

from hf_localattn.data.rows import (
    Column,
    Data,
    Record,
    Source,
    convert_rows,
    describe_value,
    open_source,
    read_rows,
    row_numbers,
    shorten,
)

logger = logging.getLogger(__name__)

SQUAD_FEATURES = Features(
    {
        "id": Value("string"),
        "title": Value("string"),
        "context": Value("string"),
        "question": Value("string"),
        "answers": {"text": List(Value("string")), "answer_start": List(Value("int64"))},
    }
)
SUFFIXES = (".json", ".jsonl")
REMEDY = f"rename the columns to {', '.join(SQUAD_FEATURES)}, or save it as .jsonl with these fields and pass the file"
NO_ANSWER = "an unanswerable question has an empty list there"


def load_squad(
    data: Data,
    *,
    require_answers: bool = True,
    require_question: bool = True,
    skip_empty: bool = False,
) -> Dataset:
    """Load questions into the columns `id`, `title`, `context`, `question` and `answers`.

    A file is SQuAD's nested JSON (1.1 or 2.0), flat JSON (a list of rows, or `{"data": [rows]}`) or JSON lines. An
    unanswerable question has an empty list of answers. `answer_start` counts characters.

    Args:
        data: UTF-8 file in `.json` or `.jsonl` format, or a data set with these columns.
        require_answers: raise an error for rows without `answers`. If False, these rows have no answer.
        require_question: raise an error for rows without `question`. If False, the question of these rows is "".
        skip_empty: leave out rows whose context or required question is empty.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the data are invalid. The message names the row, the field and a remedy.
    """
    if not isinstance(data, Dataset | Source):
        path = Path(data)
        found = read_rows(path, suffixes=SUFFIXES, what="questions, passages and answer positions")
        data = Source(str(path), list(flatten_articles(path, found)))
    elif isinstance(data, Source) and not isinstance(data.rows, Dataset):
        data = Source(data.name, list(flatten_articles(Path(data.name), data.rows)), data.first)
    source = open_source(data, "questions")
    identifier = Column("id", None, remedy=REMEDY)
    context = Column("context", remedy=REMEDY)
    question = Column("question", required=require_question, may_be_empty=not require_question, remedy=REMEDY)
    answers = Column("answers", None, required=require_answers, remedy=NO_ANSWER)

    def convert(record: Record) -> Record:
        name, passage, asked = identifier.read(record), context.read(record), question.read(record)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise ValueError(f"the field 'id' must be a text or a whole number; found {describe_value(name)}.")
        impossible = bool(record.get("is_impossible", False))
        found = record.get("answers") if impossible else answers.read(record)
        texts, starts = _read_answers([] if found is None else found)
        if impossible and texts:
            raise ValueError("'is_impossible' is true, but there are answers; remove one of the two.")
        for text, start in zip(texts, starts, strict=True):
            _check_answer(passage, text, start)
        return {
            "id": str(name),
            "title": str(record.get("title") or ""),
            "context": passage,
            "question": asked or "",
            "answers": {"text": texts, "answer_start": starts},
        }

    columns = [identifier, context, question, answers]
    rows = convert_rows(source, columns, SQUAD_FEATURES, convert, skip_empty=skip_empty)
    _check_ids(rows, source.name)
    return rows


def load_answered(data: Data, *, require_questions: bool = True, skip_empty: bool = False) -> Dataset:
    """Load the answered questions into the columns of `load_squad`, for question generation.

    Unanswerable questions are left out with a warning. Several questions about the same answer remain separate rows:
    all are used for training, and each generated question is compared with the question of its row.

    Args:
        data: see `load_squad`.
        require_questions: raise an error for rows without a question. If False and a row has none, the result has no
            column `question`.
        skip_empty: leave out rows whose context or required question is empty.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the data are invalid, or no question has an answer.
    """
    questions = load_squad(data, require_question=require_questions, skip_empty=skip_empty)
    name = data.name if isinstance(data, Source) else "data set" if isinstance(data, Dataset) else str(data)
    unanswerable = count_unanswerable(questions)
    if unanswerable == len(questions):
        raise ValueError(f"{name}: none of the {unanswerable} questions has an answer to generate a question from.")
    if unanswerable:
        logger.warning("%s: %d of %d questions have no answer and are left out.", name, unanswerable, len(questions))
        questions = questions.select([number for number, gold in enumerate(questions["answers"]) if gold["text"]])
    return questions if all(questions["question"]) else questions.remove_columns("question")


def count_unanswerable(dataset: Dataset) -> int:
    """Return the number of questions without an answer."""
    return sum(not answers["text"] for answers in dataset["answers"])


def _read_answers(answers: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    texts = starts = None
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
    elif isinstance(answers, list) and all(isinstance(answer, dict) for answer in answers):
        texts = [answer.get("text") for answer in answers]
        starts = [answer.get("answer_start") for answer in answers]
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        raise ValueError(
            'the field \'answers\' must be {"text": [...], "answer_start": [...]} with lists of equal length, or a'
            f' list of {{"text": ..., "answer_start": ...}}; found {describe_value(answers)}.'
        )
    return texts, starts


def _check_answer(context: str, text: Any, start: Any) -> None:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"an answer's 'text' must be a non-empty text; found {describe_value(text)}.")
    if isinstance(start, bool) or not isinstance(start, int):
        raise ValueError(f"an answer's 'answer_start' must be a whole number; found {describe_value(start)}.")
    if start >= 0 and context.startswith(text, start):
        return
    found = context[start : start + len(text)] if start >= 0 else ""
    elsewhere = [i for i in range(len(context)) if context.startswith(text, i)]
    if elsewhere:
        places = ", ".join(map(str, elsewhere[:5])) + (", ..." if len(elsewhere) > 5 else "")
        remedy = f"the text occurs at {places}: correct 'answer_start' (characters, counted from 0)."
    else:
        remedy = "the text occurs nowhere in the context: correct the answer or drop the record."
    raise ValueError(f"the answer {shorten(text)} is not at answer_start {start} (there: {shorten(found)}); {remedy}")


def _check_ids(rows: Dataset, name: str) -> None:
    first: dict[str, int] = {}
    for number, identifier in zip(row_numbers(rows), rows["id"], strict=True):
        if identifier in first:
            raise ValueError(
                f"{name}: questions {first[identifier] + 1} and {number + 1} have the same id {identifier!r};"
                " predictions are stored by id, so make the ids unique."
            )
        first[identifier] = number


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
