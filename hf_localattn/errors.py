"""One-line messages for user errors, tracebacks for bugs."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Functions import the Hub's client where they need it: `hf-localattn --help` comes here too.

PATIENCE = 120.0
"""Seconds that the Hub may be silent during an upload."""


def listed(problems: Sequence[str]) -> str:
    """Return one problem as it is, several with their numbers."""
    return problems[0] if len(problems) == 1 else " ".join(f"({i}) {one}" for i, one in enumerate(problems, 1))


def join_names(names: Sequence[str], most: int = 10) -> str:
    """Join at most `most` names by commas, and count the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@contextmanager
def exit_on_user_error(*kinds: type[Exception]) -> Iterator[None]:
    """Ends the program with `error: …` on stderr and exit code 2 if something fails for a reason the user can mend.

    Args:
        *kinds: of such errors; by default ValueError, OSError (files, network, the Hub), ImportError (a missing
            extra), and no connection.
    """
    try:
        yield
    except Exception as error:
        is_other = not isinstance(error, kinds or (ValueError, OSError, ImportError))
        if is_other and (kinds or not _is_connection_error(error)):
            raise
        text = " ".join(str(error).split())
        if _is_connection_error(error):
            text = f"no connection to the Hub ({text}); check the network, or work without --push_to_hub and Hub names"
        print(f"error: {text}", file=sys.stderr)
        sys.exit(2)


def _is_connection_error(error: BaseException) -> bool:
    """Return True if the HTTP client under huggingface_hub, which has changed before, could not reach the server."""
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


UNREADABLE = (ImportError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors that transformers raises for unexpected values in files, or a missing library."""


@contextmanager
def loading(what: str, name: str, cache_dir: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Says which name could not be loaded, and what can be done, around a call that may go to the Hub.

    What it downloads is compared with what the Hub announced, and a Hub that is silent is not waited for without end.

    Args:
        what: such as "model".
        name: Hub id or folder.
        cache_dir: where the call keeps its downloads, by default the user's.
    """
    from huggingface_hub import constants

    from hf_localattn.downloads import verified_downloads

    set_hub_timeout()
    patience = _seconds.set(constants.HF_HUB_DOWNLOAD_TIMEOUT)
    try:
        with verified_downloads(name, cache_dir):
            yield
    except OSError as error:
        raise OSError(_advice(what, name, error)) from error
    except UNREADABLE as error:
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise ValueError(f"Cannot load the {what} {name!r}: {kind}{error}") from error
    except Exception as error:
        if not _is_connection_error(error):
            raise
        raise OSError(_advice(what, name, error)) from error
    finally:
        _seconds.reset(patience)


@contextmanager
def hub_upload_errors(what: str, then: str) -> Iterator[None]:
    """Says why the Hub has not done what it was asked to, and what can be done then, around the calls that ask it.

    Args:
        what: begins the message, such as "upload 'my-model' to 'somebody/model'".
        then: ends it.
    """
    set_hub_timeout()
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError) and not isinstance(error, OSError):  # the Hub has read the card
            raise ValueError(" ".join(str(error).split())) from error
        if (reason := hub_reason(error)) is None:
            raise
        raise OSError(f"Cannot {what}: {reason}. {then}") from error


def hub_reason(error: BaseException) -> str | None:
    """Return in a line why the Hub has not done something; None if the error is of another kind."""
    causes = list(_causes(error))
    responses = [getattr(cause, "response", None) for cause in causes]
    status = next((response.status_code for response in responses if response is not None), None)
    if status is not None:
        advice = UPLOAD_ADVICE.get(status)
        if advice is None:
            advice = "which it should not: try again later" if status >= 500 else " ".join(str(error).split())
        return f"the Hub answered {status}, {advice}"
    if any(map(_is_connection_error, causes)):
        return f"no connection to the Hub, or none that lasted ({causes[-1] or type(causes[-1]).__name__})"
    return " ".join(str(error).split()) if any(isinstance(cause, OSError) for cause in causes) else None


def set_hub_timeout() -> None:
    """Has requests to the Hub end when it is silent for `PATIENCE`; some of its client's would wait without end."""
    from huggingface_hub import get_session

    session = get_session()
    session.timeout = None  # `_limit` sets it
    hooks = session.event_hooks
    if _limit not in hooks["request"]:
        session.event_hooks = {**hooks, "request": [*hooks["request"], _limit]}


_seconds: ContextVar[float | None] = ContextVar("_seconds", default=None)
"""The patience of a thread, if it is not `PATIENCE`."""


def _limit(request: Any) -> None:
    """Set those of a request's limits that are not set."""
    given = request.extensions.get("timeout", {})
    seconds = _seconds.get() or PATIENCE
    request.extensions["timeout"] = {
        kind: seconds if given.get(kind) is None else given[kind] for kind in ("connect", "read", "write", "pool")
    }


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


UPLOAD_ADVICE = {
    429: "as it was asked too often: try again later",
    401: "as there is no valid token: run `hf auth login`, or set HF_TOKEN",
    403: "as the token may not write there: it needs the right to, and the repository's owner has to be you or yours",
    404: "as there is no such repository or branch, or none that the token may see",
}
"""Advice for each status code of the Hub."""


def _advice(what: str, name: str, error: Exception) -> str:
    return (
        f"Cannot load the {what} {name!r}: {error} -- If it should be a folder, check the path; without a network give"
        f" a local folder, or fill the cache first and set HF_HUB_OFFLINE=1; if it is private, run `hf auth login`."
    )
