"""Write the tables of options into docs/training_options.md, from their declarations.

The lines between `<!-- generated: options -->` or `<!-- generated: ours -->` and `<!-- end -->` are replaced.

Usage: python -m scripts.training_options
"""

from __future__ import annotations

import re
from pathlib import Path

from hf_localattn.settings.data import DATA_ARGUMENTS, DataArguments
from hf_localattn.settings.model import ModelArguments
from hf_localattn.settings.option import NEEDS, OURS, REFUSED, WORKS, Option, options_of
from hf_localattn.settings.stock import OTHERS, all_options
from hf_localattn.settings.training import NewGenerationArguments, NewTrainingArguments

PAGE = Path(__file__).resolve().parent.parent / "docs" / "training_options.md"

KINDS = {
    WORKS: "It does in every task what transformers documents.",
    OURS: "The package sets it, or has a default or a meaning of its own.",
    NEEDS: "It works with another option, library, device, task or label; without it the run is refused.",
    REFUSED: "A value other than the default is refused.",
}
"""What a run does with training arguments of transformers."""


def ours() -> str:
    """Return a table of the options of model, data, each task and training."""
    common = options_of(DataArguments)
    parts = {"Model": options_of(ModelArguments), "Data": common}
    for script, arguments in DATA_ARGUMENTS.items():
        parts[f"`train {script}`"] = {n: o for n, o in options_of(arguments).items() if common.get(n) != o}
    parts["Training"] = {name: option for name, option in options_of(NewTrainingArguments).items() if not option.kind}
    lines = []
    for title, options in parts.items():
        lines += [f"### {title}", "", "| option | meaning |", "|---|---|", *map(row, options.values()), ""]
    return "\n".join(lines).rstrip()


def row(option: Option) -> str:
    """Return the row of an option."""
    names = ", ".join(f"`{name}`" for name in (f"--{option.name}", *option.aliases))
    text = option.full_help.replace("*", "\\*").replace("<", "&lt;")
    return f"| {names} | {text} |"


def table() -> str:
    """Return a list of the kinds of options, and a table of the options of each kind."""
    lines = []
    for kind, meaning in KINDS.items():
        lines += [f"## {kind[0].upper()}{kind[1:]}", "", meaning, ""]
        options = all_options(NewGenerationArguments).items()
        known = {name: option.note or option.full_help for name, option in options if option.kind == kind}
        plain = [f"`{name}`" for name in known if kind == WORKS and name not in OTHERS]
        rows = [f"| `{name}` | {note[0].upper()}{note[1:]} |" for name, note in known.items() if kind != WORKS]
        if plain:
            lines += [f"{', '.join(plain)}, and all options that do not stand on this page.", ""]
        if rows:
            lines += ["| option | note |", "|---|---|", *rows, ""]
    return "\n".join(lines).rstrip()


def render(page: str) -> str:
    """Return the text of the page with its generated part renewed."""
    for name, text in (("options", table()), ("ours", ours())):
        pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
        page = re.sub(pattern, lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}", page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
