"""Measure negation systems in processor seconds per 1,000 words: `python -m benchmarks.negation_speed FILE...`.

Each line of a file is a text. The systems are components of spaCy: negspacy, medspaCy's ConText, and ours with torch
and with ONNX Runtime. Only the component is measured, in documents that have words, sentences and entities. Each is
measured where it is installed: medspaCy needs an environment of its own. Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import spacy
from spacy.tokens import Doc, Span

from benchmarks.negation import versions

ENTITY_EVERY = 8
"""Words from one entity to the next; what they are does not matter for the time."""

SYSTEMS = ("negspacy", "medspaCy", "ours, torch", "ours, ONNX")


def component(system: str) -> Any:
    """Return the component of a system; `ImportError` if it is not installed."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    if system == "negspacy":
        import negspacy.negation  # noqa: F401 (registers the component)

        return nlp.add_pipe("negex")
    if system == "medspaCy":
        import medspacy.context  # noqa: F401 (registers the component)

        return nlp.add_pipe("medspacy_context")
    import hf_localattn.pipelines  # noqa: F401 (`ImportError` without the package)

    with patch("hf_localattn.pipelines.uses_onnx", lambda device=None: system.endswith("ONNX")):
        return nlp.add_pipe("hf_localattn_negation")


def documents(texts: Sequence[str]) -> list[Doc]:
    """Return texts with words, sentences and entities."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    docs = list(nlp.pipe(texts))
    for doc in docs:
        doc.ents = [Span(doc, start, start + 1, "TARGET") for start in range(1, len(doc), ENTITY_EVERY)]
    return docs


def seconds(system: str, texts: Sequence[str], repeats: int) -> float:
    """Return the smallest processor time of a system for texts."""
    pipe = component(system)
    times = []
    for _ in range(repeats + 1):  # the first is a warm-up
        docs = documents(texts)
        start = time.process_time()
        for _ in pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs):
            pass
        times.append(time.process_time() - start)
    return min(times[1:])


def run(files: Sequence[Path], repeats: int) -> dict[str, Any]:
    """Measure the installed systems on the lines of each file."""
    result: dict[str, Any] = {"versions": versions(), "files": {}}
    for path in files:
        texts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        words = sum(len(doc) for doc in documents(texts))
        row: dict[str, Any] = {"words": words}
        for system in SYSTEMS:
            try:
                row[system] = round(1000 * seconds(system, texts, repeats) / words, 4)
            except ImportError as error:
                row[system] = f"skipped: {error}"
        result["files"][path.name] = row
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.negation_speed", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="texts, one per line")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    result = run(arguments.files, arguments.repeats)
    for name, row in result["files"].items():
        print(f"{name}: {json.dumps(row)}")
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
