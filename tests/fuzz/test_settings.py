"""Settings in files and options: configurations of all families, search spaces, records, cards and `--args`."""

import json

import hypothesis.strategies as st
import torch
import yaml

from hf_localattn.assignments import parse_config_fields
from hf_localattn.hub import TrainingRecord, write_card
from hf_localattn.hub.model_card import BOUNDARY
from hf_localattn.models.configuration_local_attention import field_types, range_of
from hf_localattn.registry import FAMILIES
from hf_localattn.studies.search_space import combinations, params_of, read_space
from hf_localattn.studies.search_space import examples as some
from hf_localattn.training.arguments import ModelArguments
from reproduction.plan import parse_argument
from tests.fuzz.strategies import TEXTS, anything, changed, check, json_values, often, outcome, sizes
from tests.models.tiny import TINY_BACKBONES, TINY_FIELDS, tiny_config

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


ALIASES = "a: &a [1, 1, 1, 1]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in zip("abc", "bcd", strict=True)
)
WRONG = st.sampled_from(
    [
        *(
            "",
            "\0",
            "&a [*a]",
            "a: &a {b: *a}",
            "2024-13-45",
            "- " * 400,
            "a: " * 300,
            "{" * 3000,
            "!!bool x",
            ALIASES,
        ),
        *("? [1]\n: 2", "x: 2024-01-02", "x: !!binary aGk=", "x: !!set {a}", 'x: "\\ud800"', "1: 2", "[]", "null"),
    ]
).map(str.encode)
"""Files of YAML and JSON that hold something else."""

SPACE = {
    "learning_rate": {"low": 1e-5, "high": 1e-4, "log": True},
    "num_train_epochs": [1, 2],
    "lr_scheduler_type": ["linear", "cosine"],
    "warmup_steps": {"low": 0, "high": 100, "step": 50},
    "num_local_layers": {"low": 1, "high": 3},
    "conv_kernel_sizes": [[3, 4], [5]],
    "use_conv": True,
}
RECORD = {
    **{"task": "question-answering", "base_model": "a/b", "dataset": "squad", "dataset_config": None, "seed": 1},
    **{"files": {"train": "train.json"}, "rows": {"train": 3}, "hyperparameters": {"learning_rate": 1e-5}},
    "scores": [{"split": "validation", "metric": "f1", "value": 0.5}],
    "versions": {"torch": "2"},
}
CONFIG = {
    "model_type": "cool",
    "architectures": ["CoolForQuestionAnswering"],
    "backbone_config": {"model_type": "bert", **TINY_BACKBONES["bert"]},
    "id2label": {"0": "a", "1": "b"},
    **TINY_FIELDS["cool"],
}
CARD = f"""---
license: mit
tags: [x]
language: en
datasets: [a]
base_model: b
model-index:
- name: x
  results: []
---

# Own
{BOUNDARY}
mine
"""


@sizes
def test_search_spaces(examples, tmp_path):
    def holds(drawn):
        ending, content, family = drawn
        path = tmp_path / f"space{ending}"
        path.write_bytes(content)
        space = outcome(lambda: read_space(str(path), ModelArguments(family=family, backbone="tiny")), path.name)
        if space is not None:
            found = combinations(space)
            assert found is None or all(setting.keys() == space.keys() for setting in found)
            for setting in some(space):
                json.dumps(params_of(setting, space))

    files = {".json": changed(json.dumps(SPACE)), ".yaml": changed(yaml.safe_dump(SPACE))}
    families = st.sampled_from(["cool", "cool", "baseline", "sla-bert"])
    drawn = [st.tuples(st.just(end), often(*[file] * 12, WRONG), families) for end, file in files.items()]
    check(holds, st.one_of(*drawn), examples)


@sizes
def test_cards(examples, tmp_path):
    valid = {"config.json": CONFIG, "training_record.json": RECORD}

    def holds(drawn):
        name, content = drawn
        for one, own in valid.items():
            (tmp_path / one).write_text(json.dumps(own))
        (tmp_path / "README.md").unlink(missing_ok=True)
        (tmp_path / name).write_bytes(content)
        places = {"config.json": ("config.json", "`"), "training_record.json": ("training_record.json",)}
        path = outcome(lambda: write_card(tmp_path, overwrite=False), name, *places.get(name, ()))
        if path is not None:
            assert BOUNDARY in path.read_text(encoding="utf-8")
            TrainingRecord.load(tmp_path)

    files = {**{name: json.dumps(content) for name, content in valid.items()}, "README.md": CARD}
    drawn = [st.tuples(st.just(name), often(*[changed(file)] * 12, WRONG)) for name, file in files.items()]
    check(holds, st.one_of(*drawn), examples)


@sizes
def test_assignments(examples):
    def holds(word):
        assigned = outcome(lambda: parse_argument(word), "--args", repr(word))
        if assigned is not None:
            assert word.startswith(assigned[0] + "=")
            json.dumps(assigned[1])

    names = st.sampled_from(["learning_rate", "num_train_epochs", "seed", "train_file", "x"]) | st.text(max_size=4)
    values = st.sampled_from([*TEXTS, "[", "{a: 1", "!!bool x", "2024-13-45", "&a [*a]", "0x_"]) | st.text(max_size=6)
    check(holds, st.tuples(names, st.sampled_from(["=", "=", ""]), values).map("".join), examples)
