"""SQuAD-style question answering: files and Hub data sets, checked before anything is trained on them."""

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, List, Value

from hf_localattn.data.readers.squad import nested_records
from hf_localattn.data.readers.tables import Record, read_rows, shape_of, shorten

logger = logging.getLogger(__name__)

COLUMNS = ("id", "title", "context", "question", "answers")

SQUAD_FEATURES = Features(
    {
        "id": Value("string"),
        "title": Value("string"),
        "context": Value("string"),
        "question": Value("string"),
        "answers": {"text": List(Value("string")), "answer_start": List(Value("int64"))},
    }
)


def load_squad(
    path: str | os.PathLike[str], *, require_answers: bool = True, require_question: bool = True
) -> Dataset:
    """Reads one file of questions with their passages into the columns id, title, context, question and answers.

    Known layouts: SQuAD's own nested json (1.1 and 2.0), flat json (a list of rows, or `{"data": [rows]}`) and jsonl
    (one row a line). An unanswerable question has an empty list of answers. `answer_start` counts characters.

    Args:
        path: a `.json` or `.jsonl` file, UTF-8.
        require_answers: whether a row without the field `answers` is an error; if not, it counts as unanswered.
        require_question: whether a row without the field `question` is an error; if not, its question is "".

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file or one of its records is not usable; names the record, the field and the remedy.
    """
    path = Path(path)
    rows = []
    for where, record in _records(path):
        try:
            rows.append(_normalised(record, require_answers, require_question))
        except ValueError as error:
            raise ValueError(f"{path}, {where}{_named(record)}: {error}") from None
    if not rows:
        raise ValueError(f"{path}: holds no questions; expected at least one row with {', '.join(COLUMNS)}.")
    _check_unique_ids(str(path), (row["id"] for row in rows))
    return Dataset.from_list(rows, features=SQUAD_FEATURES)


def normalize_squad(
    dataset: Dataset, name: str = "data set", *, require_answers: bool = True, require_question: bool = True
) -> Dataset:
    """Makes the checks of `load_squad` on a data set from elsewhere and returns it with exactly the SQuAD columns.

    Raises:
        ValueError: a column is missing or a row is not usable; names the row and the remedy.
    """
    needed = {"id": True, "context": True, "question": require_question, "answers": require_answers}
    missing = [column for column, wanted in needed.items() if wanted and column not in dataset.column_names]
    if missing:
        raise ValueError(
            f"{name}: has no column {', '.join(missing)} (it has {', '.join(dataset.column_names)}); rename its"
            f" columns to {', '.join(COLUMNS)}, or save it as .jsonl with these fields and pass the file."
        )
    if len(dataset) == 0:
        raise ValueError(f"{name}: holds no questions.")

    def normalised(lazy_record: Record, index: int) -> Record:
        record = dict(lazy_record)
        try:
            return _normalised(record, require_answers, require_question)
        except ValueError as error:
            raise ValueError(f"{name}, row {index + 1}{_named(record)}: {error}") from None

    checked = dataset.map(
        normalised,
        with_indices=True,
        remove_columns=[column for column in dataset.column_names if column not in COLUMNS],
        features=SQUAD_FEATURES,
        desc=f"Checking {name}",
    )
    _check_unique_ids(name, checked["id"])
    return checked


