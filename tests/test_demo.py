"""The demo's machinery, with two steps instead of hundreds; what it learns in them is nothing."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo.py"


def run_demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(DEMO), *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_trains_saves_reloads_and_asks(tmp_path):
    earlier = tmp_path / "demo_output"
    earlier.mkdir()
    (earlier / "demo.json").write_text("{}")
    (earlier / "left_over").touch()

    result = run_demo(tmp_path, "--steps", "2", "--seed", "3")

    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines if "parameters" in line] == [
        "CoolForQuestionAnswering,",
        "BertForQuestionAnswering,",
    ]
    assert any(line.startswith("COOL  ") for line in lines)
    assert "matter of budget" in result.stdout
    assert lines[-1].startswith("  Who is the "), "the fresh process has answered"
    results = json.loads((earlier / "demo.json").read_text())
    assert results["seed"] == 3
    assert 0 <= results["cool"]["exact_match"] <= results["cool"]["f1"] <= 100
    assert (earlier / "modeling_cool.py").is_file()
    assert not (earlier / "left_over").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".demo")] == []


def test_refuses_a_folder_that_is_not_its_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "thesis.txt").touch()
    monkeypatch.setattr(sys, "argv", [str(DEMO), "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(DEMO), run_name="__main__")
    assert stopped.value.code == 2
    assert "is in the way and not from an earlier demo" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()
