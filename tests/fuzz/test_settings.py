"""Configurations of all families, assignments of the command line, and calls of the tokenizers of SLA and OA."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from hf_localattn.assignments import parse_config_fields
from hf_localattn.models.configuration_local_attention import field_types, range_of
from hf_localattn.models.cue_markers import MARKERS
from hf_localattn.models.tokenization_oa_xlnet import OaXLNetTokenizer
from hf_localattn.models.tokenization_sla_bert import SlaBertTokenizer
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from tests.fuzz.strategies import TEXTS, anything, check, often, outcome, sizes
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
def test_assignments(examples):
    def holds(given):
        family, words = given
        reasons = ("field=value", "no field", "`", *map(repr, words))
        fields = outcome(lambda: parse_config_fields(family, words), *reasons)
        assert fields is None or len(fields) <= len(words)

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
words = st.sampled_from([*MARKERS, *PIECES, *TEXTS]) | st.text(max_size=5)
listed = st.lists(words, max_size=6)
texts = listed.map("".join) | listed.map(" ".join) | st.text(max_size=12)
CALL = {
    "add_special_tokens": st.booleans(),
    "padding": st.sampled_from([True, False, "max_length"]),
    "truncation": st.sampled_from([True, False, "only_first", "only_second", "longest_first"]),
    "max_length": st.sampled_from([8, 12, 16]),
    "stride": st.integers(0, 3),
    "return_overflowing_tokens": st.booleans(),
    "return_offsets_mapping": st.booleans(),
    "return_tensors": st.sampled_from([None, None, "np", "pt"]),
    "pad_to_multiple_of": st.sampled_from([None, 4]),
    "padding_side": st.sampled_from(["left", "right"]),
}


def check_rows(encoded, own_inputs):
    """All inputs of a row are as long as its tokens, and ours are of those values that they can have."""
    most = {"query_mask": 1, "word_index": 9_999}
    rows = encoded["input_ids"]
    single = not len(rows) or np.ndim(rows[0]) == 0
    for name in {*own_inputs} & {*encoded}:
        for ids, own in zip(*(([both] if single else both) for both in (rows, encoded[name])), strict=True):
            assert len(ids) == len(own)
            least = 0 if name == "query_mask" else -1
            assert all(least <= value <= most.get(name, len(ids) - 1) for value in own)


@st.composite
def calls(draw, tokenizer_class):
    """The arguments of a call: a text, a pair or a batch of them, split into words or not, now and then anything."""
    split, batched, paired = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    number = draw(st.integers(0, 3)) if batched else 1
    names = draw(st.lists(st.sampled_from(sorted(CALL)), max_size=4, unique=True))
    given = {name: draw(CALL[name]) for name in names} | {"is_split_into_words": split}
    both = [[draw(listed if split else texts) for _ in range(number)] for _ in range(1 + paired)]
    if split and tokenizer_class is SlaBertTokenizer and draw(st.booleans()):
        for name, side in zip(("heads", "heads_pair"), both, strict=False):
            numbers = [(st.integers(0, max(len(own) - 1, 0)), len(own)) for own in side]
            right = [st.lists(own, min_size=size, max_size=size) for own, size in numbers]
            heads = [draw(often(own, own, anything)) for own in right]
            given[name] = heads if batched else heads[0]
    sides = [side if batched else side[0] for side in both] + [None] * (not paired)
    return *(draw(often(*[st.just(side)] * 14, anything)) for side in sides), given


@sizes
@pytest.mark.parametrize("tokenizer_class", SETTINGS, ids=lambda one: one.__name__)
def test_calls(tokenizer_class, examples):
    backbone, made = AutoTokenizer.from_pretrained(tiny_backbone()), {}

    def holds(given):
        settings, (text, pair, options) = given
        key = tuple(settings.values())
        tokenizer = made[key] = made.get(key) or tokenizer_class.from_backbone(backbone, **settings)
        encoded = outcome(lambda: tokenizer(text, pair, **options), "`", "text", "Word", "row")
        if encoded is not None:
            check_rows(encoded, tokenizer_class.OWN_INPUTS)

    check(holds, st.tuples(st.fixed_dictionaries(SETTINGS[tokenizer_class]), calls(tokenizer_class)), examples)
