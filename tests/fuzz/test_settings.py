"""Settings in files and options: configurations of all families, and assignments of the command line."""

import json

import hypothesis.strategies as st
import pytest
import torch

from hf_localattn.assignments import parse_config_fields
from hf_localattn.models.configuration_local_attention import field_types, range_of
from hf_localattn.registry import FAMILIES
from reproduction.plan import parse_argument
from tests.fuzz.strategies import TEXTS, anything, check, outcome, sizes
from tests.models.tiny import TINY_FIELDS, tiny_config

OWN = {name: {**field_types(family.config)} for name, family in FAMILIES.items()}
SMALL = st.integers(0, 8) | st.booleans() | st.none() | st.floats(0, 1) | st.lists(st.integers(0, 6), max_size=4)
WORDS = sorted(
    {word for own in OWN.values() for kind in own.values() for word in getattr(kind, "__args__", ())}, key=str
)


@sizes
def test_some_fields(examples):
    def holds(given):
        name, fields = given
        content = {**tiny_config(name).to_dict(), **TINY_FIELDS[name], **fields}
        named = [f"`{one}" for one in (*OWN[name], "backbone_config")]
        config = outcome(lambda: FAMILIES[name].config.from_dict(content), *named)
        if config is None:
            return
        assert all(range_of(OWN[name][field]).holds(content[field]) for field in fields)
        text = config.to_json_string(use_diff=False)
        assert type(config).from_dict(config.to_dict()).to_json_string(use_diff=False) == text
        if max(value for value in vars(config).values() if type(value) is int) <= 600:  # many layers take time
            with torch.device("meta"):
                outcome(lambda: FAMILIES[name].heads["token-classification"](config), "`", "backbone", "attention")

    values = SMALL | st.sampled_from([word for word in WORDS if isinstance(word, str)]) | anything
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
