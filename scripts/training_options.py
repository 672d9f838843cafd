"""Write the table of transformers' training arguments into docs/training_options.md, from the code.

The lines between `<!-- generated: options -->` and `<!-- end -->` are replaced.

Usage: python -m scripts.training_options
"""

from __future__ import annotations

import re
from pathlib import Path

from hf_localattn.training.options import CLASSES, FIELDS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "training_options.md"


def table() -> str:
    """Return a list of the classes, and a table of the fields of each class."""
    lines = []
    for kind, meaning in CLASSES.items():
        lines += [f"## {kind[0].upper()}{kind[1:]}", "", meaning, ""]
        notes = {name: treatment.note for name, treatment in FIELDS.items() if treatment.kind == kind}
        plain = [f"`{name}`" for name, note in notes.items() if not note]
        rows = [f"| `{name}` | {note[0].upper()}{note[1:]} |" for name, note in notes.items() if note]
        if plain:
            lines += [f"{', '.join(plain)}.", ""]
        if rows:
            lines += ["| option | note |", "|---|---|", *rows, ""]
    return "\n".join(lines).rstrip()


def render(page: str) -> str:
    """Return the text of the page with its generated part renewed."""
    pattern = r"(<!-- generated: options -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}\n{table()}\n\n{match[2]}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
