"""Every family is one folder of `families`, and nothing else in the package knows what is special about one."""

import ast
import inspect
import json
import re
from pathlib import Path

import pytest

import hf_localattn
from hf_localattn.families import AUTO_CLASSES, FAMILIES, family_of, get_family, task_of_class
from hf_localattn.installed.backbones import family_fields
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.fields import declarations, field_types
from hf_localattn.names import default_fields, family_notes
from tests.models.tiny import choices

PACKAGE = Path(hf_localattn.__file__).parent
KNOWING = ("models", "kernels", "installed", "families")
"""Folders that may know families."""

TEXTS = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for suffix in ("py", "md", "html")
    for path in sorted(PACKAGE.rglob(f"*.{suffix}"))
    if path.relative_to(PACKAGE).parts[0] not in KNOWING
}

EXCEPTIONS = {
    # Fields in help texts and messages, to show how any field is set.
    "parsing.py": {"num_local_layers"},
    "cli/checkpoint_commands.py": {"use_conv"},
    "settings/model.py": {"num_local_layers", "use_conv"},
}


def names_of(family):
    """Return the attributes of a family's configuration, and the inputs of its models, that others do not have."""
    attributes = {name for name in vars(family.config) if not name.startswith("_")}
    attributes |= family.fields.keys()
    inputs = {name for model in (family.model, *family.heads.values()) for name in model.token_inputs}
    return (attributes - set(dir(LocalAttentionConfig))) | inputs


def test_only_models_and_families_know_fields_and_inputs_of_a_family():
    every = [names_of(family) for family in FAMILIES.values()]
    # Single words, such as "mode", mean other things too.
    special = {name for name in set.union(*every) - set.intersection(*every) if "_" in name}
    assert {"query_mask", "word_index", "dep_heads", "tam_max_length", "outlook_kernel_size"} <= special
    assert len(TEXTS) > 60
    words = {path: set(re.findall(r"\w+", text)) for path, text in TEXTS.items()}
    assert {path: found & special for path, found in words.items() if found & special} == EXCEPTIONS


def test_only_models_and_families_ask_for_a_family_by_name():
    asked = []
    for path, text in TEXTS.items():
        asked += [(path, found) for found in re.findall(r"model_type\W* (?:==|!=|in \() .*", text)]
        nodes = ast.walk(ast.parse(text)) if path.endswith(".py") else ()
        constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
        asked += [(path, value) for value in constants if isinstance(value, str) and value in FAMILIES]
    assert not asked


@pytest.mark.parametrize("name", FAMILIES)
def test_an_entry_is_complete(name):
    family = FAMILIES[name]
    assert family.name == name
    assert set(family.heads) <= set(AUTO_CLASSES)
    assert all(task_of_class(head.__name__) == task for task, head in family.heads.items())
    assert task_of_class(family.model.__name__) is None
    assert set(family_notes(name)) - {"parser_unless", "placeholder"} == {
        *("title", "summary", "paper", "url", "bibtex", "inputs", "limits")
    }
    defaults = {field: getattr(family.config, field) for field in family_fields(family.config)}
    assert default_fields(name) == json.loads(json.dumps(defaults))
    config = family.config(**family.facts.tiny_fields)
    assert family_of(config) is family
    assert family.ablations
    for view in (family.local_map, family.gates, family.token_weights):
        assert view is None or view.is_available(config)
    inputs = {name for model in (family.model, *family.heads.values()) for name in model.token_inputs}
    assert {value for value in (family.query, family.parse) if value} <= inputs


@pytest.mark.parametrize("name", FAMILIES)
def test_each_layer_is_an_ablation_and_has_a_summary(name):
    """A value that is forgotten would be tested by nobody, and its card would describe another layer."""
    family = FAMILIES[name]
    summary = family_notes(name)["summary"]
    if isinstance(summary, str):  # the family has one kind of layers
        return
    ((field, texts),) = summary.items()
    compared = {getattr(family.config, field), *family.fields[field].ablations}
    values = [value for value in choices(family.config, field) if isinstance(value, str)] or sorted(compared)
    assert not set(values) - compared, f"Name these values as `ablations` of `{field}`."
    assert not set(values) - texts.keys() or "other" in texts, f"Write their `summary` of `{field}` into card.yaml."
    assert not texts.keys() - {*values, "other"}, f"card.yaml has a `summary` of values that `{field}` does not have."


@pytest.mark.parametrize("declaring", [LocalAttentionConfig, *(family.config for family in FAMILIES.values())])
def test_every_field_is_declared(declaring):
    undeclared = field_types(declaring).keys() - declarations(declaring).keys()
    assert not undeclared, "Declare them as `Annotated[TYPE, Field(MEANING)]`."
    attributes = {name for declared in declarations(declaring).values() for name in declared.when}
    assert not [name for name in attributes if not hasattr(declaring, name)]
    assert all(f"    {name} (" in declaring.__doc__ for name in inspect.get_annotations(declaring.__mro__[1]))


def test_a_family_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="There is no family 'cols'"):
        get_family("cols")
