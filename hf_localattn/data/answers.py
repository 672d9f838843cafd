"""Extraction of the best answers from start and end logits, over all windows of a passage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

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

    `null_odds` is the score of "no answer" minus that of `best_span`; None if "no answer" is not allowed.
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
    null_threshold: float | None = None,
) -> dict[str, QuestionAnswers]:
    """Return the answers to each question, by question id.

    This is the published post-processing (Devlin et al. 2019, run_squad.py): in each window the `n_best_size` best
    starts are combined with the best ends, and the pairs of all windows with at most `max_answer_length` tokens are
    ranked by the sum of their logits. There are two differences, which cannot lower the best score: tokens outside the
    passage are excluded first, and a span in several windows is listed once. "No answer" has the smallest score of the
    classification token over windows, because one window with an answer is enough. It is chosen if its score exceeds
    the best answer's by more than `null_threshold`, and not allowed if that is None (SQuAD 1.1).

    `contexts` are passages by question id; the result has their order. `features` are `evaluation_features`, one
    mapping per window, and `start_logits` and `end_logits` have a row per window, without left padding; what is after
    the last token is ignored. Logits of NaN are a `ValueError`.
    """
    windows: dict[str, list[_Window]] = {identifier: [] for identifier in contexts}
    for feature, *logits in zip(features, start_logits, end_logits, strict=True):
        offsets = np.array([(-1, -1) if offset is None else offset for offset in feature["offset_mapping"]], int)
        starts, ends = (np.asarray(own, dtype=np.float64)[: len(offsets)] for own in logits)
        if np.isnan(starts).any() or np.isnan(ends).any():
            raise ValueError(f"the logits of question {feature['example_id']!r} are NaN: the training diverged.")
        windows[feature["example_id"]].append((starts, ends, offsets, feature["cls_position"]))
    options = n_best_size, max_answer_length, null_threshold
    return {identifier: _answers(contexts[identifier], own, *options) for identifier, own in windows.items()}


_Window = tuple[np.ndarray, np.ndarray, np.ndarray, int]
"""Logits of starts and of ends (tokens,), characters of tokens (tokens, 2), -1 outside the passage, and [CLS]."""


def _answers(
    context: str, windows: list[_Window], n_best_size: int, max_answer_length: int, null_threshold: float | None
) -> QuestionAnswers:
    spans = _best_spans(context, windows, n_best_size, max_answer_length)[:n_best_size]
    nulls = [(float(starts[cls]), float(ends[cls])) for starts, ends, _, cls in windows]
    null = Candidate("", 0, 0, *min(nulls, key=sum))
    ranked = spans or [null]
    if null_threshold is not None:
        # Keep "no answer" and the best span in the list, so that it has their probabilities.
        ranked = sorted([*spans, null], key=lambda candidate: -candidate.score)
        ranked = [c for i, c in enumerate(ranked) if i < n_best_size or c is null or c is spans[0]]
    weights = np.exp(np.array([candidate.score for candidate in ranked]) - max(c.score for c in ranked))
    probabilities = (weights / weights.sum()).tolist()
    n_best = [replace(c, probability=own) for c, own in zip(ranked, probabilities, strict=True)]
    if null_threshold is None:
        return QuestionAnswers(n_best[0], n_best)
    odds = null.score - (spans[0].score if spans else 0.0)
    null_wins = not spans or odds > null_threshold
    return QuestionAnswers(next(c for c in n_best if bool(c.text) != null_wins), n_best, odds)


def _best_spans(context: str, windows: list[_Window], size: int, max_answer_length: int) -> list[Candidate]:
    """Return the distinct spans of the `size` best starts and ends of each window, the best first."""
    found = []
    for starts, ends, offsets, _ in windows:
        logits = torch.from_numpy(starts), torch.from_numpy(ends)
        inside = torch.from_numpy(offsets[:, 0] >= 0)
        pairs = possible_spans(*logits, inside, max_answer_length, size)
        first, last = (places.numpy() for places in pairs)
        found.append((offsets[first, 0], offsets[last, 1], starts[first], ends[last]))
    begin, end, start_logits, end_logits = map(np.concatenate, zip(*found, strict=True))
    spans: dict[tuple[int, int], Candidate] = {}
    for i in np.argsort(-(start_logits + end_logits), kind="stable"):
        text = context[begin[i] : end[i]]
        # Tokens of some tokenizers include the space before a word, or consist only of spaces.
        start = int(begin[i]) + len(text) - len(text.lstrip())
        text = text.strip()
        stop = start + len(text)
        if text and (start, stop) not in spans:
            spans[start, stop] = Candidate(text, start, stop, float(start_logits[i]), float(end_logits[i]))
    return list(spans.values())


def format_answers(answers: Mapping[str, QuestionAnswers], prefix: str = "") -> dict[str, str]:
    """Return predictions.json, nbest_predictions.json and, if "no answer" is allowed, null_odds.json, by name.

    The prefix "eval" gives eval_predictions.json and so on.
    """
    contents = {
        "predictions": {key: answer.best.text for key, answer in answers.items()},
        "nbest_predictions": {key: [asdict(one) for one in answer.n_best] for key, answer in answers.items()},
        "null_odds": {key: answer.null_odds for key, answer in answers.items() if answer.null_odds is not None},
    }
    texts = {name: json.dumps(own, indent=2, ensure_ascii=False) for name, own in contents.items() if own}
    return {"_".join(filter(None, (prefix, f"{name}.json"))): f"{text}\n" for name, text in texts.items()}
