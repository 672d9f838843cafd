"""Endings of a program: one line for user errors and Ctrl-C, tracebacks for bugs."""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

INTERRUPTED = 130
"""Exit code of programs that end by Ctrl-C, as in shells."""

ENDS_WITH_STDIN = "HF_LOCALATTN_ENDS_WITH_STDIN"
"""Variable of the environment: the command ends when its standard input ends."""

IGNORABLE = (
    "\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2065\\u3164\\ufe00-\\ufe0f\\uffa0\\ufff0-\\ufff8"
    "\\U000e0000-\\U000e0fff"
)
"""Characters that Unicode leaves invisible (Default_Ignorable_Code_Point) outside the category Cf, for a pattern."""

_ESCAPED = re.compile(f"[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069{IGNORABLE}]")
"""Control characters, those that change the direction of what follows, and invisible ones."""

_RESUME = "Interrupted; run the same command again to resume."


class CheckpointError(Exception):
    """A checkpoint sets what a stranger's checkpoint may not, or has a file that is not read.

    It is no `ValueError`, because `AutoTokenizer` takes one for a missing configuration and goes on.
    """


class DivergedError(ValueError):
    """Weights or logits of a model are not numbers."""


def join_names(names: Sequence[str], most: int = 10) -> str:
    """Join the first `most` names by commas and add the number of remaining names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def shorten(value: Any) -> str:
    """Return the `repr` of a value, cut to 60 characters."""
    try:
        text = printable(repr(value))
    except (RecursionError, ValueError):  # lists in lists, or an integer of thousands of digits
        text = f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(error: Exception) -> str:
    """Return an error of any library as a line without a last period, with its type unless it is a `ValueError`."""
    text = " ".join(str(error).split()).rstrip(".")
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def printable(text: str) -> str:
    """Return a text with escapes for the characters that a terminal obeys or hides, except for tabs and line ends."""
    return _ESCAPED.sub(lambda found: ascii(found[0])[1:-1], text)


@contextmanager
def exit_on_user_error(*kinds: type[Exception]) -> Iterator[None]:
    """Exit with `error: …` on stderr and exit code 2 if the block raises an error that the user can correct.

    Args:
        *kinds: Types of errors that the user can correct. Defaults to ValueError, OSError (files, network,
            the Hub), ImportError (a missing extra), CheckpointError and connection errors.
    """
    try:
        yield
    except Exception as error:
        is_of_user = isinstance(error, kinds or (ValueError, OSError, ImportError, CheckpointError))
        if not is_of_user and (kinds or not _is_offline(error)):
            raise
        print(printable(f"error: {' '.join(str(error).split())}"), file=sys.stderr)
        sys.exit(2)


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


def end_with_stdin() -> None:
    """End this process when its standard input ends, because the process that writes it has ended."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)  # `sys.exit` would end this thread only; files are written whole

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def loading(what: str, name: str) -> Iterator[None]:
    """Add a name and advice to errors of the block, which loads `what` ("model") from a folder or the Hub.

    Raises:
        OSError: A file cannot be found or downloaded.
        ValueError: A file has unexpected values.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, CheckpointError | ValueError | OSError) and _is_ours(error):
            raise
        text = " ".join(str(error).partition("\nException raised")[0].split()).rstrip(".")  # without torch's frames
        if isinstance(error, ImportError):
            raise ValueError(f"Cannot load the {what} {name!r}: {text}.") from error
        if not isinstance(error, OSError) and not _is_offline(error):  # libraries raise any type for a value
            kind = type(error).__name__
            raise ValueError(
                f"Cannot load the {what} {name!r}: {kind}: {text}. Save it again, or choose another one."
            ) from error
        from huggingface_hub import constants  # imported already by what has failed

        network = (
            "for the Hub, a network and no HF_HUB_OFFLINE"
            if constants.HF_HUB_OFFLINE
            else "without a network set HF_HUB_OFFLINE=1"
        )
        raise OSError(
            f"Cannot load the {what} {name!r}: {error} -- Check the path of a folder; {network}; for a private"
            " repository run `hf auth login`."
        ) from error


@contextmanager
def hub_upload_errors(what: str, then: str) -> Iterator[None]:
    """Name the action of the block, `what`, in errors of its requests to the Hub, and end them with `then`.

    Raises:
        OSError: The Hub cannot be reached or rejects the request.
    """
    try:
        yield
    except Exception as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) else error  # huggingface_hub wraps those of LFS
        if not isinstance(cause, OSError) and not _is_offline(cause):
            raise
        raise OSError(f"Cannot {what}: {str(cause).rstrip('.')}. {then}") from error


def _is_ours(error: Exception) -> bool:
    """Return True if a module of this package has raised an error."""
    *_, (frame, _line) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("hf_localattn")


def _is_offline(error: BaseException | None) -> bool:
    """Return True if huggingface_hub's HTTP client, of any version, could not reach the server."""
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


@contextmanager
def named_option(option: str) -> Iterator[None]:
    """Name an option in the errors of the block, which are then a `ValueError`."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{option}: {str(error).rstrip('.')}.") from None
