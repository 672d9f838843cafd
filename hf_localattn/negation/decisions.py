"""Decisions: is a phrase of a text negated, by which cue, and how sure is it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALIBRATION = Path(__file__).with_name("calibration.json")
"""Fitted by `python -m benchmarks.negation_calibration` for the package's own model."""

_LEAST = 1e-3
"""Distance of a probability from 0 and 1 that still counts."""


@dataclass(frozen=True)
class Decision:
    """Whether a phrase is negated.

    Attributes:
        negated: True if it is.
        score: Probability that it is.
        cue: The result of the finder whose cue negates it; None if there is none.
    """

    negated: bool
    score: float
    cue: Mapping[str, Any] | None


@dataclass(frozen=True)
class Calibration:
    """From the probabilities of a model to the share of right decisions.

    Args:
        temperature: Divisor of the logits of a decision that a cue makes. The default leaves them as they are.
        unmarked: Probability that a phrase is negated in a text without a cue near it.
    """

    temperature: float = 1.0
    unmarked: float = 0.01

    @classmethod
    def load(cls) -> Calibration:
        """Return that of the package's own model."""
        content = json.loads(CALIBRATION.read_text(encoding="utf-8"))
        return cls(content["temperature"], content["unmarked"])

    def probability(self, certainty: float) -> float:
        """Return the probability that a decision is right; at least 0.5."""
        bounded = min(max(certainty, 0.5), 1 - _LEAST)
        return 1 / (1 + ((1 - bounded) / bounded) ** (1 / self.temperature))


def decide(
    text: str,
    start: int,
    end: int,
    findings: Iterable[Mapping[str, Any]],
    *,
    kind: str = "negation",
    within: bool = True,
    calibration: Calibration | None = None,
) -> Decision:
    """Decide whether a phrase of a text is negated.

    At least half of its characters are in the scope of cues outside it. If `within` is True, it may also be at least
    half of its other characters in the scope of a cue in it ("no headache"), unless the cue is an affix.

    Args:
        text: The text.
        start: First character of the phrase.
        end: Character behind the phrase.
        findings: The results of a finder or pipeline for the text.
        kind: "negation" or "speculation".
        within: If True, a cue in the phrase counts, too.
        calibration (*optional*): Defaults to that of the package's own model.

    Example:
        >>> from hf_localattn.negation import decide, finder
        >>> text = "No fever, but a dry cough."
        >>> found = finder(convention="notes")(text)
        >>> decide(text, 3, 8, found).negated, decide(text, 16, 25, found).negated
        (True, False)
    """
    calibration = Calibration.load() if calibration is None else calibration
    return decide_phrase(text[start:end], start, findings, kind, within, calibration)


def decide_phrase(
    text: str,
    start: int,
    findings: Iterable[Mapping[str, Any]],
    kind: str,
    within: bool,
    calibration: Calibration,
) -> Decision:
    """Decide as `decide` does, by the text of the phrase alone."""
    end = start + len(text)
    phrase = {index for index, character in enumerate(text, start) if not character.isspace()}
    near = [finding for finding in findings if finding["kind"] == kind and _overlaps(finding["sentence"], start, end)]
    places = [(finding, _inside(finding["cue"], phrase), _inside(finding["scope"], phrase)) for finding in near]
    outside = [(finding, scope) for finding, cue, scope in places if not cue]
    covered = set[int]().union(*(scope for _, scope in outside))
    deciding = None
    if phrase and 2 * len(covered) >= len(phrase):
        deciding = max(outside, key=lambda item: len(item[1]))[0]
    for finding, cue, scope in places if within and deciding is None else ():
        others = phrase - cue
        if finding["type"] != "affix" and cue and others and 2 * len(others & scope) >= len(others):
            deciding = finding
            break
    if deciding is not None:
        return Decision(True, calibration.probability(_certainty(deciding)), deciding)
    if not near:
        return Decision(False, calibration.unmarked, None)
    return Decision(False, 1 - calibration.probability(min(map(_certainty, near))), None)


def _inside(spans: Iterable[Mapping[str, Any]], phrase: set[int]) -> set[int]:
    """Return the characters of a phrase that some spans have."""
    return {index for index in phrase for span in spans if span["start"] <= index < span["end"]}


def _overlaps(span: Mapping[str, int], start: int, end: int) -> bool:
    return span["start"] < end and start < span["end"]


def _certainty(finding: Mapping[str, Any]) -> float:
    return float(finding["score"] * finding["scope_score"])
