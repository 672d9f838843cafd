"""Scores of the negations of sentences: measures of the *SEM 2012 shared task, and means over negations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

Negations = Sequence[Mapping[str, Sequence[str]]]
"""Negations of a sentence, each with the characters of every word that belong to it: `cue_text` and `scope_text`."""

MEASURES = ("cues", "scopes_cue_match", "scopes_no_cue_match", "scope_tokens")
SENTENCES = ("starsem_correct_sentences", "starsem_correct_negation_sentences")
INSTANCE_SCORES = ("instance_f1", "instance_precision", "instance_recall")
STARSEM_SCORES = (
    *(f"starsem_{measure}_{score}" for measure, score in product(MEASURES, ("f1", "precision", "recall"))),
    *(f"starsem_{measure}_b_{score}" for measure, score in product(MEASURES[:-1], ("f1", "precision"))),
    *SENTENCES,
)
"""Names of all scores of `starsem_scores`."""

BRACKETS = ("-LRB-", "-RRB-")
"""Part-of-speech tags of punctuation that have letters."""

# The shared task's program knows ASCII only.
_LETTER = re.compile(r"\w", re.ASCII)
_ABBREVIATION = re.compile(r"(\w+)\.", re.ASCII)


class _Negation(NamedTuple):
    """The characters of a cue and its scope, by the index of their word."""

    cue: dict[int, str]
    scope: dict[int, str]


_NOTHING = _Negation({}, {})


@dataclass
class Counts:
    """Numbers of annotated (`gold`) and predicted (`system`) elements, of hits, false alarms and misses."""

    gold: int = 0
    system: int = 0
    tp: int = 0
    fp: int = 0
    fn: int = 0

    def add(self, gold: dict[int, str], system: dict[int, str], *, may_hit: bool = True) -> None:
        """Count an element. One that belongs to a cue that is partly right can be no hit, and is no false alarm."""
        is_hit = bool(gold) and gold == system and may_hit
        self.gold += bool(gold)
        self.system += bool(system)
        self.tp += is_hit
        self.fn += bool(gold) and not is_hit
        self.fp += bool(system) and not gold and may_hit

    def add_words(self, gold: dict[int, str], system: dict[int, str]) -> None:
        """Count the words of an element."""
        hits = len(gold.items() & system.items())
        self.gold += len(gold)
        self.system += len(system)
        self.tp += hits
        self.fn += len(gold) - hits
        self.fp += len(system) - hits

    def scores(self, name: str, *, b: bool) -> dict[str, float]:
        """Return precision, recall and F1. With `b`, also those whose precision counts all predicted elements."""
        recall = _percent(self.tp, self.tp + self.fn)
        found = {name: self.tp + self.fp, **({f"{name}_b": self.system} if b else {})}
        scores = {f"{name}_recall": recall}
        for variant, predicted in found.items():
            precision = _percent(self.tp, predicted)
            f1 = round(2 * precision * recall / (precision + recall), 2) if precision + recall else 0.0
            scores |= {f"{variant}_f1": f1, f"{variant}_precision": precision}
        return scores


def starsem(
    predictions: Sequence[Negations], references: Sequence[Negations], pos: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return the measures of the *SEM 2012 shared task, and of scopes as means over negations.

    The measures of the shared task equal those of its program (eval.cd-sco.pl, version 2.2) to its rounding, without
    its measures of negated events.

    Args:
        predictions: predicted negations, a list per sentence. A negation has two lists with a text per word, "" for
            words outside: `cue_text` and `scope_text`, the characters of the word in the cue and in the scope.
        references: true negations, in the same form.
        pos: part-of-speech tags, a list per sentence. Tags without a letter mark punctuation.

    Returns:
        starsem_cues_f1: cues whose words and characters are right, also with precision and recall, from 0 to 1.
        starsem_scopes_cue_match_f1: right scopes of right cues, also with precision and recall.
        starsem_scopes_no_cue_match_f1: right scopes of cues with a right word, also with precision and recall.
        starsem_scope_tokens_f1: words of the scopes of cues with a right word, also with precision and recall.
        starsem_cues_b_f1, starsem_scopes_cue_match_b_f1, starsem_scopes_no_cue_match_b_f1: B variants, also with
            precision. All predicted elements count in their precision. The recall is the same.
        starsem_correct_sentences, starsem_correct_negation_sentences: shares of sentences without a wrong cue or
            scope, of all sentences and of those with a negation.
        instance_f1, instance_precision, instance_recall: means over negations (see `instance_scores`).

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> true = {"cue_text": ["", "never", "", ""], "scope_text": ["He", "", "left", ""]}
        >>> found = {"cue_text": ["", "never", "", ""], "scope_text": ["", "", "left", "."]}
        >>> scores = load_metric("starsem").compute(
        ...     predictions=[[found]], references=[[true]], pos=[["PRP", "RB", "VBD", "."]]
        ... )
        >>> {name: scores[name] for name in ("starsem_cues_f1", "starsem_scope_tokens_f1", "instance_f1")}
        {'starsem_cues_f1': 1.0, 'starsem_scope_tokens_f1': 0.6667, 'instance_f1': 0.6666666666666666}
    """
    check_negations(predictions, references, pos)
    return {**starsem_scores(predictions, references, pos), **instance_scores(predictions, references)}


