"""docs/results.md is what its files say, and these come from the command."""

import json
import re
from pathlib import Path

import pytest

from hf_localattn.reproduction.tables import load_table
from scripts.results import DOCS, render

FILES = sorted((DOCS / "results").glob("*.json"))


def test_the_page_is_written_from_the_files():
    """If it fails: `python scripts/results.py`."""
    assert (DOCS / "results.md").read_text(encoding="utf-8") == render()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_results_is_whole(path):
    text = path.read_text(encoding="utf-8")
    found = json.loads(text)
    table = load_table(path.stem)
    assert found["table"] == table.name
    assert found["runs"]
    for run in found["runs"]:
        assert run["row"] in table.rows
        assert run["task"] in table.tasks
        assert {"command", "seed", "data", "versions", "device", "metrics"} <= run.keys()
    assert not re.search(r"/(home|root|tmp|Users|work)/", text), "a path of a machine"


def test_remarks_belong_to_results():
    assert {path.stem for path in (DOCS / "results").glob("*.md")} <= {path.stem for path in FILES}


def test_a_page_without_results_has_its_head(tmp_path):
    assert render(Path(tmp_path)).startswith("# Results\n")
