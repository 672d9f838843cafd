"""Regular expressions that are allowed in a tokenizer from a file."""

import json

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from hf_localattn.models.tokenizer_checks import KNOWN_PATTERNS, check_settings, check_tokenizer, slow

ORDINARY = (
    *sorted(KNOWN_PATTERNS),
    " {2,}",
    r"\s+",
    r"\S+\n?",
    r"\p{N}{1,3}",
    r"(?i:'s|'t|'re)|[\p{L}]+|[^\s\p{L}\p{N}]+",
    r"[\[\]*+]+",
    r"\(\+\*\)",
    r"(?:ab)+",
    r"\w+|[^\w\s]+",
)
EXPONENTIAL = (
    "(x+x+)+y",
    "(x*)*",
    "(x|x)*y",
    "(x|xx)+y",
    "((x)+)+y",
    "(x?x?)*y",
    "(x{2,})*y",
    "x*x*x*y",
    "[ab]*[^c]*c",
    "x?" * 20,
    r"(x+)\1",
    r"(?<name>x+)\k<name>",
    "(?R)x",
    "(?>x+)+",
    "(?=x+)*y",
    "((x{100}){100}){100}",
    "(?#[)(x+)+y(?#])",
    "(?x)#[\n(x+)+y#]",
    "x" * 2001,
)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_ordinary_patterns_are_accepted(pattern):
    assert not slow(pattern)


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_patterns_that_can_be_slow_are_not(pattern):
    assert slow(pattern)


def tokenizer():
    made = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def test_a_tokenizer_of_parts_without_patterns_is_accepted():
    made = tokenizer()
    made.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.Lowercase(), normalizers.Replace("``", '"')]
    )
    check_tokenizer(made)


def test_a_pattern_is_found_wherever_it_stands():
    made = tokenizer()
    split = pre_tokenizers.Split(Regex("(x+)+y"), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), split])
    with pytest.raises(ValueError, match=r"the pre_tokenizer has the pattern '\(x\+\)\+y', which repeats a group"):
        check_tokenizer(made)


def test_texts_may_not_grow_without_measure():
    made = tokenizer()
    made.normalizer = normalizers.Sequence([normalizers.Replace("a", "a" * 20)] * 2)
    with pytest.raises(ValueError, match="the normalizer makes texts up to 400 times longer; 100 times is the most"):
        check_tokenizer(made)


@pytest.mark.parametrize("entry", ["tokenizer_file", "vocab_file", "gguf_file", "fast_tokenizer_files", "init_inputs"])
def test_settings_name_no_files(tmp_path, entry):
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({entry: ["x"], "model_max_length": 512}))
    with pytest.raises(ValueError, match=f"`{entry}` is .*; a tokenizer is read from the files next to it: remove it"):
        check_settings(path)
    path.write_text(json.dumps({entry: None, "model_max_length": 512}))
    check_settings(path)
