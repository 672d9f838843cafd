"""Extraction of the best answers from start and end logits, over all windows of a passage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hf_localattn.data.rows import PathLike
from hf_localattn.files import atomic_write
from hf_localattn.models.pipeline_question_answering import possible_spans


@dataclass(frozen=True)
class AnswerSettings:
    """Settings for the choice of answers.

    Attributes:
        n_best_size: number of start and end positions combined per window, and of answers kept per question.
        max_answer_length: maximum number of tokens of an answer.
        handle_no_answer: True if "no answer" is a possible answer (SQuAD 2.0).
        null_score_diff_threshold: choose "no answer" if its score exceeds the best answer's score by more than this.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    handle_no_answer: bool = False
    null_score_diff_threshold: float = 0.0

    def __post_init__(self) -> None:
        for field in ("n_best_size", "max_answer_length"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1; got {getattr(self, field)}.")


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
    """Answers of a model to one question.

    Attributes:
        best: the chosen answer, which may be "no answer".
        best_span: the best answer with a text; None if no window has one.
        n_best: the best answers, in descending order of score, including "no answer" if it is allowed.
        null_odds: score of "no answer" minus the score of `best_span`; None if "no answer" is not allowed.
    """

    best: Candidate
    best_span: Candidate | None
    n_best: list[Candidate]
    null_odds: float | None = None


def extract_answers(
    contexts: Mapping[str, str],
    features: Sequence[Mapping[str, Any]],
    start_logits: Sequence[np.ndarray] | np.ndarray,
    end_logits: Sequence[np.ndarray] | np.ndarray,
    settings: AnswerSettings = AnswerSettings(),
) -> dict[str, QuestionAnswers]:
    """Return the answers to each question, by question id.

    This is the published post-processing (Devlin et al. 2019, run_squad.py). In each window the best starts are
    combined with the best ends. Valid pairs of all windows are ranked by the sum of their two logits. The score of "no
    answer" comes from the classification token. It is the minimum over windows, because one window with an answer is
    enough. There are two differences. Tokens outside the passage are excluded before the best positions are chosen. A
    span found in several windows is listed once, with its best score. Neither can lower the best answer's score.

    The pipeline "question-answering" uses the same windows and spans, but ranks spans as in transformers: it
    multiplies start and end probabilities in each window, adds the scores of equal texts, and extends answers to whole
    words. The published scores are sums of logits, because logits can be compared between windows.

    Args:
        contexts: passages by question id; the result has the same order.
        features: `evaluation_features`, one mapping per window, with example_id, offset_mapping and cls_position.
        start_logits: one row per window, without left padding; logits after the last token are ignored.
        end_logits: one row per window, in the same form.
        settings: settings for the choice of answers.

    Raises:
        ValueError: the numbers of windows differ, a question has no window, or a logit is NaN.
    """
    if not len(features) == len(start_logits) == len(end_logits):
        raise ValueError(
            f"{len(features)} windows, but {len(start_logits)} rows of start and {len(end_logits)} of end logits."
        )
    windows: dict[str, list[_Window]] = {identifier: [] for identifier in contexts}
    for feature, starts, ends in zip(features, start_logits, end_logits, strict=True):
        windows[feature["example_id"]].append(_window(feature, starts, ends))
    without = [identifier for identifier, own in windows.items() if not own]
    if without:
        raise ValueError(f"{len(without)} questions have no window, the first is {without[0]!r}.")
    return {identifier: _answers(contexts[identifier], own, settings) for identifier, own in windows.items()}


class _Window(NamedTuple):
    starts: np.ndarray  # (tokens,) logits
    ends: np.ndarray  # (tokens,) logits
    offsets: np.ndarray  # (tokens, 2) characters, -1 outside the passage
    null: tuple[float, float]  # logits of "no answer"


def _window(feature: Mapping[str, Any], starts: np.ndarray, ends: np.ndarray) -> _Window:
    offsets = np.array([(-1, -1) if o is None else o for o in feature["offset_mapping"]], dtype=np.int64)
    starts, ends = (np.asarray(logits, dtype=np.float64)[: len(offsets)] for logits in (starts, ends))
    if np.isnan(starts).any() or np.isnan(ends).any():
        raise ValueError(f"the logits of question {feature['example_id']!r} are NaN: the training diverged.")
    position = feature["cls_position"]
    return _Window(starts, ends, offsets, (float(starts[position]), float(ends[position])))


def _answers(context: str, windows: list[_Window], settings: AnswerSettings) -> QuestionAnswers:
    spans = _best_spans(context, windows, settings.n_best_size, settings)
    if not spans:  # all best starts are after the best ends: try all pairs
        spans = _best_spans(context, windows, max(len(window.starts) for window in windows), settings)
    null = Candidate("", 0, 0, *min((window.null for window in windows), key=sum))
    if not settings.handle_no_answer:
        n_best = _with_probabilities(spans or [null])
        return QuestionAnswers(n_best[0], n_best[0] if spans else None, n_best)
    # Keep "no answer" and the best span in the list, so that it has their probabilities.
    ranked = sorted([*spans, null], key=lambda candidate: -candidate.score)
    kept = [c for i, c in enumerate(ranked) if i < settings.n_best_size or c is null or c is spans[0]]
    n_best = _with_probabilities(kept)
    null = next(candidate for candidate in n_best if not candidate.text)
    best_span = next((candidate for candidate in n_best if candidate.text), None)
    if best_span is None:
        return QuestionAnswers(null, None, n_best, null_odds=null.score)
    odds = null.score - best_span.score
    best = null if odds > settings.null_score_diff_threshold else best_span
    return QuestionAnswers(best, best_span, n_best, null_odds=odds)


def _best_spans(context: str, windows: list[_Window], size: int, settings: AnswerSettings) -> list[Candidate]:
    """Return at most `n_best_size` distinct spans of a passage, in descending order of score."""
    found = []
    for window in windows:
        starts, ends, inside = map(torch.from_numpy, (window.starts, window.ends, window.offsets[:, 0] >= 0))
        pairs = possible_spans(starts, ends, inside, settings.max_answer_length, size)
        first, last = (places.numpy() for places in pairs)
        found.append((window.offsets[first, 0], window.offsets[last, 1], window.starts[first], window.ends[last]))
    begin, end, start_logits, end_logits = map(np.concatenate, zip(*found, strict=True))
    spans: dict[tuple[int, int], Candidate] = {}
    for i in np.argsort(-(start_logits + end_logits), kind="stable"):
        text = context[begin[i] : end[i]]
        # Tokens of some tokenizers include the space before a word, or consist only of spaces.
        start = int(begin[i]) + len(text) - len(text.lstrip())
        text = text.strip()
        if text and (start, start + len(text)) not in spans:
            stop = start + len(text)
            spans[start, stop] = Candidate(text, start, stop, float(start_logits[i]), float(end_logits[i]))
            if len(spans) == settings.n_best_size:
                break
    return list(spans.values())


def _with_probabilities(candidates: list[Candidate]) -> list[Candidate]:
    scores = np.array([candidate.score for candidate in candidates])
    weights = np.exp(scores - scores.max())
    probabilities = weights / weights.sum()
    return [replace(c, probability=float(p)) for c, p in zip(candidates, probabilities, strict=True)]


def write_answers(answers: Mapping[str, QuestionAnswers], folder: PathLike, prefix: str = "") -> None:
    """Write predictions.json, nbest_predictions.json and, if "no answer" is allowed, null_odds.json to a folder.

    Each file is written completely or not at all. The prefix "eval" gives eval_predictions.json and so on.
    """
    contents = {
        "predictions": {key: answer.best.text for key, answer in answers.items()},
        "nbest_predictions": {key: [asdict(one) for one in answer.n_best] for key, answer in answers.items()},
        "null_odds": {key: answer.null_odds for key, answer in answers.items() if answer.null_odds is not None},
    }
    for name, content in contents.items():
        if content:
            path = Path(folder) / "_".join(filter(None, (prefix, f"{name}.json")))
            atomic_write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
