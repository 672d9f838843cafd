"""Extractive question answering: rows in SQuAD's format and their model inputs, overlapping windows of passages.

The functions for `datasets.map(batched=True)` have keyword arguments and no closure: they can be cached and pickled.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, Features, List, Value
from transformers import BatchEncoding, PreTrainedTokenizerBase

from hf_localattn.data.rows import (
    JSON_SUFFIXES,
    KNOWN_LABEL,
    Column,
    Data,
    Record,
    Source,
    check_is_fast,
    convert_rows,
    describe_value,
    label_column,
    open_source,
    row_numbers,
    shorten,
)
from hf_localattn.models.pipeline_question_answering import (
    MIN_NEW_TOKENS,
    Offsets,
    cut_question,
    encode_windows,
    no_answer_position,
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
REMEDY = f"rename the columns to {', '.join(SQUAD_FEATURES)}, or save it as .jsonl with these fields and pass the file"
POSITIONS = ("start_positions", "end_positions")


def load_squad(
    data: Data, *, require_answers: bool = True, require_question: bool = True, skip_empty: bool = False
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
    source = open_source(data, "questions", JSON_SUFFIXES)
    if not isinstance(source.rows, Dataset):
        rows = list(_flatten_articles(Path(source.name), source.rows))
        source = open_source(Source(source.name, rows, source.first), "questions")
    identifier = Column("id", None, remedy=REMEDY)
    context = Column("context", remedy=REMEDY)
    question = Column("question", required=require_question, may_be_empty=not require_question, remedy=REMEDY)
    remedy = "an unanswerable question has an empty list there"
    answers = Column("answers", None, required=require_answers, remedy=remedy)

    def convert(record: Record) -> Record:
        name, passage, asked = identifier.read(record), context.read(record), question.read(record)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise ValueError(f"the field 'id' must be a text or a whole number; found {describe_value(name)}.")
        found = answers.read(record)
        texts, starts = _read_answers([] if found is None else found)
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
    first: dict[str, int] = {}
    for number, name in zip(row_numbers(rows), rows["id"][:], strict=True):
        if first.setdefault(name, number) != number:
            raise ValueError(f"{source.name}: questions {first[name] + 1} and {number + 1} have the same id {name!r}.")
    return rows


def load_answered(data: Data, *, require_questions: bool = True, skip_empty: bool = False) -> Dataset:
    """Load the answered questions into the columns of `load_squad`, for question generation.

    Unanswerable questions are left out with a warning. Several questions about the same answer remain separate rows.

    Args:
        data: see `load_squad`.
        require_questions: raise an error for rows without a question. If False and some rows have none, the column is
            named `KNOWN_LABEL`, and has None there. If no row has one, it is dropped.
        skip_empty: leave out rows whose context or required question is empty.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the data are invalid, or no question has an answer.
    """
    source = open_source(data, "questions", JSON_SUFFIXES)
    questions, name = load_squad(source, require_question=require_questions, skip_empty=skip_empty), source.name
    unanswerable = count_unanswerable(questions)
    if questions and unanswerable == len(questions):
        raise ValueError(f"{name}: none of the {unanswerable} questions has an answer to generate a question from.")
    if unanswerable:
        logger.warning("%s: %d of %d questions have no answer and are left out.", name, unanswerable, len(questions))
        questions = questions.select([number for number, gold in enumerate(questions["answers"]) if gold["text"]])
    texts = [text or None for text in questions["question"]]
    column = label_column(texts)
    if column == KNOWN_LABEL:
        return questions.remove_columns("question").add_column(KNOWN_LABEL, texts, feature=Value("string"))
    return questions if column else questions.remove_columns("question")


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
            "the field 'answers' must be a list of objects with 'text' and 'answer_start', or an object with two lists"
            f" of equal length; found {describe_value(answers)}."
        )
    return texts, starts


def _check_answer(context: str, text: Any, start: Any) -> None:
    if not isinstance(text, str) or not text.strip() or isinstance(start, bool) or not isinstance(start, int):
        found = f"found {describe_value(text)} and {describe_value(start)}"
        raise ValueError(f"an answer needs a non-empty 'text' and a whole number as 'answer_start'; {found}.")
    if start >= 0 and context.startswith(text, start):
        return
    place = context.find(text)
    where = "occurs nowhere in the context" if place < 0 else f"first occurs at {place}; count characters from 0"
    raise ValueError(f"the answer {shorten(text)} is not at answer_start {start}: it {where}.")


def _flatten_articles(path: Path, found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for number, (place, article) in enumerate(found, start=1):
        if not isinstance(article, dict) or "paragraphs" not in article:
            yield place, article
            continue
        for p, paragraph in enumerate(_children(path, f"article {number}", article, "paragraphs"), start=1):
            where = f"article {number}, paragraph {p}"
            for q, question in enumerate(_children(path, where, paragraph, "qas"), start=1):
                given = {"title": article.get("title"), "context": paragraph.get("context")}
                shared = {name: value for name, value in given.items() if value is not None}
                yield f"{where}, question {q}", {**shared, **question} if isinstance(question, dict) else question


def _children(path: Path, where: str, parent: Any, field: str) -> list[Any]:
    children = parent.get(field) if isinstance(parent, dict) else None
    if not isinstance(children, list):
        raise ValueError(f"{path}, {where}: expected a list {field!r}; found {describe_value(parent)}.")
    return children


def check_window_settings(tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int) -> int:
    """Return the maximum number of question tokens in windows of `max_length` tokens that overlap by `doc_stride`.

    A slow tokenizer, or an overlap that leaves no room in the window, is a `ValueError`.
    """
    check_is_fast(tokenizer, "windows need character offsets")
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    if not 0 <= doc_stride <= room - 2:
        raise ValueError(
            f"doc_stride {doc_stride} does not fit: choose one from 0 to {max(room - 2, 0)} (usually a third of the"
            f" window of {max_length} tokens), or a larger max_seq_length."
        )
    return room - doc_stride - min(MIN_NEW_TOKENS, (room - doc_stride) // 2)


def train_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> BatchEncoding:
    """Tokenize a batch of SQuAD rows into windows with the positions of the first answer's first and last token.

    If there is no answer, or the window does not contain all of it, both are those of the classification token.
    """
    encoded, rows, offsets, nulls = _windows(examples, tokenizer, max_length, doc_stride)
    spans = []
    for row, own, null in zip(rows, offsets, nulls, strict=True):
        answers, span = examples["answers"][row], None
        if answers["text"]:
            text, first = answers["text"][0], answers["answer_start"][0]
            span = token_span(own, first + len(text) - len(text.lstrip()), first + len(text.rstrip()))
        spans.append(span or (null, null))
    for place, name in enumerate(POSITIONS):
        encoded[name] = [span[place] for span in spans]
    return encoded


def evaluation_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> BatchEncoding:
    """Tokenize a batch of SQuAD rows into windows whose tokens can be mapped back to the passage.

    Additional columns are `example_id`, `offset_mapping` (the characters [start, end) of each token in the passage,
    None outside of it) and `cls_position`. Rows need `id`, `question` and `context`.
    """
    encoded, rows, offsets, nulls = _windows(examples, tokenizer, max_length, doc_stride)
    names = [examples["id"][row] for row in rows]
    return BatchEncoding({**encoded, "example_id": names, "offset_mapping": offsets, "cls_position": nulls})


def token_span(offsets: list[tuple[int, int] | None], start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last token that cover the characters [start, end); None if a character is not covered.

    `offsets` are the characters of each token in the passage, None outside of it.
    """
    inside = [(position, *offset) for position, offset in enumerate(offsets) if offset is not None]
    if not inside or start < inside[0][1] or end > inside[-1][2]:
        return None
    covering = [position for position, begin, finish in inside if begin < end and finish > start]
    return (covering[0], covering[-1]) if covering else None


