"""The notebooks run from top to bottom, and their saved outputs are those of a whole run."""

import json
import sys
import types
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_saved_and_without_errors(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert {"stream", "execute_result"} <= kinds
    assert "error" not in kinds
    assert path.stat().st_size < 200_000


@pytest.mark.timeout(1800)
@pytest.mark.slow(reason="trains tiny models for a minute")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_run(path, tmp_path, monkeypatch, capsys):
    """Run with what IPython would show left out: the tests do not need IPython."""
    shown = []
    display = types.SimpleNamespace(Image=shown.append, HTML=shown.append)
    own = types.SimpleNamespace(display=display, version_info=(9, 0))  # matplotlib asks for the version
    monkeypatch.setitem(sys.modules, "IPython", own)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for cell in code_cells(path):
        program = "".join(cell["source"])
        exec(compile(program, path.name, "exec"), namespace)
        printed = capsys.readouterr().out
        if "pipeline(" in program:  # what the trained models answer
            assert printed == "".join(cell["outputs"][0]["text"])
    assert len(shown) == 1
    assert shown[0]
