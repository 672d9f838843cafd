"""Question answering and scope prediction with a fine-tuned model, as in the training scripts."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.answers import AnswerSettings, Candidate, QuestionAnswers, extract_answers
from hf_localattn.data.scopes import check_knows_cues
from hf_localattn.data.windows import BOOKKEEPING, evaluation_features
from hf_localattn.model_utils import MOST_TOKENS, evaluating
from hf_localattn.models.cue_labels import SCOPE_LABELS
from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.models.negation_finder import word_probabilities
from hf_localattn.models.pipeline_question_answering import read_pairs
from hf_localattn.models.window_logits import window_logits, without_pads


@dataclass(frozen=True)
class Answer:
    """An answer in a context.

    Attributes:
        text: `context[start:end]`; "" if there is no answer (then start and end are 0).
        start: start offset in the context.
        end: end offset (exclusive).
        score: sum of the start and end logits.
        probability: softmax of the score over the n best answers.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


def answer_question(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    question: str | Sequence[str],
    context: str | Sequence[str],
    *,
    top_k: int = 1,
    batch_size: int = 8,
    max_length: int = 384,
    doc_stride: int = 128,
    max_answer_length: int = 30,
    handle_no_answer: bool = False,
    null_score_diff_threshold: float = 0.0,
    n_best_size: int = 20,
) -> Any:
    """Answer one question, or several questions, from contexts of any length.

    The model can be any question-answering model of transformers. It stays on its device, and its training mode is
    restored afterwards.

    Args:
        model: model that returns `start_logits` and `end_logits` (batch, length).
        tokenizer: fast tokenizer of the model.
        question: one text, or a list of texts.
        context: one text for all questions, or a list with one text for each question.
        top_k: maximum number of answers to each question.
        batch_size: number of windows per forward pass.
        max_length: number of tokens of a window. If the model's limit is lower, the limit is used, and `doc_stride`
            is at most a third of it.
        doc_stride: number of tokens by which the windows of a long context overlap.
        max_answer_length: maximum number of tokens of an answer.
        handle_no_answer: if True, the model may return the empty answer "" (SQuAD 2.0).
        null_score_diff_threshold: return "" if its score exceeds that of the best answer by more than this.
        n_best_size: number of best starts and ends of a window that are combined.

    Returns:
        An `Answer`, or if `top_k` is above 1 a list of answers, the chosen one first. For several questions, a list of
        these results.

    Raises:
        ValueError: a question or context is empty, the lists have different lengths, a setting is invalid, the model
            has no start and end logits, or a name is given in place of the model.
    """
    check_loaded(model, tokenizer, "AutoModelForQuestionAnswering")
    single = isinstance(question, str)
    examples = read_pairs(question, context)
    if not examples:
        raise ValueError("No question is given: the list is empty.")
    for name, value in (("top_k", top_k), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}.")
    settings = AnswerSettings(
        max(n_best_size, top_k), max_answer_length, handle_no_answer, float(null_score_diff_threshold)
    )
    limit = longest_input(model, tokenizer)
    if limit is not None and limit < max_length:
        max_length, doc_stride = limit, min(doc_stride, limit // 3)
    ids = [str(number) for number in range(len(examples))]
    contexts = [example["context"] for example in examples]
    rows = {"id": ids, "question": [example["question"] for example in examples], "context": contexts}
    columns = evaluation_features(rows, tokenizer, max_length, doc_stride)
    features = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    starts, ends = _logits(model, tokenizer, features, batch_size)
    found = extract_answers(dict(zip(ids, contexts, strict=True)), features, starts, ends, settings)
    answers = [_ranked(found[identifier], top_k) for identifier in ids]
    if top_k == 1:
        return answers[0][0] if single else [own[0] for own in answers]
    return answers[0] if single else answers


def find_scope(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    tokens: Sequence[str] | Sequence[Sequence[str]],
    cue: Sequence[int] | Sequence[Sequence[int]],
    *,
    cue_type: str | Sequence[str | None] | None = None,
    batch_size: int = 8,
) -> Any:
    """Predict the words that are in the scope of a cue, as `run_ner.py --task negation` does.

    The label of a word depends on the mean of its tokens' logits. A sentence with two cues is given twice, once with
    each cue. The model stays on its device, and its training mode is restored afterwards.

    Args:
        model: token classification model with the labels "O" and "SCOPE".
        tokenizer: tokenizer of the model, with cue markers.
        tokens: words of the sentence, without markers; or a list of sentences.
        cue: 1 for each word of the cue, 0 for other words; or a list with these numbers for each sentence.
        cue_type: "affix", "single" or "multi", or a list with one for each sentence. Used by a tokenizer with
            `cue_marker="typed"`.
        batch_size: number of sentences per forward pass.

    Returns:
        1 for each word in scope, 0 for other words; for a list of sentences, a list of these lists.

    Raises:
        ValueError: there is no cue, the model does not see the cue, the lists have different lengths, or model or
            tokenizer are names or for another task.
    """
    check_loaded(model, tokenizer, "AutoModelForTokenClassification")
    check_knows_cues(tokenizer)
    labels = model.config.id2label.values()  # `label2id` need not be given
    if not set(labels) >= set(SCOPE_LABELS):
        raise ValueError(f"{type(model).__name__} has the labels {', '.join(labels)}: it was not trained on scopes.")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}.")
    if isinstance(tokens, str):
        raise ValueError("`tokens` is one text: give the list of its words.")
    if not len(tokens):
        return []
    single = isinstance(tokens[0], str)
    sentences, cues, types = _sentences([tokens], [cue], [cue_type]) if single else _sentences(tokens, cue, cue_type)
    limit = longest_input(model, tokenizer) or MOST_TOKENS
    scopes: list[list[int]] = [[]] * len(sentences)
    by_length = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))  # little padding
    with evaluating(model), torch.inference_mode():
        for at in range(0, len(by_length), batch_size):
            chosen = by_length[at : at + batch_size]
            columns = ([values[row] for row in chosen] for values in (sentences, cues, types))
            found = word_probabilities(model, tokenizer, SCOPE_LABELS, limit, *columns)
            for row, (probabilities, seen) in zip(chosen, found, strict=True):
                if not any(seen[word] for word, is_cue in enumerate(cues[row]) if is_cue):
                    where = "" if single else f" of sentence {row}"
                    raise ValueError(
                        f"the model does not see the cue{where}: it is behind {limit} tokens, or the tokenizer drops"
                        " it."
                    )
                scopes[row] = (seen & (probabilities.argmax(-1) == 1)).int().tolist()
    return scopes[0] if single else scopes


