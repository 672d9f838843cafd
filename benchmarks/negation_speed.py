"""Measure the time, start and memory of negation systems: `python -m benchmarks.negation_speed FILE...`.

Each line of a file is a text. The systems are components of spaCy: negspacy, medspaCy's ConText, and ours with torch
and with ONNX Runtime. The time, in processor seconds per 1,000 words, is that of the component alone, in documents
that have words, sentences and entities. Start and memory are those of a program until its first answer. Each system
is measured where it is installed: medspaCy needs an environment of its own. Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
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
    import hf_localattn_spacy  # noqa: F401 (`ImportError` without the package)

    # PyTorch computes the model where onnxruntime is not installed
    installed = nullcontext() if system.endswith("ONNX") else patch("hf_localattn.negation.texts.find_spec")
    with installed as find_spec:
        if find_spec is not None:
            find_spec.return_value = None
        return nlp.add_pipe("hf_localattn_negation", config={"ent_attribute": "is_absent"})  # negspacy has negex


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


SPACY = """
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
nlp.add_pipe("entity_ruler").add_patterns([{{"label": "P", "pattern": "fever"}}])
{imports}
nlp.add_pipe("{name}")
assert nlp("No fever.").ents[0]._.{extension}
"""
STARTS = {
    "negspacy": SPACY.format(imports="import negspacy.negation", name="negex", extension="negex"),
    "medspaCy": SPACY.format(imports="import medspacy.context", name="medspacy_context", extension="is_negated"),
    "our component": SPACY.format(imports="", name="hf_localattn_negation", extension="negex"),
    "our finder": "from hf_localattn.negation import finder; assert finder()('No fever.')",
    "our command": "from hf_localattn_command import main; main(['negation', 'No fever.'])",
    "pipeline": "from transformers import pipeline; import hf_localattn; assert pipeline('negation')('No fever.')",
}
"""Programs from the start of Python to the first answer."""


def start(program: str) -> dict[str, float] | str:
    """Return processor seconds and the most memory (MB) of a program; what is missing if it fails."""
    # The largest size that is reported for an ended process includes that of the process that started it.
    program += (
        "\nimport re, sys; sys.stderr.write(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = process.stderr.read().decode().strip() if process.stderr else ""
    _, status, usage = os.wait4(process.pid, 0)
    last = message.splitlines()[-1] if message else ""
    if status:
        return f"skipped: {last}"
    return {"seconds": round(usage.ru_utime + usage.ru_stime, 2), "MB": round(int(last) / 1024)}


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
    result["start"] = {name: start(program) for name, program in STARTS.items()}
    for name, row in result["files"].items():
        print(f"{name}: {json.dumps(row)}")
    for name, row in result["start"].items():
        print(f"start of {name}: {json.dumps(row)}")
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
