"""Entry point of the `hf-localattn` command.

This module is outside the package, because `import hf_localattn` imports torch and transformers to register the
families. That would slow down `hf-localattn --help`. If this module is imported first, the package does not register
the families on import. Each command imports the modules that it needs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

RESUMABLE = ("init", "push", "train")
"""Commands that complete their work when they are repeated."""

INTERRUPTED = 130
"""Exit code of programs that end by Ctrl-C, as in shells."""

ENDS_WITH_STDIN = "HF_LOCALATTN_ENDS_WITH_STDIN"
"""Variable of the environment: the command ends when its standard input ends."""

_RESUME = "Interrupted; run the same command again to resume."


@contextmanager
def exit_on_interrupt(*, resumable: bool) -> Iterator[None]:
    """Exit with one line on stderr and exit code 130 if the block is interrupted by Ctrl-C.

    Args:
        resumable: If True, the line says that the same command resumes the work.
    """
    try:
        yield
    except KeyboardInterrupt:
        print(_RESUME if resumable else "Interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)


@contextmanager
def end_on_interrupt() -> Iterator[None]:
    """End the process at once if the block, which imports libraries, is interrupted by Ctrl-C.

    An exception could be swallowed: numpy is then imported in part, and fails later.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as in the background of a shell
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*signaled: object) -> None:
    print(_RESUME, file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _end_with_stdin() -> None:
    """End this process when its standard input ends, because the process that writes it has ended."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)  # `sys.exit` would end this thread only; files are written whole

    threading.Thread(target=watch, daemon=True).start()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    if os.environ.pop(ENDS_WITH_STDIN, None):
        _end_with_stdin()
    words = sys.argv[1:] if argv is None else argv
    with exit_on_interrupt(resumable=bool(words) and words[0] in RESUMABLE):
        from hf_localattn.cli import main

        return main(words)
