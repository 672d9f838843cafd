"""Configurations of all families, assignments of the command line, and calls of the tokenizers of SLA and OA."""

from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from hf_localattn.families import FAMILIES
from hf_localattn.models.cue_markers import MARKERS
from hf_localattn.models.fields import field_types, range_of, values_of
from hf_localattn.models.tokenization_oa_xlnet import OaXLNetTokenizer
from hf_localattn.models.tokenization_sla_bert import SlaBertTokenizer
from hf_localattn.parsing import parse_assignments
from hf_localattn.resources import tiny_backbone, tiny_parser
from tests.fuzz.strategies import TEXTS, anything, check, outcome, sizes
from tests.models.tiny import TINY_FIELDS, tiny_config

OWN = {name: {**field_types(family.config)} for name, family in FAMILIES.items()}
SMALL = st.integers(0, 8) | st.booleans() | st.none() | st.floats(0, 1) | st.lists(st.integers(0, 6), max_size=4)
CHOICES = {word for types in OWN.values() for kind in types.values() for word in values_of(kind)}


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

    values = SMALL | st.sampled_from(sorted(word for word in CHOICES if isinstance(word, str))) | anything
    fields = {name: st.dictionaries(st.sampled_from(sorted(OWN[name])), values, max_size=3) for name in OWN}
    check(holds, st.sampled_from(sorted(OWN)).flatmap(lambda name: st.tuples(st.just(name), fields[name])), examples)


YAML = ["2", "[3, 4]", "1e-1", "2024-13-45", "0b_", "[" * 3000, "&a [*a]", "{a: 1}", "!!python/object:os.system x"]


@sizes
def test_assignments(examples):
    def holds(given):
        family, words = given
        reasons = ("field=value", "no field", "`", *map(repr, words))
        fields = outcome(lambda: FAMILIES[family].split_fields(parse_assignments(words)), *reasons)
        assert fields is None or sum(map(len, fields)) <= len(words)

    names = st.sampled_from(sorted({*OWN["cool"], *OWN["sla-bert"]})) | st.text(max_size=5)
    values = st.sampled_from([*TEXTS, *YAML]) | st.text("0123456789.:-_eExb[]{}!&*<>=, \t'\"#~", max_size=12)
    one = st.tuples(names, st.sampled_from(["=", "=", "", " = "]), values).map("".join)
    check(holds, st.tuples(st.sampled_from(sorted(OWN)), st.lists(one, min_size=1, max_size=3)), examples)


SETTINGS = {
    SlaBertTokenizer: {
        "parser": st.sampled_from([None, str(tiny_parser())]),
        "words": st.sampled_from(["parser", "whitespace"]),
        "shuffle_trees": st.booleans(),
    },
    OaXLNetTokenizer: {
        "cue_marker": st.sampled_from(["keep", "drop", "typed"]),
        "query_segment": st.sampled_from(["auto", "first", "second"]),
        "random_query": st.booleans(),
    },
}
PIECES = ("[CUE", "]", "not", "do n't", "un", "\t", "\u3000", "\xa0", "\u200b", "é", "e\u0301", "ﬁ", "中")
texts = st.lists(st.sampled_from([*MARKERS, *PIECES, *TEXTS]) | st.text(max_size=5), max_size=6)
CALL = {
    "add_special_tokens": st.booleans(),
    "padding": st.sampled_from([True, False, "max_length"]),
    "truncation": st.sampled_from([True, False, "only_first", "only_second", "longest_first"]),
    "max_length": st.sampled_from([8, 12, 16]),
    "stride": st.integers(0, 3),
    "return_overflowing_tokens": st.booleans(),
    "return_tensors": st.sampled_from([None, None, "np", "pt"]),
    "pad_to_multiple_of": st.sampled_from([None, 4]),
    "padding_side": st.sampled_from(["left", "right"]),
}
GREATEST = {"query_mask": 1, "word_index": 9_999}
"""Values of our inputs; those of others are places of tokens."""


@sizes
@pytest.mark.parametrize("tokenizer_class", SETTINGS, ids=lambda one: one.__name__)
def test_calls(tokenizer_class, examples):
    backbone = AutoTokenizer.from_pretrained(tiny_backbone())
    made = cache(lambda **settings: tokenizer_class.from_backbone(backbone, **settings))

    def holds(given):
        settings, rows, split, number, is_batch, options = given
        sides = [[row[side] if split else " ".join(row[side]) for row in rows] for side in range(number)]
        sides, options = sides if is_batch else [side[0] for side in sides], {**options, "is_split_into_words": split}
        encoded = outcome(lambda: made(**settings)(*sides, **options), "`", "text", "Word", "row")
        if encoded is None:
            return
        ids_of_rows = encoded["input_ids"]
        single = not len(ids_of_rows) or np.ndim(ids_of_rows[0]) == 0
        for name in {*tokenizer_class.OWN_INPUTS} & {*encoded}:
            values = encoded[name]
            for ids, own in [(ids_of_rows, values)] if single else zip(ids_of_rows, values, strict=True):
                assert len(ids) == len(own)
                least, most = -(name != "query_mask"), GREATEST.get(name, len(ids) - 1)
                assert all(least <= value <= most for value in own)

    rows = st.lists(st.tuples(texts, texts), min_size=1, max_size=3)
    settings, options = st.fixed_dictionaries(SETTINGS[tokenizer_class]), st.fixed_dictionaries({}, optional=CALL)
    check(holds, st.tuples(settings, rows, st.booleans(), st.integers(1, 2), st.booleans(), options), examples)
