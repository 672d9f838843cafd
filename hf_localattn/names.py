"""Names of families and tables, found without importing torch, so that a misspelt name is an error at once."""

from __future__ import annotations

import re
from pathlib import Path

PLAIN = "baseline"
"""Value of --family for a backbone without local attention."""

_PACKAGE = Path(__file__).parent


def family_names() -> list[str]:
    """Return the names of all families. Each family has a file of text for its cards."""
    return sorted(path.stem.replace("_", "-") for path in (_PACKAGE / "registry").glob("*.yaml"))


def table_names() -> list[str]:
    """Return the names of all tables and figures that can be reproduced."""
    return sorted((path.stem for path in (_PACKAGE / "reproduction" / "tables").glob("*.yaml")), key=_by_number)


def check_family(name: str) -> None:
    """Raise `ValueError` if there is no family with this name. The message lists all names."""
    _check("family", name, family_names())


def check_family_option(name: str) -> None:
    """Raise `ValueError` for an unknown value of a training script's `--family`. The message lists all names."""
    names = [*family_names(), PLAIN]
    if name not in names:
        raise ValueError(f"--family must be one of {', '.join(names)}; got {name!r}.")


def check_table(name: str) -> None:
    """Raise `ValueError` if there is no table or figure with this name. The message lists all names."""
    _check("table", name, table_names())


def _check(kind: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise ValueError(f"There is no {kind} {name!r}. Choose one of {', '.join(names)}.")


def _by_number(name: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
