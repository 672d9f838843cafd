"""Write the tables of fields and the lists of ablations into the pages of the families, from the code.

The lines between `<!-- generated: KIND FAMILY -->` and `<!-- end -->` are replaced.

Usage: python -m scripts.family_pages
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from hf_localattn.families import get_family
from hf_localattn.families.describe import meanings
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.fields import field_types
from reproduction.tables import table_names

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "families"
TABLES = ROOT / "reproduction" / "tables"


def fields(name: str) -> str:
    """Return the table of a family's fields, or of those of "all" families, from its configuration class."""
    config = LocalAttentionConfig if name == "all" else get_family(name).config
    shared = {} if name == "all" else field_types(LocalAttentionConfig)
    rows = []
    for field, text in meanings(config).items():
        if field in shared:
            continue
        text = re.sub(r"\s*\n\* ", "<br>", text)
        default = getattr(config, field)
        shown = "" if default is None else f"`{_word(default)}`"
        rows.append(f"| `{field}` | {shown} | {' '.join(text.split()).replace('|', chr(92) + '|')} |")
    return "\n".join(["| field | default | meaning |", "|---|---|---|", *rows])


def ablations(name: str) -> str:
    """Return the list of a family's ablations and baselines, and the tables of the paper that use them."""
    family = get_family(name)
    settings = [
        " ".join(f"`{field}={_word(value)}`" for field, value in setting.items()) for setting in family.ablations
    ]
    tables = []
    for table in table_names():
        if table.startswith(f"{name.partition('-')[0]}-") and "-study-" not in table:
            title = yaml.safe_load((TABLES / f"{table}.yaml").read_text(encoding="utf-8"))["title"]
            tables.append(f"- `python -m reproduction {table}`: {title}")
    return "\n".join([f"{', '.join(settings)}.", "", "The tables and figures of the paper:", "", *tables])


KINDS = {"fields": fields, "ablations": ablations}


def render(page: str) -> str:
    """Return the text of a page with its generated parts renewed."""
    return re.sub(
        r"(<!-- generated: (\w+) (\S+) -->\n).*?\n(<!-- end -->)",
        lambda found: f"{found[1]}\n{KINDS[found[2]](found[3])}\n\n{found[4]}",
        page,
        flags=re.DOTALL,
    )


def _word(value: object) -> str:
    return value if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)


if __name__ == "__main__":
    for path in PAGES.glob("*.md"):
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
