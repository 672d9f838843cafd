"""Write the table of transformers' training arguments into docs/training_options.md, from their declarations.

The lines between `<!-- generated: options -->` and `<!-- end -->` are replaced.

Usage: python -m scripts.training_options
"""

from __future__ import annotations

import re
from pathlib import Path

from hf_localattn.settings.option import KINDS
from hf_localattn.settings.stock import OTHERS, all_options
from hf_localattn.settings.training import NewGenerationArguments

PAGE = Path(__file__).resolve().parent.parent / "docs" / "training_options.md"


def table() -> str:
    """Return a list of the kinds of options, and a table of the options of each kind."""
    lines = []
    for kind, meaning in KINDS.items():
        lines += [f"## {kind[0].upper()}{kind[1:]}", "", meaning, ""]
        options = all_options(NewGenerationArguments).items()
        known = {name: option.note for name, option in options if option.kind == kind}
        plain = [f"`{name}`" for name, note in known.items() if not note and name not in OTHERS]
        rows = [f"| `{name}` | {note[0].upper()}{note[1:]} |" for name, note in known.items() if note]
        if plain:
            lines += [f"{', '.join(plain)}, and all options that do not stand on this page.", ""]
        if rows:
            lines += ["| option | note |", "|---|---|", *rows, ""]
    return "\n".join(lines).rstrip()


def render(page: str) -> str:
    """Return the text of the page with its generated part renewed."""
    pattern = r"(<!-- generated: options -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}\n{table()}\n\n{match[2]}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
