"""Names of families, found without importing torch, so that a misspelt name is an error at once."""

from __future__ import annotations

from pathlib import Path

PLAIN = "baseline"
"""Value of --family for a backbone without local attention."""

_PACKAGE = Path(__file__).parent


def family_names() -> list[str]:
    """Return the names of all families. Each family has a file of text for its cards."""
    return sorted(path.stem.replace("_", "-") for path in (_PACKAGE / "registry").glob("*.yaml"))


def check_family(name: str) -> None:
    """Raise `ValueError` if there is no family with this name. The message lists all names."""
    if name not in family_names():
        raise ValueError(f"There is no family {name!r}. Choose one of {', '.join(family_names())}.")


def check_family_option(name: str) -> None:
    """Raise `ValueError` for an unknown value of a training script's `--family`. The message lists all names."""
    names = [*family_names(), PLAIN]
    if name not in names:
        raise ValueError(f"--family must be one of {', '.join(names)}; got {name!r}.")
