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
    *(f"starsem_{name}_{score}" for name, score in product(MEASURES, ("f1", "precision", "recall"))),
    *(f"starsem_{name}_b_{score}" for name, score in product(MEASURES[:-1], ("f1", "precision"))),
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
        predictions: Predicted negations, a list per sentence. A negation has two lists with a text per word, "" for
            words outside: `cue_text` and `scope_text`, the characters of the word in the cue and in the scope.
        references: True negations, in the same form.
        pos: Part-of-speech tags, a list per sentence. Tags without a letter mark punctuation.

    Returns:
        starsem_cues_f1: Cues whose words and characters are right, also with precision and recall, from 0 to 1.
        starsem_scopes_cue_match_f1: Right scopes of right cues, also with precision and recall.
        starsem_scopes_no_cue_match_f1: Right scopes of cues with a right word, also with precision and recall.
        starsem_scope_tokens_f1: Words of the scopes of cues with a right word, also with precision and recall.
        starsem_cues_b_f1, starsem_scopes_cue_match_b_f1, starsem_scopes_no_cue_match_b_f1: B variants, also with
            precision. All predicted elements count in their precision. The recall is the same.
        starsem_correct_sentences, starsem_correct_negation_sentences: Shares of sentences without a wrong cue or
            scope, of all sentences and of those with a negation.
        instance_f1, instance_precision, instance_recall: Precision and recall of scopes as means over negations, and
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
    _check_negations("predictions", predictions, pos)
    _check_negations("references", references, pos)
    counts, right = _count_negations(predictions, references, pos)
    right_negated = [is_right for is_right, true in zip(right, references, strict=True) if true]
    scores: dict[str, float] = {}
    for measure, count in counts.items():
        name = f"starsem_{measure}"
        hits = count["tp"]
        recall = round(hits / max(hits + count["fn"], 1) * 100, 2)
        scores[f"{name}_recall"] = recall
        # the precision of B variants counts all predicted elements
        for variant, predicted in ((name, hits + count["fp"]), (f"{name}_b", count["system"])):
            precision = round(hits / max(predicted, 1) * 100, 2)
            scores[f"{variant}_precision"] = precision
            # as in the program, of precision and recall in rounded hundredths of a percent
            scores[f"{variant}_f1"] = round(_harmonic_mean(precision, recall), 2)
    for name, sentences in zip(SENTENCES, (right, right_negated), strict=True):
        wrong = sentences.count(False) * 100 / len(sentences) if sentences else 100.0
        scores[name] = round(100 - round(wrong, 2), 2)
    official = {name: round(scores[name] / 100, 4) for name in STARSEM_SCORES}
    return {**official, **_instance_scores(predictions, references)}


def _check_negations(side: str, negations_of: Sequence[Negations], pos: Sequence[Sequence[str]]) -> None:
    for count, (negations, tags) in enumerate(zip(negations_of, pos, strict=True), start=1):
        for negation in negations:
            lengths = {len(negation["cue_text"]), len(negation["scope_text"])}
            if lengths != {len(tags)} or not any(negation["cue_text"]):
                raise ValueError(
                    f"{side}, sentence {count}: a negation needs a cue, and {len(tags)} texts in 'cue_text' and"
                    " 'scope_text'."
                )


def _harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _count_negations(
    predictions: Sequence[Negations], references: Sequence[Negations], pos: Sequence[Sequence[str]]
) -> tuple[dict[str, Counter[str]], list[bool]]:
    """Return the counts for each of `MEASURES`, and True for each sentence without an error.

    A wrong cue or scope is no false alarm ("fp") if it has an annotated negation with a word of its cue.
    """
    counts = {measure: Counter[str]() for measure in MEASURES}

    def count(measure: str, gold: dict[int, str], system: dict[int, str], may_hit: bool = True) -> None:
        hit = bool(gold) and gold == system and may_hit
        miss = bool(gold) and not hit
        false_alarm = bool(system) and not gold and may_hit
        counts[measure].update(system=bool(system), tp=hit, fn=miss, fp=false_alarm)

    right = []
    for predicted, true, tags in zip(predictions, references, pos, strict=True):
        golds = [_read(negation, tags) for negation in true]
        systems = [_read(negation, tags) for negation in predicted]
        pairs = list(_align(golds, systems))
        for gold, system in pairs:
            count("cues", gold.cue, system.cue)
            # the scope of a cue that is partly right can be no hit, and is no false alarm
            may_hit = gold.cue == system.cue or not gold.cue or not system.cue
            count("scopes_cue_match", gold.scope, system.scope, may_hit)
            count("scopes_no_cue_match", gold.scope, system.scope)
            hits = len(gold.scope.items() & system.scope.items())
            misses = len(gold.scope) - hits
            false_alarms = len(system.scope) - hits
            counts["scope_tokens"].update(system=len(system.scope), tp=hits, fn=misses, fp=false_alarms)
        right.append(all(gold == system for gold, system in pairs))
    return counts, right


def _align(golds: list[_Negation], systems: list[_Negation]) -> Iterator[tuple[_Negation, _Negation]]:
    """Yield pairs of annotated and predicted negations that share a word of their cues, then those left over."""
    free = list(systems)
    for gold in golds:
        system = next((system for system in free if system.cue.keys() & gold.cue.keys()), _NOTHING)
        if system is not _NOTHING:
            free.remove(system)
        yield gold, system
    for system in free:
        yield _NOTHING, system


def _read(negation: Mapping[str, Sequence[str]], tags: Sequence[str] | None) -> _Negation:
    """Return the characters of a negation, without punctuation in its scope: by tags as the program, or by letters."""
    cue = {index: text for index, text in enumerate(negation["cue_text"]) if text}
    scope = {}
    for index, text in enumerate(negation["scope_text"]):
        if tags is None:
            if re.search(r"\w", text):
                scope[index] = text
        elif text and _LETTER.search(tags[index]) and tags[index] not in BRACKETS:
            abbreviation = _ABBREVIATION.match(text)
            scope[index] = abbreviation[1] if abbreviation else text
    return _Negation(cue, scope)


def _instance_scores(predictions: Sequence[Negations], references: Sequence[Negations]) -> dict[str, float]:
    precision = recall = 0.0
    for predicted, true in zip(predictions, references, strict=True):
        free = [_read(negation, None) for negation in true]
        for negation in predicted:
            system = _read(negation, None)
            gold = next((gold for gold in free if gold.cue == system.cue), None)
            if gold is None:
                continue
            free.remove(gold)
            hits = len(gold.scope.items() & system.scope.items())
            # of an empty scope, every word is right
            precision += hits / len(system.scope) if system.scope else 1
            recall += hits / len(gold.scope) if gold.scope else 1
    precision /= sum(map(len, predictions)) or 1
    recall /= sum(map(len, references)) or 1
    f1 = _harmonic_mean(precision, recall)
    return {"instance_f1": f1, "instance_precision": precision, "instance_recall": recall}