@dataclass
class QuestionAnsweringCollator:
    """Pad features to tensors of shape (batch, length), and drop the columns that the model does not take.

    The length is `max_length`, by default the longest feature of each batch, made a multiple of `pad_to_multiple_of`.
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int | None = None
    pad_to_multiple_of: int | None = None

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        others = {*POSITIONS, "example_id", "offset_mapping", "cls_position"}
        inputs = [{name: value for name, value in row.items() if name not in others} for row in features]
        sizes = {"max_length": self.max_length, "pad_to_multiple_of": self.pad_to_multiple_of}
        padding = True if self.max_length is None else "max_length"
        batch = dict(self.tokenizer.pad(inputs, padding=padding, return_tensors="pt", **sizes))
        length, pads_left = batch["input_ids"].shape[1], self.tokenizer.padding_side == "left"
        shifts = [(length - len(row["input_ids"])) * pads_left for row in features]
        for name in POSITIONS:
            if name in features[0]:
                batch[name] = torch.tensor([row[name] + shift for row, shift in zip(features, shifts, strict=True)])
        return batch


def _windows(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> tuple[BatchEncoding, list[int], list[list[Offsets]], list[int]]:
    """Return the inputs of all windows, and for each its row, the offsets of its tokens, and its "no answer" token."""
    question_length = check_window_settings(tokenizer, max_length, doc_stride)
    questions = [cut_question(question.strip(), tokenizer, question_length)[0] for question in examples["question"]]
    encoded, rows, offsets = encode_windows(questions, examples["context"], tokenizer, max_length, doc_stride)
    nulls = [no_answer_position(encoded, window, tokenizer) or 0 for window in range(len(rows))]
    return encoded, rows, offsets, nulls
