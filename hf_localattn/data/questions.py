"""Extractive question answering: rows in SQuAD's format and their model inputs, overlapping windows of passages.

The functions for `datasets.map(batched=True)` have keyword arguments and no closure: they can be cached and pickled.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from datasets import Dataset, Features, List, Value
from transformers import PreTrainedTokenizerBase

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
    row_indices,
)
from hf_localattn.errors import shorten
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
        require_answers: Raise an error for rows without `answers`. If False, these rows have no answer.
        require_question: Raise an error for rows without `question`. If False, the question of these rows is "".
        skip_empty: Leave out rows whose context or required question is empty.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The data are invalid. The message names the row, the field and a remedy.
    """
    source = open_source(data, "questions", JSON_SUFFIXES)
    if not isinstance(source.rows, Dataset):
        rows = list(_flatten_articles(Path(source.name), source.rows))
        source = open_source(Source(source.name, rows, source.first), "questions")
    identifier = Column("id", None, remedy=REMEDY)
    context = Column("context", remedy=REMEDY)
    question = Column("question", required=require_question, may_be_empty=not require_question, remedy=REMEDY)
    answers = Column(
        "answers", None, required=require_answers, remedy="an unanswerable question has an empty list there"
    )

    def convert(record: Record) -> Record:
        name = identifier.read(record)
        passage = context.read(record)
        question_text = question.read(record)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise ValueError(f"the field 'id' must be a text or a whole number; found {describe_value(name)}.")
        texts, starts = _read_answers(answers.read(record))
        is_impossible = record.get("is_impossible")
        if not isinstance(is_impossible, bool | None):
            raise ValueError(f"the field 'is_impossible' must be true or false; found {shorten(is_impossible)}.")
        if texts and is_impossible:
            raise ValueError("the question has an answer, but `is_impossible` is true; correct one of them.")
        for text, start in zip(texts, starts, strict=True):
            _check_answer(passage, text, start)
        return {
            "id": str(name),
            "title": str(record.get("title") or ""),
            "context": passage,
            "question": question_text or "",
            "answers": {"text": texts, "answer_start": starts},
        }

    columns = [identifier, context, question, answers]
    rows = convert_rows(source, columns, SQUAD_FEATURES, convert, skip_empty=skip_empty)
    _check_ids(source.name, rows)
    return rows


def load_answered(data: Data, *, require_questions: bool = True, skip_empty: bool = False) -> Dataset:
    """Load the answered questions into the columns of `load_squad`, for question generation.

    Unanswerable questions are left out with a warning. Several questions about the same answer remain separate rows.

    Args:
        data: See `load_squad`.
        require_questions: Raise an error for rows without a question. If False and some rows have none, the column is
            named `KNOWN_LABEL`, and has None there. If no row has one, it is dropped.
        skip_empty: Leave out rows whose context or required question is empty.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The data are invalid, or no question has an answer.
    """
    source = open_source(data, "questions", JSON_SUFFIXES)
    questions = load_squad(source, require_question=require_questions, skip_empty=skip_empty)
    unanswerable = count_unanswerable(questions)
    if questions and unanswerable == len(questions):
        raise ValueError(f"{source.name}: none of the {unanswerable} questions has an answer to generate it from.")
    if unanswerable:
        message = "%s: %d of %d questions have no answer and are left out."
        logger.warning(message, source.name, unanswerable, len(questions))
        answered = [index for index, answers in enumerate(questions["answers"]) if answers["text"]]
        questions = questions.select(answered)
    texts = [text or None for text in questions["question"]]
    column = label_column(texts)
    if column == KNOWN_LABEL:
        return questions.remove_columns("question").add_column(KNOWN_LABEL, texts, feature=Value("string"))
    return questions if column else questions.remove_columns("question")


def count_unanswerable(dataset: Dataset) -> int:
    """Return the number of questions without an answer."""
    return sum(not answers["text"] for answers in dataset["answers"])


def _check_ids(name: str, rows: Dataset) -> None:
    """Raise `ValueError` if two questions have the same id."""
    first_row: dict[str, int] = {}
    for row, identifier in zip(row_indices(rows), rows["id"][:], strict=True):
        earlier = first_row.setdefault(identifier, row)
        if earlier != row:
            raise ValueError(f"{name}: questions {earlier + 1} and {row + 1} have the same id {identifier!r}.")


