"""The pages of results are what their files say, and these come from the command."""

import json
import re
import shlex
from pathlib import Path

import pytest

from reproduction.__main__ import parser
from reproduction.tables import load_table
from scripts.results import DOCS, PAGES, render

FILES = [file for _, folder in PAGES.values() for file in sorted((DOCS / folder).glob("*.json"))]


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_are_written_from_the_files(page):
    """To correct a failure, run `python -m scripts.results`."""
    assert (DOCS / page).read_text(encoding="utf-8") == render(page)


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
        assert run["folds"] == table.tasks[run["task"]].folds  # `hf-localattn compare` reads it
    assert not re.search(r"/(home|root|tmp|Users|work)/", text), "a path of a machine"


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_of_this_version(page):
    commands = re.findall(r"^python -m reproduction (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert all(parser().parse_args(shlex.split(command)).table for command in commands)
    assert commands


def test_remarks_belong_to_results():
    remarks = {path.stem for _, folder in PAGES.values() for path in (DOCS / folder).glob("*.md")}
    assert remarks <= {path.stem for path in FILES}


def test_a_page_without_results_has_its_head(tmp_path):
    assert render("results.md", Path(tmp_path)).startswith("# Results\n")