def count_unanswerable(dataset: Dataset) -> int:
    """Returns how many questions of a SQuAD data set have no answer."""
    return sum(not answers["text"] for answers in dataset["answers"])


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields (where in the file, raw record) whatever the layout."""
    what = "questions, passages and answer positions"
    for number, (where, row) in enumerate(read_rows(path, suffixes=(".json", ".jsonl"), what=what), start=1):
        if isinstance(row, dict) and "paragraphs" in row:
            yield from nested_records(path, number, row)
        else:
            yield where, row


def _normalised(record: Any, require_answers: bool, require_question: bool) -> Record:
    """The record with exactly the SQuAD columns; raises ValueError without saying where."""
    if not isinstance(record, dict):
        raise ValueError(f"expected an object with {', '.join(COLUMNS)}; found {shape_of(record)}.")
    if not require_question and record.get("question") is None:
        record = {**record, "question": ""}
    for field in ("id", "context", "question"):
        if record.get(field) is None:
            raise ValueError(f"the field {field!r} is missing (found {', '.join(record) or 'none'}).")
    identifier = record["id"]
    if isinstance(identifier, bool) or not isinstance(identifier, (str, int)):
        raise ValueError(f"the field 'id' must be a text or a whole number; found {shape_of(identifier)}.")
    for field in ("context", "question"):
        if not isinstance(record[field], str):
            raise ValueError(f"the field {field!r} must be a text; found {shape_of(record[field])}.")
        if not record[field].strip() and (field != "question" or require_question):
            raise ValueError(f"the field {field!r} is empty.")
    return {
        "id": str(identifier),
        "title": str(record.get("title") or ""),
        "context": record["context"],
        "question": record["question"],
        "answers": _normalised_answers(record, require_answers),
    }


def _normalised_answers(record: Record, require_answers: bool) -> dict[str, list[Any]]:
    answers = record.get("answers")
    impossible = bool(record.get("is_impossible", False))
    if answers is None:
        if require_answers and not impossible:
            raise ValueError("the field 'answers' is missing (an unanswerable question has an empty list there).")
        answers = []
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
    elif isinstance(answers, list) and all(isinstance(answer, dict) for answer in answers):
        texts = [answer.get("text") for answer in answers]
        starts = [answer.get("answer_start") for answer in answers]
    else:
        texts = starts = None
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        raise ValueError(
            'the field \'answers\' must be {"text": [...], "answer_start": [...]} with lists of equal length, or a'
            f' list of {{"text": ..., "answer_start": ...}}; found {shape_of(answers)}.'
        )
    if impossible and texts:
        raise ValueError("'is_impossible' is true, but there are answers; remove one of the two.")
    for text, start in zip(texts, starts, strict=True):
        _check_answer(record["context"], text, start)
    return {"text": texts, "answer_start": starts}


def _check_answer(context: str, text: Any, start: Any) -> None:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"an answer's 'text' must be a non-empty text; found {shape_of(text)}.")
    if isinstance(start, bool) or not isinstance(start, int):
        raise ValueError(f"an answer's 'answer_start' must be a whole number; found {shape_of(start)}.")
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


def _check_unique_ids(name: str, ids: Iterable[str]) -> None:
    first: dict[str, int] = {}
    for number, identifier in enumerate(ids, start=1):
        if identifier in first:
            raise ValueError(
                f"{name}: questions {first[identifier]} and {number} have the same id {identifier!r};"
                " predictions are stored by id, so make the ids unique."
            )
        first[identifier] = number


def _named(record: Any) -> str:
    identifier = record.get("id") if isinstance(record, dict) else None
    return "" if identifier is None else f" (id {identifier})"


def load_answered(path: str | os.PathLike[str], *, require_questions: bool = True) -> Dataset:
    """Reads the answered questions of a file, see `load_squad`, each to be asked about its first answer.

    Unanswerable questions are left out, with a warning. A passage and answer that several questions are about stay
    as many rows: each is trained on, and a generated question is scored against that of its own row.

    Args:
        path: a `.json` or `.jsonl` file.
        require_questions: whether a row without a question is an error; if not, and if a single row has none, the
            result has no column `question`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file or one of its records is not usable, or nothing is answered.
    """
    return _answered(load_squad(path, require_question=require_questions), str(path))


def normalize_answered(dataset: Dataset, name: str = "data set", *, require_questions: bool = True) -> Dataset:
    """Makes the checks of `load_answered` on a data set from elsewhere with SQuAD's columns, and returns its rows."""
    return _answered(normalize_squad(dataset, name, require_question=require_questions), name)


def _answered(questions: Dataset, name: str) -> Dataset:
    unanswerable = count_unanswerable(questions)
    if unanswerable == len(questions):
        raise ValueError(f"{name}: none of the {unanswerable} questions has an answer, which a question is made from.")
    if unanswerable:
        logger.warning("%s: %d of %d questions have no answer and are left out.", name, unanswerable, len(questions))
        answered = [number for number, gold in enumerate(questions["answers"]) if gold["text"]]
        questions = questions.select(answered)
    return questions if all(questions["question"]) else questions.remove_columns("question")
