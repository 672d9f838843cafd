"""Entry point of the `hf-localattn` command.

This module is outside the package, because `import hf_localattn` imports torch and transformers to register the
families. That would slow down `hf-localattn --help`. If this module is imported first, the package does not register
the families on import. Each command imports the modules that it needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hf_localattn.errors import ENDS_WITH_STDIN, end_with_stdin, exit_on_interrupt

RESUMABLE = ("init", "push", "train")
"""Commands that complete their work when they are repeated."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    if os.environ.pop(ENDS_WITH_STDIN, None):
        end_with_stdin()
    words = sys.argv[1:] if argv is None else argv
    with exit_on_interrupt(resumable=bool(words) and words[0] in RESUMABLE):
        from hf_localattn.cli import main

        return main(words)
