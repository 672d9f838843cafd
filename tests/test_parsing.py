"""JSON and YAML of whatever origin: what could keep a machine busy is refused at once."""

import time

import pytest

from hf_localattn.parsing import parse_yaml

MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 30))
ALIASES = "a: &a [" + "1, " * 2000 + "1]\nb: [" + "*a, " * 2000 + "1]\n"


@pytest.mark.parametrize("text", [MERGES, ALIASES], ids=["merge-keys", "aliases"])
def test_few_characters_with_many_values_are_refused(text):
    began = time.process_time()
    with pytest.raises(ValueError, match="more than 1,000,000 values"):
        parse_yaml(text, "card.md")
    assert time.process_time() - began < 10


def test_merge_keys_and_aliases_are_read():
    text = "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n"
    assert parse_yaml(text, "x") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}
