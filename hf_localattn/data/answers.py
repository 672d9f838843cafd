"""Extraction of the best answers from start and end logits, over all windows of a passage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from hf_localattn.models.pipeline_question_answering import possible_spans


@dataclass(frozen=True)
class Candidate:
    """An answer `context[start:end] == text`, its logits and its probability among the n best; "" is "no answer"."""

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float
    probability: float = 0.0

    @property
    def score(self) -> float:
        """Sum of the two logits."""
        return self.start_logit + self.end_logit


@dataclass(frozen=True)
class QuestionAnswers:
    """The chosen answer of a model, and the best ones in descending order of score, with "no answer" if it is allowed.

    `null_odds`, in the words of SQuAD 2.0, is the score of "no answer" minus that of `best_span`. It is None if "no
    answer" is not allowed.
    """

    best: Candidate
    n_best: list[Candidate]
    null_odds: float | None = None

    @property
    def best_span(self) -> Candidate | None:
        """The best answer with a text; None if no window has one."""
        return next((candidate for candidate in self.n_best if candidate.text), None)


def extract_answers(
    contexts: Mapping[str, str],
    features: Sequence[Mapping[str, Any]],
    start_logits: Sequence[np.ndarray] | np.ndarray,
    end_logits: Sequence[np.ndarray] | np.ndarray,
    *,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    no_answer_threshold: float | None = None,
) -> dict[str, QuestionAnswers]:
    """Return the answers to each question, by question id.

    This is the published post-processing (Devlin et al. 2019, run_squad.py): in each window the `n_best_size` best
    starts are combined with the best ends, and the pairs of all windows with at most `max_answer_length` tokens are
    ranked by the sum of their logits. There are two differences, which cannot lower the best score: tokens outside the
    passage are excluded first, and a span in several windows is listed once. "No answer" has the smallest score of the
    classification token over windows, because one window with an answer is enough. It is chosen if its score exceeds
    the best answer's by more than `no_answer_threshold`, and not allowed if that is None (SQuAD 1.1).

    Args:
        contexts: Passages by question id. The result has their order.
        features: Rows of `evaluation_features`, one for each window.
        start_logits: A row for each window, without left padding. Logits after the last token are ignored.
        end_logits: As `start_logits`.
        n_best_size: Number of starts and ends of a window to combine, and of answers to keep.
        max_answer_length: Largest number of tokens of an answer.
        no_answer_threshold: See above.

    Raises:
        ValueError: Logits are NaN.
    """
    windows: dict[str, list[_Window]] = {identifier: [] for identifier in contexts}
    for feature, start_row, end_row in zip(features, start_logits, end_logits, strict=True):
        offsets = np.array([(-1, -1) if offset is None else offset for offset in feature["offset_mapping"]], int)
        starts = np.asarray(start_row, dtype=np.float64)[: len(offsets)]
        ends = np.asarray(end_row, dtype=np.float64)[: len(offsets)]
        if np.isnan(starts).any() or np.isnan(ends).any():
            raise ValueError(f"the logits of question {feature['example_id']!r} are NaN: the training diverged.")
        windows[feature["example_id"]].append(_Window(starts, ends, offsets, feature["no_answer_position"]))
    return {
        identifier: _answers(contexts[identifier], of_question, n_best_size, max_answer_length, no_answer_threshold)
        for identifier, of_question in windows.items()
    }


class _Window(NamedTuple):
    """Logits of starts and of ends (tokens,), and characters of tokens (tokens, 2), which are -1 outside of it."""

    starts: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    no_answer_position: int


def _answers(
    context: str,
    windows: list[_Window],
    n_best_size: int,
    max_answer_length: int,
    no_answer_threshold: float | None,
) -> QuestionAnswers:
    spans = _best_spans(context, windows, n_best_size, max_answer_length)[:n_best_size]
    no_answer = _no_answer(windows)
    ranked = spans or [no_answer]
    if no_answer_threshold is not None:
        # Keep "no answer" and the best span in the list, so that it has their probabilities.
        both = sorted([*spans, no_answer], key=lambda candidate: -candidate.score)
        ranked = [
            candidate
            for rank, candidate in enumerate(both)
            if rank < n_best_size or candidate is no_answer or candidate is spans[0]
        ]
    scores = np.array([candidate.score for candidate in ranked])
    weights = np.exp(scores - scores.max())
    probabilities = (weights / weights.sum()).tolist()
    n_best = [
        replace(candidate, probability=probability)
        for candidate, probability in zip(ranked, probabilities, strict=True)
    ]
    if no_answer_threshold is None:
        return QuestionAnswers(n_best[0], n_best)
    null_odds = no_answer.score - (spans[0].score if spans else 0.0)
    has_answer = bool(spans) and null_odds <= no_answer_threshold
    best = next(candidate for candidate in n_best if bool(candidate.text) == has_answer)
    return QuestionAnswers(best, n_best, null_odds)


def _no_answer(windows: list[_Window]) -> Candidate:
    """Return "no answer" with its smallest score over windows."""
    candidates = []
    for window in windows:
        position = window.no_answer_position
        candidates.append(Candidate("", 0, 0, float(window.starts[position]), float(window.ends[position])))
    return min(candidates, key=lambda candidate: candidate.score)


def _best_spans(context: str, windows: list[_Window], size: int, max_answer_length: int) -> list[Candidate]:
    """Return the distinct spans of the `size` best starts and ends of each window, the best first."""
    spans: list[tuple[int, int, float, float]] = []  # first and last character, and their logits
    for window in windows:
        inside = torch.from_numpy(window.offsets[:, 0] >= 0)
        starts = torch.from_numpy(window.starts)
        ends = torch.from_numpy(window.ends)
        first, last = possible_spans(starts, ends, inside, max_answer_length, size)
        begins = window.offsets[first.numpy(), 0].tolist()
        stops = window.offsets[last.numpy(), 1].tolist()
        spans += zip(begins, stops, starts[first].tolist(), ends[last].tolist(), strict=True)
    spans.sort(key=lambda span: -(span[2] + span[3]))
    candidates: dict[tuple[int, int], Candidate] = {}
    for begin, stop, start_logit, end_logit in spans:
        text = context[begin:stop]
        # Tokens of some tokenizers include the space before a word, or consist only of spaces.
        start = begin + len(text) - len(text.lstrip())
        text = text.strip()
        end = start + len(text)
        if text and (start, end) not in candidates:
            candidates[start, end] = Candidate(text, start, end, start_logit, end_logit)
    return list(candidates.values())


def format_answers(answers: Mapping[str, QuestionAnswers], prefix: str = "") -> dict[str, str]:
    """Return predictions.json, nbest_predictions.json and, if "no answer" is allowed, null_odds.json, by name.

    The prefix "eval" gives eval_predictions.json and so on.
    """
    contents = {
        "predictions": {key: answer.best.text for key, answer in answers.items()},
        "nbest_predictions": {
            key: [asdict(candidate) for candidate in answer.n_best] for key, answer in answers.items()
        },
        "null_odds": {key: answer.null_odds for key, answer in answers.items() if answer.null_odds is not None},
    }
    files = {}
    for name, content in contents.items():
        if content:
            file = f"{prefix}_{name}.json" if prefix else f"{name}.json"
            files[file] = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return files
