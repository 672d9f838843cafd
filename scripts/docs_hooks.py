"""Hooks of mkdocs: write the generated parts of the documentation into its pages.

`<!-- generated: KIND ARGUMENT -->` in a page becomes the output of the function of that name in `GENERATORS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from griffe import Docstring, DocstringSectionKind, Parser
from latex2mathml.converter import convert
from typer.main import get_command

ROOT = Path(__file__).parents[1]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace comments by what they name, and LaTeX by MathML, which browsers show without a script.

    The site has no page for a folder, so a link to one becomes its name.
    """
    markdown = markdown.replace("[the files of the runs](results)", "the files of the runs in `docs/results`")
    markdown = re.sub(r"<!-- generated: (\w+) ?(\S*) -->", lambda found: GENERATORS[found[1]](found[2]), markdown)
    return re.sub(r"```math\n(.*?)```", lambda found: equation(found[1].strip()), markdown, flags=re.DOTALL)


def equation(latex: str) -> str:
    """Return a displayed equation as HTML that scrolls on a narrow screen."""
    return f'<div class="equation">{convert(latex, display="block")}</div>'


def fields(name: str) -> str:
    """Return the table of a family's fields, with defaults and descriptions from its configuration class."""
    config = import_module("hf_localattn.registry").get_family(name).config
    sections = Docstring(config.__doc__, lineno=1).parse(Parser.google, warnings=False)
    (arguments,) = (part.value for part in sections if part.kind is DocstringSectionKind.parameters)
    rows = [
        f"| `{argument.name}` | {_default(config, argument.name)} | {_cell(argument.description)} |"
        for argument in arguments
        if not argument.name.startswith("*")
    ]
    return "\n".join(["| field | default | meaning |", "|---|---|---|", *rows])


def ablations(name: str) -> str:
    """Return the list of a family's ablations and baselines, and the tables of the paper that use them."""
    family = import_module("hf_localattn.registry").get_family(name)
    settings = [
        " ".join(f"`{field}={_word(value)}`" for field, value in setting.items()) for setting in family.ablations
    ]
    folder = ROOT / "hf_localattn" / "reproduction" / "tables"
    tables = []
    for table in import_module("hf_localattn.names").table_names():
        if table.startswith(f"{family.paper}-") and "-study-" not in table:
            title = yaml.safe_load((folder / f"{table}.yaml").read_text(encoding="utf-8"))["title"]
            tables.append(f"- `hf-localattn reproduce {table}`: {title}")
    return "\n".join([f"{', '.join(settings)}.", "", "The tables and figures of the paper:", "", *tables])


def metrics(_: str) -> str:
    """Return the description and the inputs of each metric."""
    parts = []
    for folder in sorted((ROOT / "hf_localattn" / "metrics").iterdir()):
        if (folder / f"{folder.name}.py").exists():
            module = import_module(f"hf_localattn.metrics.{folder.name}.{folder.name}")
            inputs = module.INPUTS_DESCRIPTION.strip()
            parts.append(f"## {folder.name}\n\n{module.DESCRIPTION}\n\n```text\n{inputs}\n```\n")
    return "\n".join(parts)


def commands(_: str) -> str:
    """Return the arguments and options of each command of `hf-localattn`."""
    parts = []
    for name, command in get_command(import_module("hf_localattn.cli").app).commands.items():
        context = command.make_context(f"hf-localattn {name}", [], resilient_parsing=True)
        usage = command.get_usage(context).removeprefix("Usage: ")
        rows = [f"| {_name(parameter)} | {_cell(parameter.help or '')} |" for parameter in command.params]
        table = "\n".join(["| argument | meaning |", "|---|---|", *rows])
        parts.append(f"## {name}\n\n{command.help}\n\n```text\n{usage}\n```\n\n{table}\n")
    return "\n".join(parts)


def changelog(_: str) -> str:
    """Return the changelog, with links from this folder."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](").removeprefix("# Changelog\n")


GENERATORS: dict[str, Callable[[str], str]] = {
    "ablations": ablations,
    "changelog": changelog,
    "commands": commands,
    "fields": fields,
    "metrics": metrics,
}


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        return ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
    return f"`{parameter.metavar or parameter.name.upper()}`"


def _default(config: type, name: str) -> str:
    value = getattr(config, name, None)
    return "" if value is None else f"`{_word(value)}`"


def _word(value: object) -> str:
    return value if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()
