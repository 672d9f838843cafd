"""What type checkers and completion see in a program of a user."""

import inspect
import re
from dataclasses import fields

import pytest

from hf_localattn.registry import FAMILIES
from tests.script_helpers import ROOT

PROGRAM = """
from hf_localattn import CoolForSequenceClassification, SlaBertTokenizer

reveal_type(CoolForSequenceClassification.from_pretrained("folder"))
reveal_type(CoolForSequenceClassification.from_backbone("tiny", num_labels=3))
reveal_type(SlaBertTokenizer.from_backbone(None))
"""


def test_loading_gives_the_class(tmp_path):
    run = pytest.importorskip("mypy.api").run
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    out, _, status = run([*settings, str(tmp_path / "program.py")])
    found = re.findall(r'Revealed type is "(?:\w+\.)*(\w+)"', out)
    assert found == ["CoolForSequenceClassification", "CoolForSequenceClassification", "SlaBertTokenizer"], out
    assert status == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_completion_lists_the_fields_of_a_configuration(name):
    config_class = FAMILIES[name].config
    own = {field.name for field in fields(config_class)} & set(config_class.__annotations__)
    assert own
    assert own | {"backbone_config", "id2label"} <= set(inspect.signature(config_class).parameters)
