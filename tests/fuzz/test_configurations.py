"""Configurations of all families from drawn fields and files: as asked for, or refused with the field's name."""

import json

import hypothesis.strategies as st
import torch

from hf_localattn.assignments import parse_config_fields
from hf_localattn.models.configuration_local_attention import field_types, range_of
from hf_localattn.registry import FAMILIES
from tests.fuzz.properties import check, outcome, sizes
from tests.fuzz.values import TEXTS, anything, json_values
from tests.models.tiny import TINY_FIELDS, tiny_config

OWN = {name: {**field_types(family.config)} for name, family in FAMILIES.items()}
KINDS = [(name, field) for name, fields in OWN.items() for field in fields if field != "hf_localattn_version"]
SMALL = st.integers(0, 8) | st.booleans() | st.none() | st.floats(0, 1) | st.lists(st.integers(0, 6), max_size=4)


def is_taken(name, field, value):
    """Return True if a value fits the annotation of a field."""
    return range_of(OWN[name][field]).holds(value)


def words(name):
    """A strategy of the choices of a family's fields."""
    every = [one for kind in OWN[name].values() for one in getattr(kind, "__args__", ())]
    return st.sampled_from([one for one in every if isinstance(one, str)] or [""])


def check_saved(name, config):
    """An accepted configuration is saved and read again, and there is a model for it, or a reason why not."""
    text = config.to_json_string(use_diff=False)
    assert type(config).from_dict(json.loads(text)).to_json_string(use_diff=False) == text
    if max(value for value in vars(config).values() if type(value) is int) > 600:
        return  # whoever asks for many layers waits for them
    with torch.device("meta"):
        outcome(lambda: FAMILIES[name].heads["token-classification"](config), "`", "backbone", "attention")


@sizes
def test_one_field_with_any_value(examples):
    def holds(given):
        (name, field), value = given
        config = outcome(lambda: tiny_config(name, **{field: value}), *(f"`{one}" for one in OWN[name]))
        if config is not None:
            assert is_taken(name, field, value)

    check(holds, st.tuples(st.sampled_from(KINDS), SMALL | anything), examples)


@sizes
def test_some_fields_from_files(examples):
    def holds(given):
        name, fields = given
        content = json.loads(json.dumps({**tiny_config(name).to_dict(), **TINY_FIELDS[name], **fields}))
        named = [f"`{one}" for one in (*OWN[name], "backbone_config")]
        config = outcome(lambda: FAMILIES[name].config.from_dict(content), *named)
        if config is not None:
            assert all(is_taken(name, field, content[field]) for field in fields)
            check_saved(name, config)

    def of_family(name):
        fields = st.dictionaries(st.sampled_from(sorted(OWN[name])), SMALL | words(name) | json_values, max_size=3)
        return st.tuples(st.just(name), fields)

    check(holds, st.sampled_from(sorted(FAMILIES)).flatmap(of_family), examples)


@sizes
def test_assignments_of_the_command_line(examples):
    def holds(given):
        name, assignments = given
        reasons = ("field=value", "no field", "`", *map(repr, assignments))
        fields = outcome(lambda: parse_config_fields(name, assignments), *reasons)
        if fields is not None:
            assert len(fields) <= len(assignments)

    yaml = ["2", "[3, 4]", "1e-1", "2024-13-45", "0b_", "[" * 3000, "&a [*a]", "{a: 1}", "!!python/object:os.system x"]
    values = st.sampled_from([*TEXTS, *yaml]) | st.text("0123456789.:-_eExb[]{}!&*<>=, \t'\"#~", max_size=12)

    def of_family(name):
        names = st.sampled_from(sorted(OWN[name])) | st.text(max_size=5)
        one = st.tuples(names, st.sampled_from(["=", "=", "", " = "]), values).map("".join)
        return st.tuples(st.just(name), st.lists(one, min_size=1, max_size=3))

    check(holds, st.sampled_from(sorted(FAMILIES)).flatmap(of_family), examples)
