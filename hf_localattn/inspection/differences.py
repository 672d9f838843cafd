"""Rows that two models answer differently, with the correct answers (as in the examples of the COOL paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import ClassLabel, Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.labels import SINGLE_LABEL
from hf_localattn.data.texts import tokenize_texts
from hf_localattn.data.words import word_features
from hf_localattn.inference import answer_question, find_scope
from hf_localattn.metrics.squad_scores import answer_scores, is_blank
from hf_localattn.model_utils import MOST_TOKENS, evaluating
from hf_localattn.models.forward_inputs import accepted_inputs, longest_input
from hf_localattn.registry import task_of_class

NO_ANSWER = "(no answer)"
EXCERPT = 60
"""Number of characters of a passage shown on each side of the answers."""


@dataclass(frozen=True)
class Difference:
    """A row that two models answer differently.

    Attributes:
        name: Id of the row, or its number from 1.
        question: Question, or text to label.
        context: Excerpt of the passage around the correct answers; "" without a passage.
        gold: Distinct correct answers; empty if unknown.
        answers: Answers of the first and of the second model.
        right: True for each answer that is correct; empty if unknown.
    """

    name: str
    question: str
    context: str
    gold: tuple[str, ...]
    answers: tuple[str, str]
    right: tuple[bool, ...]


def differing_answers(
    model_a: PreTrainedModel,
    tokenizer_a: PreTrainedTokenizerBase,
    model_b: PreTrainedModel,
    tokenizer_b: PreTrainedTokenizerBase,
    questions: Dataset,
    *,
    batch_size: int = 8,
) -> list[Difference]:
    """Return the rows that two models for the same task answer differently, in order.

    Answers to questions are compared as in SQuAD, without case, articles and punctuation. For labeled words and scopes
    of cues, only words with different predictions are reported.

    Args:
        model_a: First model. It is not changed.
        tokenizer_a: Tokenizer of the first model.
        model_b: Second model. It is not changed.
        tokenizer_b: Tokenizer of the second model.
        questions: Rows from `load_squad`, `load_texts`, `load_sentences` or `load_negation` of `hf_localattn.data`,
            depending on the task.
        batch_size (*optional*, defaults to 8): Number of windows or texts per forward pass.

    Returns:
        The rows, with both answers.

    Raises:
        ValueError: The models have different tasks, the task is not supported, or the rows are for another task.
    """
    task = task_of(model_a)
    if task_of(model_b) != task:
        raise ValueError(
            f"the first model is for {task}, the second for {task_of(model_b)}: choose two models for one task."
        )
    needed, compare = _TASKS[_kind_of_rows(task, questions)]
    if missing := [name for name in needed if name not in questions.column_names]:
        raise ValueError(f"rows for {task} need {', '.join(needed)}; these have no {', '.join(missing)}.")
    both = ((model_a, tokenizer_a), (model_b, tokenizer_b))
    return list(compare(both, questions, batch_size))


def task_of(model: PreTrainedModel) -> str:
    """Return the task of a model's head.

    Raises:
        ValueError: Answers for this task cannot be compared, or there is no head.
    """
    task = task_of_class(type(model).__name__)
    if task is None or task not in _TASKS:
        raise ValueError(
            f"{type(model).__name__} gives no answers that can be compared; models for {', '.join(_TASKS)} do."
        )
    return task


def _kind_of_rows(task: str, rows: Dataset) -> str:
    return _SCOPES if task == "token-classification" and "cue" in rows.column_names else task


Both = Sequence[tuple[PreTrainedModel, PreTrainedTokenizerBase]]


def _questions(both: Both, rows: Dataset, batch_size: int) -> Iterable[Difference]:

    questions, contexts, golds = rows["question"][:], rows["context"][:], rows["answers"][:]
    settings: dict[str, Any] = {"batch_size": batch_size, "handle_no_answer": any(not gold["text"] for gold in golds)}
    found = [answer_question(model, tokenizer, questions, contexts, **settings) for model, tokenizer in both]
    for row, (first, second) in enumerate(zip(*found, strict=True)):
        if answer_scores(first.text, second.text)[0] == 1:
            continue
        gold = golds[row]
        texts = tuple(dict.fromkeys(gold["text"])) or (NO_ANSWER,)
        right = tuple(
            any(answer_scores(one.text, text)[0] == 1 for text in gold["text"]) if gold["text"] else is_blank(one.text)
            for one in (first, second)
        )
        spans = [(at, at + len(text)) for at, text in zip(gold["answer_start"], gold["text"], strict=True)]
        spans = spans or [(one.start, one.end) for one in (first, second) if one.text]
        answers = (first.text or NO_ANSWER, second.text or NO_ANSWER)
        yield Difference(rows[row]["id"], questions[row], excerpt(contexts[row], spans), texts, answers, right)


def excerpt(text: str, spans: Sequence[tuple[int, int]], around: int = EXCERPT) -> str:
    """Cut a text `around` characters before the first and after the last span, between words."""
    begin = max(min(start for start, _ in spans) - around, 0)
    end = min(max(stop for _, stop in spans) + around, len(text))
    # Cut at a space nearby; a text without spaces is cut at the given place.
    begin = max(text.find(" ", begin - 1, begin + around), begin - 1) + 1 if begin else 0
    if end < len(text):
        blank = text.rfind(" ", end - around, end + 1)
        end = blank if blank > 0 else end
    left, right = "… " if begin else "", " …" if end < len(text) else ""
    return left + " ".join(text[begin:end].split()) + right


def _texts(both: Both, rows: Dataset, batch_size: int) -> Iterable[Difference]:
    kind = rows.features["label"]
    if any(getattr(model.config, "problem_type", None) not in (None, SINGLE_LABEL) for model, _ in both) or not (
        isinstance(kind, ClassLabel) or not any(label is not None for label in rows["label"][:])
    ):
        raise ValueError("the labels are not classes: answers can be compared only for texts with one class each.")
    predicted = [_classes(model, tokenizer, rows, batch_size) for model, tokenizer in both]
    for number, (row, *answers) in enumerate(zip(rows, *predicted, strict=True), start=1):
        if answers[0] == answers[1]:
            continue
        gold = () if row["label"] is None else (kind.int2str(row["label"]),)
        right = tuple(answer in gold for answer in answers) if gold else ()
        yield Difference(str(number), " | ".join(_sides(row)), "", gold, tuple(answers), right)


def _sides(row: dict[str, Any]) -> list[str]:
    return [row[name] for name in ("text", "text_pair") if name in row]


def _classes(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, batch_size: int) -> list[str]:
    """Predict the name of the class of each text."""
    columns = {name: rows[name][:] for name in ("text", "text_pair") if name in rows.column_names}
    features = tokenize_texts(columns, tokenizer, longest_input(model, tokenizer) or MOST_TOKENS)
    return [
        model.config.id2label[int(logits.argmax())]
        for logits in _logits(model, tokenizer, features, len(rows), batch_size)
    ]


def _words(both: Both, rows: Dataset, batch_size: int) -> Iterable[Difference]:
    predicted = [_word_labels(model, tokenizer, rows, batch_size) for model, tokenizer in both]
    yield from _differing_words(rows, predicted, [row["labels"] for row in rows])


def _word_labels(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, batch_size: int
) -> list[list[str | None]]:
    """Predict the labels of the words of each sentence; None for words cut off from the input."""
    sentences = {"tokens": rows["tokens"][:], "labels": [[] for _ in rows]}  # without the correct labels
    features = word_features(sentences, tokenizer, longest_input(model, tokenizer) or MOST_TOKENS, {})
    is_first, seen = ([np.array(one) for one in features.pop(name)] for name in ("labels", "visible_word_ids"))
    labels: list[list[str | None]] = []
    for row, logits in enumerate(_logits(model, tokenizer, features, len(rows), batch_size)):
        own: list[str | None] = [None] * len(sentences["tokens"][row])
        for word, number in zip(seen[row], logits[is_first[row] == 0].argmax(-1), strict=True):
            own[word] = model.config.id2label[int(number)]
        labels.append(own)
    return labels


def _scopes(both: Both, rows: Dataset, batch_size: int) -> Iterable[Difference]:
    names = np.array(["outside", "in scope"])
    cues = {"cue": rows["cue"][:], "cue_type": rows["cue_type"][:], "batch_size": batch_size}
    predicted = [
        [list(names[scope]) for scope in find_scope(model, tokenizer, rows["tokens"][:], **cues)]
        for model, tokenizer in both
    ]
    yield from _differing_words(rows, predicted, [list(names[row["scope"]]) for row in rows])


def _differing_words(rows: Dataset, predicted: Sequence[Sequence[Any]], golds: Sequence[Any]) -> Iterable[Difference]:
    """Yield the rows in which words have different labels, with only these words in the answers."""
    for number, (row, first, second, gold) in enumerate(zip(rows, *predicted, golds, strict=True), start=1):
        words = [word for word in range(len(first)) if first[word] != second[word]]
        if not words:
            continue

        def told(labels: Sequence[Any], tokens: list[str] = row["tokens"], words: list[int] = words) -> str:
            by_label: dict[str, list[str]] = {}
            for word in words:
                by_label.setdefault(labels[word] or "not seen", []).append(tokens[word])
            return "; ".join(f"{label}: {', '.join(own)}" for label, own in by_label.items())

        cue = row.get("cue") or [0] * len(row["tokens"])
        text = " ".join(f"[{word}]" if is_cue else word for word, is_cue in zip(row["tokens"], cue, strict=True))
        right = tuple(all(own[word] == gold[word] for word in words) for own in (first, second)) if gold else ()
        yield Difference(str(number), text, "", (told(gold),) if gold else (), (told(first), told(second)), right)


def _logits(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, features: Any, number: int, batch_size: int
) -> Iterable[np.ndarray]:
    """Yield the logits of each row, (labels,) or (tokens, labels) without padding."""
    with evaluating(model), torch.inference_mode():
        for at in range(0, number, batch_size):
            rows = {name: values[at : at + batch_size] for name, values in features.items()}
            batch = tokenizer.pad(rows, return_tensors="pt").to(model.device)
            logits = model(**accepted_inputs(model, batch), return_dict=True).logits.float().cpu().numpy()
            if logits.ndim == 2:
                yield from logits
            else:
                yield from (
                    own[real] for own, real in zip(logits, batch["attention_mask"].cpu().numpy() != 0, strict=True)
                )


_SCOPES = "scopes of cues"
_TASKS: dict[str, tuple[Sequence[str], Callable[[Both, Dataset, int], Iterable[Difference]]]] = {
    "question-answering": (("id", "question", "context", "answers"), _questions),
    "text-classification": (("text", "label"), _texts),
    "token-classification": (("tokens", "labels"), _words),
    _SCOPES: (("tokens", "cue", "cue_type", "scope"), _scopes),
}
"""Required columns and comparing function for each kind of rows."""
