"""The public names of the package stay what they are; `user_types.py` has the view of type checkers."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

import hf_localattn
from hf_localattn.families import FAMILIES

SNAPSHOT = Path(__file__).with_name("public_names.json")
MODULES = (
    "hf_localattn",
    "hf_localattn.data",
    "hf_localattn.hub",
    "hf_localattn.inspection",
    "hf_localattn.models",
    "hf_localattn.negation",
    "hf_localattn.families",
    "hf_localattn.tasks",
)


def public_names():
    """Return the names in `__all__` of each module that users import from."""
    return {module: sorted(importlib.import_module(module).__all__) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_those_of_the_snapshot(module):
    known, found = json.loads(SNAPSHOT.read_text())[module], public_names()[module]
    assert found == known, (
        f"The public names of {module} have changed: {sorted(set(found) ^ set(known))}. If that is meant, run"
        " `python -m tests.test_public_api`, commit the file, and say it in CHANGELOG.md."
    )
    assert len(set(found)) == len(found)
    assert all(getattr(importlib.import_module(module), name) is not None for name in found)


def test_the_package_has_the_names_of_its_models():
    assert set(hf_localattn.models.__all__) < set(hf_localattn.__all__)
    namespace = {}
    exec("from hf_localattn import *", namespace)  # by a list that is made when it is asked for
    assert set(hf_localattn.__all__) <= set(namespace)
    assert {*hf_localattn.__all__} <= {*dir(hf_localattn)}
    with pytest.raises(AttributeError, match="module 'hf_localattn' has no attribute 'CoolModle'"):
        hf_localattn.CoolModle  # noqa: B018


@pytest.mark.parametrize("name", FAMILIES)
def test_completion_lists_the_fields_of_a_configuration(name):
    config_class = FAMILIES[name].config
    names = {"backbone_config", "id2label", *FAMILIES[name].fields}
    assert names <= set(inspect.signature(config_class).parameters)


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(public_names(), indent=1) + "\n")
