"""What the user can mend is one line; everything else keeps its traceback."""

import pytest

from hf_localattn.errors import exit_on_user_error, loading


class TransportError(Exception):
    """As the HTTP clients under huggingface_hub call it."""


class ConnectError(TransportError):
    pass


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no such\nfield"), "error: no such field"),
        (FileNotFoundError("nothing there"), "error: nothing there"),
        (ImportError("install it"), "error: install it"),
        (ConnectError("unknown host"), "error: unknown host"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_user_can_mend(error, line, capsys):
    with pytest.raises(SystemExit) as stopped, exit_on_user_error():
        raise error
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith(line)
    assert printed.count("\n") == 1


def test_a_bug_keeps_its_traceback():
    with pytest.raises(KeyError), exit_on_user_error():
        raise KeyError("bug")


def test_what_cannot_be_loaded_is_named():
    with (
        pytest.raises(OSError, match=r"Cannot load the backbone 'nobody/nothing'.*gone"),
        loading("backbone", "nobody/nothing"),
    ):
        raise OSError("gone")
