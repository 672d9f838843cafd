"""Scores of the negations of sentences: measures of the *SEM 2012 shared task, and means over negations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
"""Names of the measures of the shared task."""

BRACKETS = ("-LRB-", "-RRB-")
"""Part-of-speech tags of punctuation that have letters."""

# The shared task's program knows ASCII only.
_LETTER = re.compile(r"\w", re.ASCII)
_ABBREVIATION = re.compile(r"(\w+)\.", re.ASCII)


class _Negation(NamedTuple):
    cue: dict[int, str]
    scope: dict[int, str]


_NOTHING = _Negation({}, {})


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
        instance_f1, instance_precision, instance_recall: precision and recall of scopes as means over negations, and
            their harmonic mean (NIS; Sineva et al. 2021). A negation without its exact cue on the other side has 0.
            Only words with a letter or digit count.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> true = [{"cue_text": ["", "never", ""], "scope_text": ["He", "", "left"]}]
        >>> found = [{"cue_text": ["", "never", ""], "scope_text": ["", "", "left"]}]
        >>> scores = load_metric("starsem").compute(predictions=[found], references=[true], pos=[["P", "R", "V"]])
        >>> scores["starsem_cues_f1"], scores["starsem_scope_tokens_f1"]
        (1.0, 0.6667)
    """
    for side, listed in (("predictions", predictions), ("references", references)):
        for number, (negations, tags) in enumerate(zip(listed, pos, strict=True), start=1):
            for one in negations:
                if {len(one["cue_text"]), len(one["scope_text"])} != {len(tags)} or not any(one["cue_text"]):
                    problem = f"a negation needs a cue, and {len(tags)} texts in 'cue_text' and 'scope_text'"
                    raise ValueError(f"{side}, sentence {number}: {problem}.")
    counts, right = _count_negations(predictions, references, pos)
    negated = [own for own, true in zip(right, references, strict=True) if true]
    scores: dict[str, float] = {}
    for measure, own in counts.items():
        name, hits = f"starsem_{measure}", own["tp"]
        scores[f"{name}_recall"] = recall = round(hits / max(hits + own["fn"], 1) * 100, 2)
        # the precision of B variants counts all predicted elements
        for variant, found in ((name, hits + own["fp"]), (f"{name}_b", own["system"])):
            scores[f"{variant}_precision"] = precision = round(hits / max(found, 1) * 100, 2)
            # as in the program, of precision and recall in rounded hundredths of a percent
            f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
            scores[f"{variant}_f1"] = round(f1, 2)
    for name, sentences in zip(SENTENCES, (right, negated), strict=True):
        wrong = sentences.count(False) * 100 / len(sentences) if sentences else 100.0
        scores[name] = round(100 - round(wrong, 2), 2)
    official = {name: round(scores[name] / 100, 4) for name in STARSEM_SCORES}
    return {**official, **_instance_scores(predictions, references)}


def _count_negations(
    predictions: Sequence[Negations], references: Sequence[Negations], pos: Sequence[Sequence[str]]
) -> tuple[dict[str, Counter[str]], list[bool]]:
    """Return the counts for each of `MEASURES`, and True for each sentence without an error.

    A wrong cue or scope is no false alarm ("fp") if it has an annotated negation with a word of its cue.
    """
    counts = {measure: Counter[str]() for measure in MEASURES}

    def count(measure: str, gold: dict[int, str], system: dict[int, str], may_hit: bool = True) -> None:
        hit = bool(gold) and gold == system and may_hit
        missed, alarm = bool(gold) and not hit, bool(system) and not gold and may_hit
        counts[measure].update(system=bool(system), tp=hit, fn=missed, fp=alarm)

    right = []
    for predicted, true, tags in zip(predictions, references, pos, strict=True):
        pairs = list(_align(*([_read(own, tags) for own in listed] for listed in (true, predicted))))
        for gold, system in pairs:
            count("cues", gold.cue, system.cue)
            # the scope of a cue that is partly right can be no hit, and is no false alarm
            may_hit = gold.cue == system.cue or not gold.cue or not system.cue
            count("scopes_cue_match", gold.scope, system.scope, may_hit)
            count("scopes_no_cue_match", gold.scope, system.scope)
            hits, found, there = len(gold.scope.items() & system.scope.items()), len(system.scope), len(gold.scope)
            counts["scope_tokens"].update(system=found, tp=hits, fn=there - hits, fp=found - hits)
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


def _read(negation: Mapping[str, Sequence[str]], tags: Sequence[str] | None) -> _Negation:
    """Return the characters of a negation, without punctuation in its scope: by tags as the program, or by letters."""
    cue, scope = (
        {place: text for place, text in enumerate(negation[name]) if text} for name in ("cue_text", "scope_text")
    )
    if tags is None:
        return _Negation(cue, {place: text for place, text in scope.items() if re.search(r"\w", text)})
    words = (place for place in scope if _LETTER.search(tags[place]) and tags[place] not in BRACKETS)
    matches = {place: _ABBREVIATION.match(scope[place]) for place in words}
    return _Negation(cue, {place: match[1] if match else scope[place] for place, match in matches.items()})


def _instance_scores(predictions: Sequence[Negations], references: Sequence[Negations]) -> dict[str, float]:
    precision = recall = 0.0
    for predicted, true in zip(predictions, references, strict=True):
        free = [_read(own, None) for own in true]
        for system in (_read(own, None) for own in predicted):
            if gold := next((own for own in free if own.cue == system.cue), None):
                free.remove(gold)
                hits = len(gold.scope.items() & system.scope.items())
                precision += hits / len(system.scope) if system.scope else 1  # of an empty scope, every word is right
                recall += hits / len(gold.scope) if gold.scope else 1
    precision /= sum(map(len, predictions)) or 1
    recall /= sum(map(len, references)) or 1
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"instance_f1": f1, "instance_precision": precision, "instance_recall": recall}
