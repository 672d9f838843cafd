"""The mechanism of all fuzzing: a property holds for drawn examples, 25 in the suite and 10,000 with `-m slow`."""

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings

SUITE, LONG = 25, int(os.environ.get("FUZZ_EXAMPLES", "10000"))

settings.register_profile(
    "suite",
    # A failure is there for everybody, and again tomorrow. Constants of the imported modules are among the examples:
    # with `-k` instead of a file name, pytest imports all tests and finds the failures of a whole run.
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)

sizes = pytest.mark.parametrize(
    "examples",
    [
        pytest.param(SUITE, id="suite"),
        pytest.param(
            LONG,
            id="long",
            marks=[pytest.mark.slow(reason="10,000 examples take minutes"), pytest.mark.timeout(3600)],
        ),
    ],
)
"""The number of examples of a property, as the argument `examples` of its test."""

MOST_SECONDS = 10
"""CPU time that no example may take."""


def check(holds, strategy, examples):
    """Call `holds` with as many examples of a strategy."""
    settings(settings.get_profile("suite"), max_examples=examples)(given(strategy)(holds))()


def outcome(call, *places, also=()):
    """Return the result of a call; None if it refuses its input by an error that says where something is wrong.

    Args:
        call: takes nothing.
        *places: names of fields, rows, lines or files, one of which the text of an error has to have.
        also: further documented types of errors.
    """
    began, result, refusal = time.process_time(), None, None
    try:
        result = call()
    except (ValueError, OSError, *also) as error:
        refusal = error
    assert time.process_time() - began < MOST_SECONDS, "an example took too long"
    # A subclass of ValueError is the raw error of a decoder, which does not know its file.
    assert refusal is None or type(refusal) is ValueError or isinstance(refusal, (OSError, *also)), repr(refusal)
    assert refusal is None or any(place in str(refusal) for place in places), f"{refusal!r} names none of {places}"
    return result
