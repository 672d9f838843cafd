"""One-line messages for user errors, tracebacks for bugs."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Functions import huggingface_hub when they are called, because `hf-localattn --help` imports this module.

PATIENCE = 120.0
"""Default timeout of requests to the Hub, in seconds."""


def listed(problems: Sequence[str]) -> str:
    """Return a single problem unchanged; number and join several problems."""
    return problems[0] if len(problems) == 1 else " ".join(f"({i}) {one}" for i, one in enumerate(problems, 1))


def join_names(names: Sequence[str], most: int = 10) -> str:
    """Join the first `most` names by commas and add the number of remaining names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@contextmanager
def exit_on_user_error(*kinds: type[Exception]) -> Iterator[None]:
    """Exit with `error: …` on stderr and exit code 2 if the block raises an error that the user can correct.

    Args:
        *kinds: types of errors that the user can correct. Defaults to ValueError, OSError (files, network,
            the Hub), ImportError (a missing extra) and connection errors.
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
    """Return True if huggingface_hub's HTTP client, of any version, could not reach the server."""
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


UNREADABLE = (ImportError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors that transformers raises for missing libraries, or for unexpected values in files."""


@contextmanager
def loading(what: str, name: str, cache_dir: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Add the name and advice to errors of the block. The block loads an object from a folder or the Hub.

    Downloads are verified by their digests, and requests have a timeout.

    Args:
        what: kind of object, such as "model".
        name: Hub id or folder.
        cache_dir: cache folder of the downloads. Defaults to the user's.

    Raises:
        OSError: a file cannot be found or downloaded.
        ValueError: a file has unexpected values.
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
    """Convert errors of requests to the Hub, raised in the block, into one-line messages with advice.

    Args:
        what: the action that failed, such as "upload 'my-model' to 'somebody/model'".
        then: last sentence of the message.

    Raises:
        OSError: the Hub cannot be reached or rejects the request.
        ValueError: the Hub rejects the model card.
    """
    set_hub_timeout()
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError) and not isinstance(error, OSError):  # the Hub rejects the model card
            raise ValueError(" ".join(str(error).split())) from error
        if (reason := hub_reason(error)) is None:
            raise
        raise OSError(f"Cannot {what}: {reason.rstrip('.')}. {then}") from error


def hub_reason(error: BaseException) -> str | None:
    """Return the cause of a failed request to the Hub in one line; None for other errors."""
    causes = list(_causes(error))
    responses = [getattr(cause, "response", None) for cause in causes]
    status = next((response.status_code for response in responses if response is not None), None)
    if status is not None:
        advice = UPLOAD_ADVICE.get(status)
        if advice is None:
            advice = "an error on its side: try again later" if status >= 500 else " ".join(str(error).split())
        return f"the Hub answered {status}, {advice}"
    if any(map(_is_connection_error, causes)):
        return f"the connection to the Hub failed ({causes[-1] or type(causes[-1]).__name__})"
    return " ".join(str(error).split()) if any(isinstance(cause, OSError) for cause in causes) else None


def set_hub_timeout() -> None:
    """Set a timeout for all requests to the Hub. Without a timeout, some requests of its client wait forever."""
    from huggingface_hub import get_session

    session = get_session()
    session.timeout = None  # `_limit` sets it
    hooks = session.event_hooks
    if _limit not in hooks["request"]:
        session.event_hooks = {**hooks, "request": [*hooks["request"], _limit]}


_seconds: ContextVar[float | None] = ContextVar("_seconds", default=None)
"""Timeout of requests in this context. None means `PATIENCE`."""


def _limit(request: Any) -> None:
    """Set all timeouts that are not set in a request."""
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
    429: "too many requests: try again later",
    401: "no valid token: run `hf auth login`, or set HF_TOKEN",
    403: "no permission: the token needs write access to the repository, which must be yours or your organization's",
    404: "no such repository or branch, or no permission of the token to read it",
}
"""Advice for each status code of the Hub."""


def _advice(what: str, name: str, error: Exception) -> str:
    return (
        f"Cannot load the {what} {name!r}: {error} -- If it is a folder, check its path. Without a network give a"
        " local folder, or download it beforehand and set HF_HUB_OFFLINE=1. If it is private, run `hf auth login`."
    )