def starsem_scores(
    predictions: Sequence[Negations], references: Sequence[Negations], pos: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return `STARSEM_SCORES`, described in `starsem`, which has the same arguments.

    The program rounds precision and recall to hundredths of a percent, and calculates F1 from them. So do these
    scores. Events have no effect on them.
    """
    counts, right = count_negations(predictions, references, pos)
    negated = [own for own, true in zip(right, references, strict=True) if true]
    scores: dict[str, float] = {}
    for measure, own in counts.items():
        scores |= own.scores(f"starsem_{measure}", b=measure != "scope_tokens")
    for name, sentences in zip(SENTENCES, (right, negated), strict=True):
        wrong = sentences.count(False) * 100 / len(sentences) if sentences else 100.0
        scores[name] = round(100 - round(wrong, 2), 2)
    return {name: round(scores[name] / 100, 4) for name in STARSEM_SCORES}


def count_negations(
    predictions: Sequence[Negations], references: Sequence[Negations], pos: Sequence[Sequence[str]]
) -> tuple[dict[str, Counts], list[bool]]:
    """Return the counts for each of `MEASURES`, and True for each sentence without an error.

    A predicted negation belongs to the first annotated negation with a word of its cue. A wrong cue or scope is a
    miss, but not a false alarm, if it belongs to an annotated one. Punctuation in scopes does not count, nor the
    period of abbreviations. The arguments are those of `starsem`.
    """
    counts = {measure: Counts() for measure in MEASURES}
    right = []
    for predicted, true, tags in zip(predictions, references, pos, strict=True):
        pairs = list(_align(*([_read(own, tags) for own in listed] for listed in (true, predicted))))
        for gold, system in pairs:
            counts["cues"].add(gold.cue, system.cue)
            is_right = gold.cue == system.cue or not gold.cue or not system.cue
            counts["scopes_cue_match"].add(gold.scope, system.scope, may_hit=is_right)
            counts["scopes_no_cue_match"].add(gold.scope, system.scope)
            counts["scope_tokens"].add_words(gold.scope, system.scope)
        right.append(all(gold == system for gold, system in pairs))
    return counts, right


def _align(gold: list[_Negation], system: list[_Negation]) -> Iterator[tuple[_Negation, _Negation]]:
    """Yield pairs of annotated and predicted negations that share a word of their cues, then those left over."""
    free = list(system)
    for true in gold:
        found = next((own for own in free if own.cue.keys() & true.cue.keys()), _NOTHING)
        if found is not _NOTHING:
            free.remove(found)
        yield true, found
    yield from ((_NOTHING, own) for own in free)


def _read(negation: Mapping[str, Sequence[str]], tags: Sequence[str]) -> _Negation:
    scope = {
        place: match[1] if (match := _ABBREVIATION.match(text)) else text
        for place, text in _characters(negation["scope_text"]).items()
        if _LETTER.search(tags[place]) and tags[place] not in BRACKETS
    }
    return _Negation(_characters(negation["cue_text"]), scope)


def _read_letters(negation: Mapping[str, Sequence[str]]) -> _Negation:
    scope = _characters(negation["scope_text"])
    letters = {place: text for place, text in scope.items() if re.search(r"\w", text)}
    return _Negation(_characters(negation["cue_text"]), letters)


def _characters(texts: Iterable[str]) -> dict[int, str]:
    return {place: text for place, text in enumerate(texts) if text}


def _percent(part: int, whole: int) -> float:
    """Return a percentage with two decimals; 0 if it is undefined."""
    return round(part / whole * 100, 2) if whole else 0.0


def instance_scores(predictions: Sequence[Negations], references: Sequence[Negations]) -> dict[str, float]:
    """Return `INSTANCE_SCORES`: precision and recall of scopes as means over negations, and their harmonic mean.

    Each negation counts the same, whatever the length of its scope. A negation whose cue is not found, or is not
    exactly right, has recall 0; one that is predicted with a wrong cue has precision 0. Of a right cue, precision and
    recall are the shares of right words in the predicted and in the true scope, 1 if that scope is empty. Words
    without a letter or digit do not count. The arguments are those of `starsem`.

    Source: Sineva et al. 2021, *Negation-Instance Based Evaluation of End-to-End Negation Resolution* (NIS).
    """
    precision = recall = 0.0
    for predicted, true in zip(predictions, references, strict=True):
        free = [_read_letters(own) for own in true]
        for system in map(_read_letters, predicted):
            gold = next((own for own in free if own.cue == system.cue), None)
            if gold is not None:
                free.remove(gold)
                hits = len(gold.scope.items() & system.scope.items())
                precision += hits / len(system.scope) if system.scope else 1
                recall += hits / len(gold.scope) if gold.scope else 1
    precision /= sum(map(len, predictions)) or 1
    recall /= sum(map(len, references)) or 1
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"instance_f1": f1, "instance_precision": precision, "instance_recall": recall}


def check_negations(
    predictions: Sequence[Negations], references: Sequence[Negations], pos: Sequence[Sequence[str]]
) -> None:
    """Raise `ValueError` if a negation has no cue, or another number of texts than its sentence has tags."""
    for number, (*both, tags) in enumerate(zip(predictions, references, pos, strict=True), start=1):
        for name, negations in zip(("predictions", "references"), both, strict=True):
            for own in negations:
                where = f"{name}, sentence {number}"
                for column in ("cue_text", "scope_text"):
                    if len(own[column]) != len(tags):
                        raise ValueError(
                            f"{where}: {len(own[column])} texts in {column!r}, {len(tags)} tags in 'pos'."
                        )
                if not any(own["cue_text"]):
                    raise ValueError(f"{where}: a negation has no cue; give its characters in 'cue_text'.")
