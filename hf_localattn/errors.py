"""How errors reach the user: one line for what the user can mend, a traceback for everything else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import get_session

PATIENCE = 120.0
"""Seconds that the Hub may be silent during an upload."""


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


def _is_connection_error(error: BaseException) -> bool:
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


@contextmanager
def sharing(folder: str, repo_id: str) -> Iterator[None]:
    """Says why an upload to the Hub has failed, and how it is completed, around the calls that make it.

    The client would wait without end for a Hub that accepts a connection and then says nothing; here it does not.
    """
    session = get_session()
    patience, session.timeout = session.timeout, PATIENCE
    try:
        yield
    except Exception as error:
        causes = list(_causes(error))
        if not any(isinstance(cause, OSError) or _is_connection_error(cause) for cause in causes):
            raise
        responses = [getattr(cause, "response", None) for cause in causes]
        status = next((response.status_code for response in responses if response is not None), None)
        if status is not None:
            reason = f"the Hub answered {status}, {UPLOAD_ADVICE.get(status, 'which it should not: try again later')}"
        elif any(map(_is_connection_error, causes)):
            reason = f"no connection to the Hub, or none that lasted ({causes[-1] or type(causes[-1]).__name__})"
        else:
            reason = str(error)
        raise OSError(
            f"Cannot upload {folder!r} to {repo_id!r}: {reason}. The folder is complete as it is; once the cause is"
            f" gone, `hf-localattn push {folder} {repo_id}` uploads what is missing."
        ) from error
    finally:
        session.timeout = patience


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


UPLOAD_ADVICE = {
    401: "as there is no valid token: run `hf auth login`, or set HF_TOKEN",
    403: "as the token may not write there: it needs the right to, and the repository's owner has to be you or yours",
    404: "as there is no such repository or branch, or none that the token may see",
}
"""What an answer of the Hub means, and asks for."""


def _advice(what: str, name: str, error: OSError) -> str:
    return (
        f"Cannot load the {what} {name!r}: {error} -- If it should be a folder, check the path; without a network give"
        f" a local folder, or fill the cache first and set HF_HUB_OFFLINE=1; if it is private, run `hf auth login`."
    )
