"""Entry point of the `hf-localattn` command.

This module is outside the package, because `import hf_localattn` imports torch and transformers to register the
families. That would slow down `hf-localattn --help`. If this module is imported first, the package does not register
the families on import. Each command imports the modules that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    from hf_localattn.cli import main

    return main(argv)
