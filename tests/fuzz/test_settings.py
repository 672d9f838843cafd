"""Settings in files and options: configurations of all families, search spaces, records, cards and assignments."""

import json

import hypothesis.strategies as st
import pytest
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
SMALL = st.integers(0, 8) | st.booleans() | st.none() | st.floats(0, 1) | st.lists(st.integers(0, 6), max_size=4)
WORDS = sorted(
    {word for own in OWN.values() for kind in own.values() for word in getattr(kind, "__args__", ())}, key=str
)
of_family = st.sampled_from([(name, field) for name, own in OWN.items() for field in own])


@sizes
def test_one_field_with_any_value(examples):
    def holds(given):
        (name, field), value = given
        config = outcome(lambda: tiny_config(name, **{field: value}), *(f"`{one}" for one in OWN[name]))
        if config is not None and field != "hf_localattn_version":
            assert range_of(OWN[name][field]).holds(value)

    check(holds, st.tuples(of_family, SMALL | anything), examples)


@sizes
def test_some_fields_from_files(examples):
    def holds(given):
        name, fields = given
        content = json.loads(json.dumps({**tiny_config(name).to_dict(), **TINY_FIELDS[name], **fields}))
        named = [f"`{one}" for one in (*OWN[name], "backbone_config")]
        config = outcome(lambda: FAMILIES[name].config.from_dict(content), *named)
        if config is None:
            return
        assert all(range_of(OWN[name][field]).holds(content[field]) for field in fields)
        text = config.to_json_string(use_diff=False)
        assert type(config).from_dict(json.loads(text)).to_json_string(use_diff=False) == text
        if max(value for value in vars(config).values() if type(value) is int) <= 600:  # many layers take time
            with torch.device("meta"):
                outcome(lambda: FAMILIES[name].heads["token-classification"](config), "`", "backbone", "attention")

    values = SMALL | st.sampled_from([word for word in WORDS if isinstance(word, str)]) | json_values
    fields = {name: st.dictionaries(st.sampled_from(sorted(OWN[name])), values, max_size=3) for name in OWN}
    check(holds, st.sampled_from(sorted(OWN)).flatmap(lambda name: st.tuples(st.just(name), fields[name])), examples)


YAML = ["2", "[3, 4]", "1e-1", "2024-13-45", "0b_", "[" * 3000, "&a [*a]", "{a: 1}", "!!python/object:os.system x"]


@sizes
@pytest.mark.parametrize("of", ["--local_config", "--args"])
def test_assignments(of, examples):
    def holds(given):
        family, words = given
        if of == "--args":
            assigned = outcome(lambda: parse_argument(words[0]), of, repr(words[0]))
            if assigned is not None:
                assert words[0].startswith(assigned[0] + "=")
                json.dumps(assigned[1])
            return
        reasons = ("field=value", "no field", "`", *map(repr, words))
        fields = outcome(lambda: parse_config_fields(family, words), *reasons)
        assert fields is None or len(fields) <= len(words)

    names = st.sampled_from(["learning_rate", "train_file", *sorted({*OWN["cool"], *OWN["sla-bert"]})]) | st.text(
        max_size=5
    )
    values = st.sampled_from([*TEXTS, *YAML]) | st.text("0123456789.:-_eExb[]{}!&*<>=, \t'\"#~", max_size=12)
    one = st.tuples(names, st.sampled_from(["=", "=", "", " = "]), values).map("".join)
    check(holds, st.tuples(st.sampled_from(sorted(OWN)), st.lists(one, min_size=1, max_size=3)), examples)


ALIASES = "a: &a [1, 1, 1, 1]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in zip("abc", "bcd", strict=True)
)
OTHERS = ["", "\0", "a: &a {b: *a}", "- " * 400, "a: " * 300, "{" * 3000, "!!bool x", "? [1]\n: 2", "x: 2024-01-02"]
OTHERS += [ALIASES, "x: !!binary aGk=", "x: !!set {a}", 'x: "\\ud800"', "1: 2", "[]", "null", *YAML]
WRONG = st.sampled_from(OTHERS).map(str.encode)
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
    **{"model_type": "cool", "architectures": ["CoolForQuestionAnswering"], "id2label": {"0": "a", "1": "b"}},
    **{"backbone_config": {"model_type": "bert", **TINY_BACKBONES["bert"]}, **TINY_FIELDS["cool"]},
}
METADATA = (
    "license: mit\ntags: [x]\nlanguage: en\ndatasets: [a]\nbase_model: b\nmodel-index:\n- name: x\n  results: []\n"
)
CARD = f"---\n{METADATA}---\n\n# Own\n{BOUNDARY}\nmine\n"


def files(valid):
    """Draw the name of one of some files, and its content, nearly right or something else."""
    return st.one_of([st.tuples(st.just(name), often(*[changed(file)] * 12, WRONG)) for name, file in valid.items()])


@sizes
def test_search_spaces(examples, tmp_path):
    def holds(drawn):
        (name, content), family = drawn
        path = tmp_path / name
        path.write_bytes(content)
        space = outcome(lambda: read_space(str(path), ModelArguments(family=family, backbone="tiny")), path.name)
        if space is not None:
            found = combinations(space)
            assert found is None or all(setting.keys() == space.keys() for setting in found)
            for setting in some(space):
                json.dumps(params_of(setting, space))

    spaces = files({"space.json": json.dumps(SPACE), "space.yaml": yaml.safe_dump(SPACE)})
    check(holds, st.tuples(spaces, st.sampled_from(["cool", "cool", "baseline", "sla-bert"])), examples)


@sizes
def test_cards(examples, tmp_path):
    valid = {"config.json": json.dumps(CONFIG), "training_record.json": json.dumps(RECORD), "README.md": CARD}

    def holds(drawn):
        name, content = drawn
        for one, own in valid.items():
            (tmp_path / one).write_text(own)
        (tmp_path / "README.md").unlink()
        (tmp_path / name).write_bytes(content)
        path = outcome(lambda: write_card(tmp_path, overwrite=False), name, *(["`"] if name == "config.json" else []))
        if path is not None:
            assert BOUNDARY in path.read_text(encoding="utf-8")
            TrainingRecord.load(tmp_path)

    check(holds, files(valid), examples)
