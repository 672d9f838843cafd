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

    def scores(self, name: str, *, b: bool) -> dict[str, float]:
        """Return precision, recall and F1. With `b`, also those whose precision counts all predicted elements."""
        recall = _share(self.tp, self.tp + self.fn)
        found = {name: self.tp + self.fp, **({f"{name}_b": self.system} if b else {})}
        scores: dict[str, float] = {}
        for variant, predicted in found.items():
            precision = _share(self.tp, predicted)
            f1 = round(2 * precision * recall / (precision + recall), 2) if precision + recall else 0.0
            scores |= {f"{variant}_f1": f1, f"{variant}_precision": precision}
        return {**scores, f"{name}_recall": recall}


def starsem(
    predictions: Sequence[Negations], references: Sequence[Negations], pos: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return the measures of the *SEM 2012 shared task, and of scopes as means over negations.

    The measures of the shared task equal those of its program (eval.cd-sco.pl, version 2.2) to its rounding, without
    its measures of negated events.

    Args:
        predictions: predicted negations, a list per sentence. A negation has two lists with a text per word, "" for
            words
            outside: `cue_text` and `scope_text`, the characters of the word in the cue and in the scope.
        references: true negations, in the same form.
        pos: part-of-speech tags, a list per sentence.

    Returns:
        starsem_cues_f1, starsem_scopes_cue_match_f1, starsem_scopes_no_cue_match_f1, starsem_scope_tokens_f1, each
        also
        with precision and recall: the measures of the shared task, from 0 to 1 (see `starsem_scores`).
        starsem_cues_b_f1, starsem_scopes_cue_match_b_f1, starsem_scopes_no_cue_match_b_f1, each also with precision:
        the
        B variants, in which partly right predictions lower the precision. The recall is the same.
        starsem_correct_sentences, starsem_correct_negation_sentences: shares of sentences without a wrong cue or
            scope, of
        all sentences and of those with a negation.
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
    r"""Return the measures of the *SEM 2012 shared task, equal to those of its program (version 2.2).

    The program rounds precision and recall to hundredths of a percent, and calculates F1 from them. So do these
    scores, which are shares from 0 to 1. Its measures of negated events, and of full negations, which include events,
    are left out, and events have no effect on the other measures.

    A predicted negation belongs to the first annotated negation with a word of its cue. A cue is right if its words
    and characters are. A wrong cue or scope is a miss, but not a false alarm, if it belongs to an annotated one.
    Punctuation in scopes does not count, nor the period of abbreviations.

    Args:
        predictions: predicted negations of each sentence.
        references: true negations of each sentence.
        pos: part-of-speech tags of the words of each sentence. Tags without a letter mark punctuation.

    Returns:
        `starsem_<measure>_precision`, `_recall` and `_f1` for these measures, and `starsem_<measure>_b_precision` and
        `_b_f1`, where all predicted elements count in the precision (no B variant of `scope_tokens`):

        - `cues`: cues whose words and characters are right.
        - `scopes_cue_match`: right scopes of right cues.
        - `scopes_no_cue_match`: right scopes of cues with a right word.
        - `scope_tokens`: words of the scopes of cues with a right word.

        `starsem_correct_sentences` and `starsem_correct_negation_sentences` are the shares of all sentences, and of
        those with a negation, in which each cue and scope is right.

    Source: Morante and Blanco 2012, *\*SEM 2012 Shared Task: Resolving the Scope and Focus of Negation*.
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
    """Return the counts for each of `MEASURES`, and True for each sentence without an error. See `starsem_scores`."""
    counts = {measure: Counts() for measure in MEASURES}
    right = []
    for predicted, true, tags in zip(predictions, references, pos, strict=True):
        negations = [[_read(own, tags) for own in listed] for listed in (true, predicted)]
        pairs = list(_align(*negations))
        for gold, system in pairs:
            _count(counts, gold, system)
        right.append(all(gold == system for gold, system in pairs))
    return counts, right


def _count(counts: dict[str, Counts], gold: _Negation, system: _Negation) -> None:
    _count_element(counts["cues"], gold.cue, system.cue)
    _count_element(counts["scopes_no_cue_match"], gold.scope, system.scope)
    scopes = counts["scopes_cue_match"]
    if gold.cue == system.cue or not gold.cue or not system.cue:
        _count_element(scopes, gold.scope, system.scope)
    else:  # the scope of a cue that is partly right cannot be a hit, and is no false alarm
        scopes.gold += bool(gold.scope)
        scopes.system += bool(system.scope)
        scopes.fn += bool(gold.scope)
    tokens, hits = counts["scope_tokens"], len(gold.scope.items() & system.scope.items())
    tokens.gold += len(gold.scope)
    tokens.system += len(system.scope)
    tokens.tp += hits
    tokens.fn += len(gold.scope) - hits
    tokens.fp += len(system.scope) - hits


def _count_element(counts: Counts, gold: dict[int, str], system: dict[int, str]) -> None:
    counts.gold += bool(gold)
    counts.system += bool(system)
    if gold:
        counts.tp += gold == system
        counts.fn += gold != system
    else:
        counts.fp += bool(system)


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
    return _Negation(
        _characters(negation["cue_text"]), {place: text for place, text in scope.items() if re.search(r"\w", text)}
    )


def _characters(texts: Iterable[str]) -> dict[int, str]:
    return {place: text for place, text in enumerate(texts) if text}


def _share(part: int, whole: int) -> float:
    """Return a percentage with two decimals; 0 if it is undefined."""
    return round(part / whole * 100, 2) if whole else 0.0


def instance_scores(predictions: Sequence[Negations], references: Sequence[Negations]) -> dict[str, float]:
    """Return precision and recall of scopes as means over negations, and their harmonic mean.

    Each negation counts the same, whatever the length of its scope. A negation whose cue is not found, or is not
    exactly right, has recall 0; one that is predicted with a wrong cue has precision 0. Of a right cue, precision and
    recall are the shares of right words in the predicted and in the true scope, 1 if that scope is empty. Words
    without a letter or digit do not count.

    Args:
        predictions: predicted negations of each sentence.
        references: true negations of each sentence.

    Returns:
        `instance_precision`, `instance_recall` and `instance_f1`, 0 if undefined.

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
    """Check that each negation has a cue, and texts for all words of its sentence.

    Raises:
        ValueError: a negation has no cue, or another number of texts than its sentence has tags. The message names
            the sentence and a remedy.
    """
    for number, (*both, tags) in enumerate(zip(predictions, references, pos, strict=True), start=1):
        for name, negations in zip(("predictions", "references"), both, strict=True):
            for own in negations:
                for column in ("cue_text", "scope_text"):
                    if len(own[column]) != len(tags):
                        raise ValueError(
                            f"{name}, sentence {number}: {len(own[column])} texts in {column!r}, but {len(tags)} tags"
                            " in 'pos'; give one of each per word."
                        )
                if not any(own["cue_text"]):
                    raise ValueError(
                        f"{name}, sentence {number}: a negation has no cue; give its characters in 'cue_text'."
                    )
