"""How errors reach the user: one line for what the user can mend, a traceback for everything else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Ends the program with `error: …` on stderr and exit code 2 if preparing fails for a reason the user can mend.

    That is ValueError, OSError (files, network, the Hub), ImportError (a missing extra), and no connection.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (ValueError, OSError, ImportError)) and not _is_connection_error(error):
            raise
        text = " ".join(str(error).split())
        if _is_connection_error(error):
            text = f"no connection to the Hub ({text}); check the network, or work without --push_to_hub and Hub names"
        print(f"error: {text}", file=sys.stderr)
        sys.exit(2)


def _is_connection_error(error: Exception) -> bool:
    """Whether the HTTP client under huggingface_hub, which has changed before, could not talk to the server."""
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


@contextmanager
def loading(what: str, name: str) -> Iterator[None]:
    """Says which name could not be loaded, and what can be done, around a call that may go to the Hub."""
    try:
        yield
    except OSError as error:
        raise OSError(_advice(what, name, error)) from error
    except (ImportError, KeyError) as error:
        raise ValueError(f"Cannot load the {what} {name!r}: {error}") from error


def _advice(what: str, name: str, error: OSError) -> str:
    return (
        f"Cannot load the {what} {name!r}: {error} -- If it should be a folder, check the path; without a network give"
        f" a local folder, or fill the cache first and set HF_HUB_OFFLINE=1; if it is private, run `hf auth login`."
    )
