"""Hooks of mkdocs: write the generated parts of the documentation into its pages.

`<!-- generated: KIND -->` in a page becomes the output of the function of that name in `GENERATORS`. Other
comments of this form are for `scripts/family_pages.py` and `scripts/training_options.py`, which write into the files,
so that their tables can be read without the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from typer.main import get_command

from hf_localattn.families import FAMILIES

ROOT = Path(__file__).parents[1]


def on_config(config: Any, **_: Any) -> None:
    """Put the pages of the families into the navigation, before the other pages of its part "Families"."""
    (pages,) = (part["Families"] for part in config["nav"] if "Families" in part)
    names = sorted(path.stem for path in (ROOT / "docs" / "families").glob("*.md") if path.stem != "index")
    pages[1:1] = [{name.upper(): f"families/{name}.md"} for name in names]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace comments by what they name, and LaTeX by MathML, which browsers show without a script.

    The site has no page for a folder, so a link to one becomes its name.
    """
    markdown = markdown.replace("[the files of the runs](results)", "the files of the runs in the repository")
    for name, generator in GENERATORS.items():
        comment = f"<!-- generated: {name} -->"
        if comment in markdown:
            markdown = markdown.replace(comment, generator())
    return re.sub(r"```math\n(.*?)```", lambda found: equation(found[1].strip()), markdown, flags=re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Keep the words of commands and of code in a text whole: browsers break them at hyphens."""
    html = re.sub(r"<code>[^<\n]+</code>", lambda found: re.sub(r"(?<=[\s>])[^\s<>]+", _keep, found[0]), html)
    blocks = re.compile(r'<div class="language-bash.*?</div>', flags=re.DOTALL)
    return blocks.sub(lambda found: re.sub(r"(?<=[\s>])[\w.:/]*-[\w.:/-]*(?=[\s<])", _keep, found[0]), html)


def equation(latex: str) -> str:
    """Return a displayed equation as HTML that scrolls on a narrow screen."""
    return f'<div class="equation">{convert(latex, display="block")}</div>'


def commands() -> str:
    """Return the arguments and options of each command of `hf-localattn`."""
    parts = []
    for name, command in get_command(import_module("hf_localattn.cli").app).commands.items():
        context = command.make_context(f"hf-localattn {name}", [], resilient_parsing=True)
        usage = command.get_usage(context).removeprefix("Usage: ")
        rows = [f"| {_name(parameter)} | {_cell(parameter.help or '')} |" for parameter in command.params]
        table = "\n".join(["| argument | meaning |", "|---|---|", *rows])
        parts.append(f"## {name}\n\n{command.help}\n\n```text\n{usage}\n```\n\n{table}\n")
    return "\n".join(parts)


def models() -> str:
    """Return the reference of the model classes of all families."""
    return _reference(*(model for family in FAMILIES.values() for model in family.classes.values()))


def configurations() -> str:
    """Return the reference of the configuration classes of all families."""
    return _reference(*(family.config for family in FAMILIES.values()))


def tokenizers() -> str:
    """Return the reference of the tokenizers that families have."""
    return _reference(*filter(None, (family.tokenizer for family in FAMILIES.values())))


def changelog() -> str:
    """Return the changelog."""
    return _root_page("CHANGELOG.md")


def contributing() -> str:
    """Return the guide for contributors."""
    return _root_page("CONTRIBUTING.md")


GENERATORS: dict[str, Callable[[], str]] = {
    "changelog": changelog,
    "commands": commands,
    "configurations": configurations,
    "contributing": contributing,
    "models": models,
    "tokenizers": tokenizers,
}


def _reference(*classes: type) -> str:
    """Return the lines that mkdocstrings replaces by the documentation of classes."""
    return "\n\n".join(sorted(f"::: hf_localattn.{documented.__name__}" for documented in classes))


def _root_page(name: str) -> str:
    """Return a page of the repository below its title, with links from this folder; other files have no page."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](").partition("\n")[2]
    return re.sub(r"\[([^]]+)\]\([A-Z]+\.md\)", r"\1", text)


def _keep(word: re.Match[str]) -> str:
    return f'<span class="word">{word[0]}</span>' if len(word[0]) < 40 else word[0]


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        return ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
    return f"`{parameter.metavar or parameter.name.upper()}`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()