def _read_answers(answers: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the texts and the starts of answers in one of their two notations; none for None."""
    if answers is None:
        return [], []
    texts = starts = None
    if isinstance(answers, dict):
        texts = answers.get("text")
        starts = answers.get("answer_start")
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
    is_text = isinstance(text, str) and text.strip()
    is_place = isinstance(start, int) and not isinstance(start, bool)
    if not is_text or not is_place:
        values = f"{describe_value(text)} and {describe_value(start)}"
        raise ValueError(f"an answer needs a non-empty 'text' and a whole number as 'answer_start'; found {values}.")
    if start >= 0 and context.startswith(text, start):
        return
    first = context.find(text)
    where = "occurs nowhere in the context" if first < 0 else f"first occurs at {first}; count characters from 0"
    raise ValueError(f"the answer {shorten(text)} is not at answer_start {start}: it {where}.")


def _flatten_articles(path: Path, records: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the questions of SQuAD's nested format with their places, and other records as they are."""
    for a, (place, article) in enumerate(records, start=1):
        if not isinstance(article, dict) or "paragraphs" not in article:
            yield place, article
            continue
        for p, paragraph in enumerate(_children(path, f"article {a}", article, "paragraphs"), start=1):
            where = f"article {a}, paragraph {p}"
            questions = _children(path, where, paragraph, "qas")
            shared = {"title": article.get("title"), "context": paragraph.get("context")}
            shared = {name: value for name, value in shared.items() if value is not None}
            for q, question in enumerate(questions, start=1):
                row = {**shared, **question} if isinstance(question, dict) else question
                yield f"{where}, question {q}", row


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
) -> dict[str, list[Any]]:
    """Tokenize a batch of SQuAD rows into windows with the positions of the first answer's first and last token.

    If there is no answer, or the window does not contain all of it, both are the position that stands for "no answer".
    Characters of an answer that have no token, such as a zero-width space, do not count. Rows whose answer has no
    token at all are left out with a warning.
    """
    windows = _windows(examples, tokenizer, max_length, doc_stride)
    tokens: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, offsets in zip(windows.rows, windows.offsets, strict=True):
        tokens[row] += [offset for offset in offsets if offset is not None]
    answers: dict[int, tuple[int, int] | None] = {}
    left_out = []
    for row, answer in enumerate(examples["answers"]):
        answers[row] = None
        if answer["text"]:
            answers[row] = _characters_with_tokens(answer["text"][0], answer["answer_start"][0], tokens[row])
            if answers[row] is None:
                left_out.append(row)
    if left_out:
        message = "%d questions are left out, because the tokenizer drops their answer: the first is %s, %r."
        first = left_out[0]
        logger.warning(message, len(left_out), examples["id"][first], examples["answers"][first]["text"][0])

    spans = []
    for row, offsets, no_answer in zip(windows.rows, windows.offsets, windows.no_answer_positions, strict=True):
        answer = answers[row]
        span = None if answer is None else token_span(offsets, *answer)
        spans.append(span or (no_answer, no_answer))
    columns = {
        **windows.inputs,
        "start_positions": [first for first, _ in spans],
        "end_positions": [last for _, last in spans],
    }
    if not left_out:
        return columns
    kept = [window for window, row in enumerate(windows.rows) if row not in left_out]
    return {name: [values[window] for window in kept] for name, values in columns.items()}


def evaluation_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of SQuAD rows into windows whose tokens can be mapped back to the passage.

    Additional columns are `example_id`, `offset_mapping` (the characters [start, end) of each token in the passage,
    None outside of it) and `no_answer_position`. Rows need `id`, `question` and `context`.
    """
    windows = _windows(examples, tokenizer, max_length, doc_stride)
    return {
        **windows.inputs,
        "example_id": [examples["id"][row] for row in windows.rows],
        "offset_mapping": windows.offsets,
        "no_answer_position": windows.no_answer_positions,
    }


def token_span(offsets: Sequence[Offsets], start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last token of a window that cover the characters [start, end).

    Args:
        offsets: The characters of each token in the passage, None outside of it.
        start: First character.
        end: Character after the last one.

    Returns:
        The two positions; None if the window does not contain all of these characters.
    """
    inside = [(position, *offset) for position, offset in enumerate(offsets) if offset is not None]
    if not inside or start < inside[0][1] or end > inside[-1][2]:
        return None
    covering = [position for position, begin, stop in inside if begin < end and stop > start]
    return (covering[0], covering[-1]) if covering else None


def _characters_with_tokens(text: str, start: int, tokens: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the characters [start, end) of an answer without those around it that have no token.

    Uncased tokenizers drop combining marks, and most drop zero-width spaces and soft hyphens. `tokens` are the
    characters of all tokens of the passage.
    """
    first = start + len(text) - len(text.lstrip())
    end = start + len(text.rstrip())
    covering = [(begin, stop) for begin, stop in tokens if begin < end and stop > first]
    if not covering:
        return None
    return max(first, min(begin for begin, _ in covering)), min(end, max(stop for _, stop in covering))


@dataclass
class QuestionAnsweringCollator:
    """Pad features to tensors of shape (batch, length), and drop the columns that the model does not take.

    The length is `max_length`, by default the longest feature of each batch, made a multiple of `pad_to_multiple_of`.
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int | None = None
    pad_to_multiple_of: int | None = None

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        others = {*POSITIONS, "example_id", "offset_mapping", "no_answer_position"}
        inputs = [{name: value for name, value in feature.items() if name not in others} for feature in features]
        batch = dict(
            self.tokenizer.pad(
                inputs,
                padding=True if self.max_length is None else "max_length",
                max_length=self.max_length,
                pad_to_multiple_of=self.pad_to_multiple_of,
                return_tensors="pt",
            )
        )
        length = batch["input_ids"].shape[1]
        shifts = [0] * len(features)
        if self.tokenizer.padding_side == "left":
            shifts = [length - len(feature["input_ids"]) for feature in features]
        for name in POSITIONS:
            if name in features[0]:
                positions = [feature[name] + shift for feature, shift in zip(features, shifts, strict=True)]
                batch[name] = torch.tensor(positions)
        return batch


class _Windows(NamedTuple):
    """Windows of a batch of rows: the inputs of a model by name, and a row, tokens and a position for each."""

    inputs: dict[str, list[Any]]
    rows: list[int]
    offsets: list[list[Offsets]]
    no_answer_positions: list[int]


def _windows(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> _Windows:
    length = check_window_settings(tokenizer, max_length, doc_stride)
    questions = [cut_question(question.strip(), tokenizer, length)[0] for question in examples["question"]]
    encoded, rows, offsets = encode_windows(questions, examples["context"], tokenizer, max_length, doc_stride)
    no_answer = [no_answer_position(encoded, window, tokenizer) or 0 for window in range(len(rows))]
    return _Windows(dict(encoded), rows, offsets, no_answer)
