"""Print the lowest versions that setup.cfg allows as a requirements file for `make test-floors`.

Usage: python scripts/floors.py [EXTRA ...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path

SETUP_CFG = Path(__file__).resolve().parent.parent / "setup.cfg"


def requirements(extras: Iterable[str] = ()) -> list[str]:
    """Return the requirements in `install_requires` and in the given extras."""
    config = ConfigParser()
    config.read(SETUP_CFG, encoding="utf-8")
    texts = [config["options"]["install_requires"]] + [config["options.extras_require"][extra] for extra in extras]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def main() -> None:
    """Print each `name>=version` as `name==version`."""
    for requirement in requirements(sys.argv[1:]):
        name, at_least, version = requirement.partition(">=")
        if not at_least:
            sys.exit(f"setup.cfg: {requirement!r} has no lower bound: write it as name>=version.")
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
