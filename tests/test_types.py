"""Completion in a program of a user; `user_types.py` has the view of type checkers."""

import inspect
from dataclasses import fields

import pytest

from hf_localattn.registry import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_completion_lists_the_fields_of_a_configuration(name):
    config_class = FAMILIES[name].config
    own = {field.name for field in fields(config_class)} & set(config_class.__annotations__)
    assert own
    assert own | {"backbone_config", "id2label"} <= set(inspect.signature(config_class).parameters)
