"""The table of docs/backbones.md is complete, and still true where that is quick to measure."""

import re
import runpy
from pathlib import Path

import pytest

from hf_localattn.registry import FAMILIES

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "capabilities.py"), run_name="capabilities")
CHECKS, can = SCRIPT["CAPABILITIES"], SCRIPT["can"]
QUICK = ("SDPA", "checkpointing", "bf16")
(BLOCK,) = re.findall(
    f"{SCRIPT['BEGIN']}\n(.*?)\n{SCRIPT['END']}", (ROOT / "docs" / "backbones.md").read_text(), flags=re.DOTALL
)
HEADER, _, *ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in BLOCK.splitlines()]
TESTED = [(name, backbone) for name, family in FAMILIES.items() for backbone in family.config.tested_backbones]
MEASURED = {row[0]: dict(zip(HEADER[1:], row[1:], strict=True)) for row in ROWS}


def test_the_table_is_complete():
    assert HEADER[1:] == list(CHECKS)
    assert len(ROWS) == sum(len(family.config.tested_backbones) for family in FAMILIES.values())


def test_local_layers_cost_no_capability():
    assert {cell for cells in MEASURED.values() for cell in cells.values()} == {"yes", "no"}


@pytest.mark.parametrize(("family", "backbone"), TESTED)
def test_the_table_is_true(family, backbone):
    for name in QUICK:
        check(family, backbone, name)


def check(family, backbone, name):
    able = can(CHECKS[name], SCRIPT["subject"](family, backbone, name))
    assert MEASURED[f"`{family}` on {backbone}"][name] == ("yes" if able else "no")


@pytest.mark.slow(reason="compiles every backbone")
@pytest.mark.parametrize("name", sorted(CHECKS.keys() - set(QUICK)))
@pytest.mark.parametrize(("family", "backbone"), TESTED)
def test_the_rest_of_the_table_is_true(family, backbone, name):
    check(family, backbone, name)
