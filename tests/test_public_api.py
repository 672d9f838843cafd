"""The public names of the package stay what they are; `user_types.py` has the view of type checkers."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

import hf_localattn
from hf_localattn.families import FAMILIES
from hf_localattn.names import family_packages

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


def names_of_families():
    """Return the names of the classes of all families here: they follow from the families."""
    here = [family for name, family in FAMILIES.items() if family_packages()[name].startswith("hf_localattn.")]
    classes = [[family.config, family.tokenizer, *family.classes.values()] for family in here]
    return {documented.__name__ for of_family in classes for documented in of_family if documented is not None}


def public_names():
    """Return the names in `__all__` of each module that users import from, without those of families."""
    names = {module: {*importlib.import_module(module).__all__} - names_of_families() for module in MODULES}
    return {module: sorted(of_module) for module, of_module in names.items()}


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
    missing = names_of_families() ^ {name for name in hf_localattn.models.__all__ if name[0].isupper()}
    assert not missing, "Name exactly the classes of families in `__all__` of models/public.py."
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
