"""Compare the model of the package by PyTorch and as a graph: `python -m benchmarks.negation_agreement CORPUS...`.

Both read the sentences of each corpus, in a form that `run_ner.py --task negation` reads. PyTorch multiplies 32-bit
floats, the graph of ONNX Runtime 8-bit integers. Printed is in how many sentences they differ, and how.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hf_localattn.bundled import negation_model
from hf_localattn.data import load_negation
from hf_localattn.data.negation import group_sentences
from hf_localattn.models.negation_finder import Finding, NegationFinder
from hf_localattn.models.negation_model import ModelLabeler
from hf_localattn.models.negation_reading import Reading
from hf_localattn.negation.graph import GraphLabeler
from hf_localattn.resources import NEGATION


def compare(by_model: Sequence[Sequence[Finding]], by_graph: Sequence[Sequence[Finding]]) -> Counter[str]:
    """Return numbers of sentences, cues and words of scopes, and of those that differ, by kind of difference."""
    counts: Counter[str] = Counter()
    for findings in zip(by_model, by_graph, strict=True):
        model, graph = ({(found.cue.kind, found.cue.words): found for found in some} for some in findings)
        both = model.keys() & graph.keys()
        scopes = [sum(a != b for a, b in zip(model[cue].scope, graph[cue].scope, strict=True)) for cue in sorted(both)]
        types = sum(model[cue].cue.type != graph[cue].cue.type for cue in both)
        differs = model.keys() != graph.keys() or any(scopes) or types > 0
        counts += Counter(
            {
                "sentences": 1,
                "sentences that differ": int(differs),
                "cues of both": len(both),
                "cues of the model alone": len(model.keys() - both),
                "cues of the graph alone": len(graph.keys() - both),
                "cues of another type": types,
                "scopes that differ": sum(map(bool, scopes)),
                "words in scopes": sum(sum(model[cue].scope) for cue in both),
                "words that differ": sum(scopes),
            }
        )
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.negation_agreement", description=__doc__)
    parser.add_argument("corpora", nargs="+", type=Path, metavar="CORPUS")
    parser.add_argument("--convention", default="stories")
    parser.add_argument("--most", type=int, metavar="N", help="read the first N sentences of each corpus")
    arguments = parser.parse_args()
    labelers = (ModelLabeler(*negation_model()), GraphLabeler(NEGATION))
    total: Counter[str] = Counter()
    for path in arguments.corpora:
        rows = load_negation(path, "both", unmatched_scopes="skip", all_sentences=True)
        sentences = [sentence[0]["tokens"] for sentence in group_sentences(rows)][: arguments.most]
        counts = compare(*(NegationFinder(one).find(sentences, Reading(arguments.convention)) for one in labelers))
        print(path.name, json.dumps(counts), flush=True)
        total += counts
    print("all", json.dumps(total))


if __name__ == "__main__":
    main()