def check_loaded(model: Any, tokenizer: Any, auto_class: str) -> None:
    """Raise `ValueError` for the name of a checkpoint in place of a model or tokenizer."""
    for what, given, loader in (("model", model, auto_class), ("tokenizer", tokenizer, "AutoTokenizer")):
        if isinstance(given, str | os.PathLike):
            name = os.fspath(given)
            raise ValueError(f"`{what}` is the name {name!r}: load it with `{loader}.from_pretrained({name!r})`.")


def _sentences(tokens: Any, cue: Any, cue_type: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the words, the cue and the type of the cue of each sentence, after checks."""
    types = [cue_type] * len(tokens) if isinstance(cue_type, str | None) else list(cue_type)
    for name, values in (("cue", cue), ("cue_type", types)):
        if len(values) != len(tokens):
            raise ValueError(f"{len(tokens)} sentences, but {len(values)} values of `{name}`: give one per sentence.")
    for words, own in zip(tokens, cue, strict=True):
        if isinstance(words, str):
            raise ValueError(f"`tokens` has the text {words[:40]!r}: give the list of its words.")
        if not isinstance(own, Iterable):
            raise ValueError(f"`cue` has {own!r} for a sentence: give a list with 0 or 1 for each of its words.")
        if not any(own):
            raise ValueError("no word is a cue: give a 1 at each of its words.")
    return [list(words) for words in tokens], [list(own) for own in cue], types


def _logits(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, features: list[dict[str, Any]], batch_size: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the start and end logits of each window, of shape (tokens,)."""
    windows = [{name: value for name, value in one.items() if name not in BOOKKEEPING} for one in features]
    rows: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * len(windows)
    by_length = sorted(range(len(windows)), key=lambda i: -len(windows[i]["input_ids"]))  # little padding
    with evaluating(model), torch.inference_mode():
        for at in range(0, len(by_length), batch_size):
            chosen = by_length[at : at + batch_size]
            logits = window_logits(model, tokenizer, [windows[i] for i in chosen], model.device)
            for row, i in enumerate(chosen):
                start, end = (
                    without_pads(one[row], len(windows[i]["input_ids"]), tokenizer).cpu().numpy() for one in logits
                )
                rows[i] = (start, end)
    return [start for start, _ in rows], [end for _, end in rows]


def _ranked(answers: QuestionAnswers, top_k: int) -> list[Answer]:
    others = [candidate for candidate in answers.n_best if candidate != answers.best]
    return [_as_answer(candidate) for candidate in [answers.best, *others][:top_k]]


def _as_answer(candidate: Candidate) -> Answer:
    return Answer(candidate.text, candidate.start, candidate.end, candidate.score, candidate.probability)
