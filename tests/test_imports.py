"""What an import brings along, told by processes of their own."""

import json
import os
import subprocess
import sys

import pytest

import hf_localattn
from tests.script_helpers import ROOT

SLOW = ("torch", "transformers", "datasets", "evaluate", "spacy", "sklearn", "matplotlib", "pandas", "huggingface_hub")


def loaded_by(program, *arguments):
    """Return those of `SLOW` that a program has imported at its end."""
    told = f"\nimport json, sys\nprint(json.dumps([name for name in {SLOW} if name in sys.modules]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program + told, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["init", "--help"], ["reproduce", "--help"]], ids=" ".join
)
def test_help_waits_for_no_library(words):
    program = "import sys; from hf_localattn_command import main; assert main(sys.argv[1:]) == 0"
    assert not loaded_by(program, *words)


def test_importing_the_package_registers_and_brings_only_what_models_need():
    program = """
import hf_localattn
from transformers import CONFIG_MAPPING, AutoModelForQuestionAnswering, AutoTokenizer
for family in hf_localattn.registry.FAMILIES.values():
    assert CONFIG_MAPPING[family.config.model_type] is family.config
assert hf_localattn.CoolConfig in AutoModelForQuestionAnswering._model_mapping
"""
    assert set(loaded_by(program)) <= {"torch", "transformers", "huggingface_hub", "sklearn", "pandas"}


def test_all_names_and_subpackages_are_attributes():
    assert {*hf_localattn.__all__} <= {*dir(hf_localattn)}
    assert all(getattr(hf_localattn, name) is not None for name in hf_localattn.__all__)
    assert hf_localattn.resources.tiny_backbone().is_dir()
    assert hf_localattn.inspection.attention_map
    with pytest.raises(AttributeError, match="module 'hf_localattn' has no attribute 'CoolModle'"):
        hf_localattn.CoolModle  # noqa: B018
