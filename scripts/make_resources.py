"""Write `hf_localattn/resources/`: tiny backbones, a tiny parser and a question-answering set. Reproducible.

Usage: python scripts/make_resources.py [--output FOLDER]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reading_texts import reading_comprehension
from tiny_backbone import write_tiny_backbones
from tiny_parser import write_tiny_parser

RESOURCES = Path(__file__).resolve().parent.parent / "hf_localattn" / "resources"


def main() -> None:
    """Write all files. Existing files are overwritten."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESOURCES, help="default: the folder in the package")
    output = parser.parse_args().output

    halves = reading_comprehension()
    folder = output / "samples" / "reading"
    folder.mkdir(parents=True, exist_ok=True)
    for name, half in halves.items():
        (folder / f"{name}.json").write_text(dump(half), encoding="utf-8")
    write_tiny_backbones(output, (text for half in halves.values() for text in texts(half)))
    write_tiny_parser(output / "tiny-parser")


def dump(half: dict[str, Any]) -> str:
    """Return JSON with one paragraph per line: short, but readable in diffs."""
    articles = []
    for article in half["data"]:
        paragraphs = ",\n".join(json.dumps(paragraph) for paragraph in article["paragraphs"])
        articles.append(f'{{"title": {json.dumps(article["title"])}, "paragraphs": [\n{paragraphs}\n]}}')
    return f'{{"version": {json.dumps(half["version"])}, "data": [\n' + ",\n".join(articles) + "\n]}\n"


def texts(half: dict[str, Any]) -> Iterator[str]:
    """Yield all titles, passages and questions."""
    for article in half["data"]:
        yield article["title"]
        for paragraph in article["paragraphs"]:
            yield paragraph["context"]
            yield from (question["question"] for question in paragraph["qas"])


if __name__ == "__main__":
    main()
