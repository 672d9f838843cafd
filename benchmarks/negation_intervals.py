"""F1 of cues and scopes with 95 % intervals: `python -m benchmarks.negation_intervals CORPUS...`.

The model of the package reads the sentences of each corpus, in a form that `run_ner.py --task negation` reads. Its
scores are those of `--do_eval --detect_cues`. Bootstrap samples draw sentences.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_localattn.bundled import negation_model
from hf_localattn.data import load_negation
from hf_localattn.data.negation import group_sentences, with_negation
from hf_localattn.metrics import load_metric
from hf_localattn.models.negation_conventions import limit_scope
from hf_localattn.models.negation_finder import NegationFinder
from hf_localattn.models.negation_labels import CUE_KINDS, FoundCue
from hf_localattn.models.negation_model import ModelLabeler
from hf_localattn.models.negation_reading import Reading

SAMPLES = 1000
OFFICIAL_SAMPLES = 200
Item = tuple[str, tuple[int, ...], int]
"""Kind and words of a cue, and a word of its scope."""


def words_of(kind: str, words: Sequence[int], scope: Sequence[Any]) -> set[Item]:
    """Return the words in the scope of a cue."""
    return {(kind, tuple(words), index) for index, inside in enumerate(scope) if inside}


def read(sentences: Sequence[Sequence[dict[str, Any]]], convention: str) -> list[dict[str, tuple[set[Any], set[Any]]]]:
    """Return the predicted and true items of each measure for each sentence, and the predictions as rows."""
    finder = NegationFinder(ModelLabeler(*negation_model()))
    tokens = [sentence[0]["tokens"] for sentence in sentences]
    cues = [[row for row in sentence if any(row["cue"])] for sentence in sentences]
    kinds = {row["cue_kind"] for rows in cues for row in rows} or {CUE_KINDS[0]}
    given = [
        (number, FoundCue(row["cue_kind"], row["cue_type"], tuple(np.flatnonzero(row["cue"]).tolist())), row["scope"])
        for number, rows in enumerate(cues)
        for row in rows
    ]
    scopes = finder.find_scopes([tokens[number] for number, *_ in given], [cue for _, cue, _ in given])
    items: list[dict[str, Any]] = [
        {"cues": (set(), set()), "words in scope": (set(), set()), "with found cues": (set(), set()), "rows": []}
        for _ in sentences
    ]
    for (number, cue, true), (scope, _) in zip(given, scopes, strict=True):
        limited = limit_scope(convention, tokens[number], cue.words, scope)
        for name, predicted in (("words in scope", limited), ("with found cues", [])):
            items[number][name][0].update(words_of(cue.kind, cue.words, predicted))
            items[number][name][1].update(words_of(cue.kind, cue.words, true))
        items[number]["cues"][1].add((cue.kind, cue.words))
    for number, findings in enumerate(finder.find(tokens, Reading(convention))):
        for finding in findings:
            cue = finding.cue
            if cue.kind in kinds:
                items[number]["cues"][0].add((cue.kind, cue.words))
                items[number]["with found cues"][0].update(words_of(cue.kind, cue.words, finding.scope))
                marked = list(map(int, finding.scope))
                is_affix = cue.type == "affix"
                items[number]["rows"].append(with_negation(sentences[number][0], cue.words, marked, affix=is_affix))
    return items


def f1(counts: np.ndarray) -> np.ndarray:
    """Return F1 from the numbers (..., 3) of right, predicted and true items."""
    right, predicted, true = np.moveaxis(counts, -1, 0)
    return 200 * right / np.maximum(predicted + true, 1)


def intervals(sentences: Sequence[Sequence[dict[str, Any]]], convention: str) -> dict[str, list[float]]:
    """Return each F1, and the ends of its interval, in percent."""
    items = read(sentences, convention)
    generator = np.random.default_rng(0)
    draws = generator.integers(len(sentences), size=(SAMPLES, len(sentences)))
    scores = {}
    for name in ("cues", "words in scope", "with found cues"):
        pairs = [item[name] for item in items]
        counts = np.array([[len(found & true), len(found), len(true)] for found, true in pairs])
        samples = f1(counts[draws].sum(axis=1))
        scores[name] = [float(f1(counts.sum(axis=0))), *np.percentile(samples, [2.5, 97.5]).tolist()]
    if all(sentence[0]["pos"] for sentence in sentences):
        metric = load_metric("starsem")
        predicted, true = ([_texts(rows) for rows in side] for side in ([item["rows"] for item in items], sentences))

        def official(chosen: Sequence[int]) -> float:
            picked = [[side[index] for index in chosen] for side in (predicted, true)]
            pos = [sentences[index][0]["pos"] for index in chosen]
            scored = metric.compute(predictions=picked[0], references=picked[1], pos=pos)
            return 100 * scored["starsem_scope_tokens_f1"]

        samples = [official(draw) for draw in draws[:OFFICIAL_SAMPLES]]
        scores["official"] = [official(range(len(sentences))), *np.percentile(samples, [2.5, 97.5]).tolist()]
    return scores


def _texts(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in ("cue_text", "scope_text")} for row in rows if any(row["cue_text"])]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.negation_intervals", description=__doc__)
    parser.add_argument("corpora", nargs="+", type=Path, metavar="CORPUS")
    parser.add_argument("--convention", default="stories")
    parser.add_argument("--cues", default="negation", choices=("negation", "speculation", "both"))
    arguments = parser.parse_args()
    for path in arguments.corpora:
        sentences = group_sentences(load_negation(path, arguments.cues, unmatched_scopes="skip", all_sentences=True))
        scores = intervals(sentences, arguments.convention)
        shown = {name: [round(value, 1) for value in values] for name, values in scores.items()}
        print(path.name, arguments.convention, json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
