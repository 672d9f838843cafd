"""Running the training scripts from tests."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load_main(name):
    """The function `main` of a script at the root."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def assert_one_line_error(call, message, folder, capsys):
    """The call ends before it writes anything to a folder; the last line on stderr says what to mend. Return all."""
    with pytest.raises(SystemExit) as ended:
        call()
    assert ended.value.code == 2
    lines = capsys.readouterr().err.rstrip("\n").splitlines()
    assert lines[-1].startswith("error: ")
    assert re.search(message, lines[-1]), lines[-1]
    assert not folder.exists() or not any(folder.iterdir())
    return lines
