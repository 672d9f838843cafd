"""JSON and YAML become plain values, or an error with the place."""

import pytest

from hf_localattn.parsing import parse_json, parse_yaml, read_json


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a":\n 1,}', "x.json, line 3, column"),
        ('"\\ud800"', "x.json, line 2: .*surrogates"),
        ("1" * 5000, "x.json, line 2: .*digits"),
        ("[" * 100_000, "x.json, line 2: .*recursion"),
    ],
    ids=["syntax", "surrogate", "digits", "nested"],
)
def test_invalid_json(text, place):
    with pytest.raises(ValueError, match=place):
        parse_json(text, "x.json", first_line=2)


def test_a_file_of_other_values_is_named(tmp_path):
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"x\.json: expected an object.*list"):
        read_json(tmp_path / "x.json")


def test_yaml_has_plain_values():
    text = "a: &a {x: 1}\nb: {<<: *a, y: [true, null]}\nday: 2026-01-02\n"
    assert parse_yaml(text, "x") == {"a": {"x": 1}, "b": {"x": 1, "y": [True, None]}, "day": "2026-01-02"}


@pytest.mark.parametrize("text", ["a: [1", "!!bool x", "!!python/name:os.system", "&a [*a]"])
def test_invalid_yaml(text):
    with pytest.raises(ValueError, match="card: cannot be read"):
        parse_yaml(text, "card")
