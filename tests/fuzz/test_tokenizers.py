"""The tokenizers of SLA and OA on any settings and texts: one value for each token, or an error that says why not."""

import copy

import hypothesis.strategies as st
import pytest
from transformers import AutoTokenizer

from hf_localattn.models.cue_markers import MARKERS, mark_cues
from hf_localattn.models.tokenization_oa_xlnet import OaXLNetTokenizer
from hf_localattn.models.tokenization_sla_bert import SlaBertTokenizer
from hf_localattn.resources import tiny_backbone, tiny_parser
from tests.fuzz.strategies import TEXTS, anything, check, often, or_wrong, outcome, sizes

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
PIECES = (
    *(*MARKERS, "[CUE", "]", "not", "do n't", "un", " ", "\n", "\t", "\u3000", "\xa0", "\u200b", "\0"),
    *("é", "e\u0301", "ﬁ", "中", "😀"),
)
words = st.one_of(st.sampled_from([*PIECES, *TEXTS]), st.text(max_size=5))
texts = st.one_of(
    st.lists(words, max_size=6).map("".join), st.lists(words, max_size=6).map(" ".join), st.text(max_size=12)
)
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
options = st.lists(st.sampled_from(sorted(CALL)), max_size=4, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: CALL[name] for name in names})
)


@pytest.fixture(scope="module")
def backbone():
    return AutoTokenizer.from_pretrained(tiny_backbone())


def check_rows(encoded, own_inputs):
    """All inputs of a row are as long as its tokens, and ours are of those values that they can have."""
    rows = encoded["input_ids"]
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    single = not rows or isinstance(rows[0], int)
    for name in own_inputs:
        if name not in encoded:
            continue
        values = encoded[name]
        values = values.tolist() if hasattr(values, "tolist") else values
        for ids, own in zip([rows] if single else rows, [values] if single else values, strict=True):
            assert len(ids) == len(own)
            possible = {"query_mask": range(2), "dep_heads": range(-1, len(ids)), "word_index": range(-1, 10_000)}[
                name
            ]
            assert all(value in possible for value in own)


def heads_of(draw, words):
    return draw(or_wrong(st.lists(st.integers(0, max(len(words) - 1, 0)), min_size=len(words), max_size=len(words))))


@st.composite
def calls(draw, tokenizer_class):
    """The arguments of a call: a text, a pair or a batch of them, split into words or not, now and then anything."""
    split, batched, paired = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    number = draw(st.integers(0, 3)) if batched else 1

    def one():
        return draw(st.lists(words, max_size=6) if split else texts)

    first, second = [one() for _ in range(number)], [one() for _ in range(number)] if paired else None
    given = draw(options)
    if split and tokenizer_class is SlaBertTokenizer and draw(st.booleans()):
        heads = [heads_of(draw, own) for own in first]
        given["heads"] = heads if batched else heads[0]
        if paired:
            heads = [heads_of(draw, own) for own in second]
            given["heads_pair"] = heads if batched else heads[0]
    if not batched:
        first, second = first[0], second[0] if paired else None
    first, second = (draw(often(*[st.just(one)] * 14, anything)) for one in (first, second))
    return first, second, {**given, "is_split_into_words": split}


@sizes
@pytest.mark.parametrize("tokenizer_class", SETTINGS, ids=lambda one: one.__name__)
def test_settings(tokenizer_class, backbone, examples):
    def holds(given):
        tokenizer = outcome(
            lambda: tokenizer_class.from_backbone(copy.deepcopy(backbone), **given),
            "has no setting",
            *map("`{}`".format, given),
        )
        if tokenizer is not None:
            assert {name: getattr(tokenizer, name) for name in given} == given

    own = {name: or_wrong(right) for name, right in SETTINGS[tokenizer_class].items()}
    names = st.dictionaries(st.sampled_from(["words", "cue_marker", "own_inputs", "x"]), anything, max_size=1)
    given = st.tuples(st.fixed_dictionaries({}, optional=own), often(st.just({}), st.just({}), names))
    check(holds, given.map(lambda both: {**both[1], **both[0]}), examples)


@sizes
@pytest.mark.parametrize("tokenizer_class", SETTINGS, ids=lambda one: one.__name__)
def test_calls(tokenizer_class, backbone, examples):
    made = {}

    def holds(given):
        settings, (text, pair, options) = given
        key = tuple(sorted(settings.items(), key=str))
        if key not in made:
            made[key] = tokenizer_class.from_backbone(backbone, **settings)
        tokenizer = made[key]
        encoded = outcome(lambda: tokenizer(text, pair, **options), *PLACES)
        if encoded is not None:
            check_rows(encoded, tokenizer_class.OWN_INPUTS)

    settings = st.fixed_dictionaries(SETTINGS[tokenizer_class])
    check(holds, st.tuples(settings, calls(tokenizer_class)), examples)


PLACES = ("`", "text", "Word", "row")


@sizes
def test_cues_are_marked(examples):
    def holds(given):
        tokens, cue, kind = given
        marked = outcome(lambda: mark_cues(tokens, cue, kind), "`cue`", "`cue_type`")
        if marked is not None:
            assert len(marked) == len(tokens) + sum(cue)

    rows = st.lists(words, max_size=5).flatmap(
        lambda tokens: st.tuples(
            st.just(tokens),
            or_wrong(st.lists(st.integers(0, 1), min_size=len(tokens), max_size=len(tokens))),
            or_wrong(st.sampled_from([None, "affix", "single", "multi"])),
        )
    )
    check(holds, rows, examples)
