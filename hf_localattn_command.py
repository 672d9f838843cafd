"""The entry point of the `hf-localattn` command.

It is not in the package, because `import hf_localattn` registers the families, for which it imports torch and
transformers, and `hf-localattn --help` need not wait for them. Where this module is imported first, the package leaves
the registration to the commands, which import what they need.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    from hf_localattn.cli import main

    return main(argv)
