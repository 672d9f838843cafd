"""A family joins by the files that CONTRIBUTING.md names, and no others: one is added to a copy of the package."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.fresh_process import bare_python

ROOT = Path(__file__).parents[1]
TOY = ROOT / "tests" / "toy_family"
CONTRACT = (
    "tests/models/test_family_contract.py",
    "tests/hub/test_checkpoint.py",
    "tests/hub/test_model_card.py",
    "tests/models/test_suitcase.py",
    "tests/test_families.py",
    "tests/toy_family/commands.py",
)
LEFT_OUT = "compiles or exports or half_precision or code_than_the_page or cards_of_real_runs"
"""The last is of a real run, the others are slow."""


def test_a_new_family_is_held_to_the_contract(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("hf_localattn", "scripts", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("pyproject.toml", "run_glue.py"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("models", "families"):
        shutil.copytree(TOY / name, tmp_path / "hf_localattn" / name, dirs_exist_ok=True)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")  # says how much code a checkpoint has
    models = tmp_path / "hf_localattn" / "models" / "__init__.py"
    models.write_text(models.read_text() + "\nfrom .modeling_toy import *\n")
    chosen = f"(toy or suitcase or only_models_and_families) and not ({LEFT_OUT})"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [*bare_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *CONTRACT]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    passed = int(done.stdout.rsplit(" passed", 1)[0].split()[-1])
    assert passed > 50, done.stdout[-600:]
