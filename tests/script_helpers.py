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


def assert_one_line_error(main, arguments, message, output_dir, capsys):
    """The script ends before it writes anything, its last line saying what to mend."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    last = capsys.readouterr().err.rstrip("\n").rsplit("\n", 1)[-1]
    assert last.startswith("error: ")
    assert re.search(message, last), last
    assert not output_dir.exists()


def assert_only_one_line(call, message, folder, capsys):
    """The call ends with a single line on stderr, and leaves nothing in the folder."""
    with pytest.raises(SystemExit) as stopped:
        call()
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert message in error
    assert "\n" not in error
    assert not list(folder.iterdir())
