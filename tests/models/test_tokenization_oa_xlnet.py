"""Cue markers in texts and lists of words, and the tokens that `OaXLNetTokenizer` marks as the query."""

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.models.cue_markers import CUE_MARKER, MARKERS, TYPED_MARKERS, is_marker, mark_cues
from tests.models.test_tokenizers import KINDS, backbone_of, wrap

MODES = ("keep", "drop", "typed")
SPLIT = {"is_split_into_words": True}
KNOW = "I do [CUE] not know."
every_kind = pytest.mark.parametrize("kind", KINDS)
every_mode = pytest.mark.parametrize("mode", MODES)


@cache
def oa(kind="wordpiece", mode="keep", **settings):
    return wrap("oa-xlnet", kind, cue_marker=mode, **settings)


def segment_mask(encoded, segment, row=0):
    return [int(of == segment) for of in encoded.encodings[row].sequence_ids]


def marked(encoded, text):
    """The parts of the first text that the marked tokens cover."""
    tokens = zip(encoded["query_mask"], encoded.encodings[0].offsets, strict=True)
    covered = {place for value, offsets in tokens if value for place in range(*offsets)}
    return "".join(one if place in covered else " " for place, one in enumerate(text)).split()


# --- markers

REFUSED = {
    "fewer values": (lambda: mark_cues(["a", "b", "c"], [1, 0]), "`cue`.* 3 words"),
    "no value": (lambda: mark_cues(["a"], [2]), "`cue`.* 0 or 1"),
    "no type": (lambda: mark_cues(["a"], [1], "prefix"), "`cue_type` is 'prefix'"),
    **{word: (lambda word=word: oa()([["do", word]], **SPLIT), "Word 1 .*marker") for word in ("[CUE]no", " [CUE]")},
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_cues_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


READ = {
    "[CUE] can\u2019t, [CUE:multi] self-less-ly": ["can\u2019t", "self-less-ly"],
    "a [CUE] 'no' here": ["'no'"],
    "a [CUE] ..[CUE] b": ["..", "b"],
    "in[CUE]frequent": ["frequent"],
    "[CUE]\n\t na\u00efve": ["na\u00efve"],
    "[CUE] [CUE:affix] unhappy [CUE]": ["unhappy"],
    "he said no [CUE]": [],
    "[CUE:other] not [cue] no": None,
}


@every_mode
@pytest.mark.parametrize("text", READ)
def test_the_word_after_a_marker_is_a_cue(text, mode):
    encoded = oa(mode=mode)(text, "second")
    if READ[text] is None:  # the usual query of a pair
        assert encoded["query_mask"] == segment_mask(encoded, 0)
    else:
        assert marked(encoded, text) == READ[text]


# --- tokens

WORD = st.sampled_from(["not", "no.", "don't", "in", "saint", ",", "\u00e9t\u00e9", "\U0001f44d", "a-b"])
SENTENCE = st.lists(st.tuples(WORD, st.integers(0, 1)), min_size=1, max_size=8)
KIND = st.sampled_from([None, *TYPED_MARKERS])
any_sentence = settings(max_examples=40, deadline=None)


@every_kind
@every_mode
@any_sentence
@given(sentence=SENTENCE, kind_of_cue=KIND)
def test_any_text(kind, mode, sentence, kind_of_cue):
    """Markers are written as the mode says. All else is as the backbone has it, with the offsets of the given text."""
    plain, places = "", set()
    for word, is_cue in sentence:
        begin, end = re.match(r"\w+(?:['-]\w+)*|\S+", word).span()  # a full stop is not in the word before it
        places |= {*range(len(plain) + begin, len(plain) + end)} if is_cue else set()
        plain += f"{word} "
    words, cue = map(list, zip(*sentence, strict=True))
    text, tokenizer = " ".join(mark_cues(words, cue, kind_of_cue)), oa(kind, mode)
    encoded, expected = tokenizer(text), backbone_of(kind)(plain.rstrip())
    typed = TYPED_MARKERS[kind_of_cue or ("multi" if sum(cue) > 1 else "single")]
    written = {"keep": [CUE_MARKER], "drop": [], "typed": [typed]}[mode] * sum(cue)
    assert [token for token in encoded.tokens() if is_marker(token)] == written
    assert tokenizer.tokenize(text) == tokenizer(text, add_special_tokens=False).tokens()

    def tokens_of(encoded, text):
        shown = [text[slice(*offsets)] for offsets in encoded.encodings[0].offsets]
        return zip(encoded.tokens(), map(str.strip, shown), strict=True)

    spans = zip(expected.sequence_ids(), expected.encodings[0].offsets, strict=True)
    # an empty token, such as a blank before the bytes of an emoji, belongs to the word that begins there
    mask = [int(of == 0 and not places.isdisjoint(range(begin, max(end, begin + 1)))) for of, (begin, end) in spans]
    own = zip(tokens_of(encoded, text), encoded["query_mask"], strict=True)
    assert [one for one in own if not is_marker(one[0][0])] == list(zip(tokens_of(expected, plain), mask, strict=True))


@every_kind
@every_mode
@any_sentence
@given(sentence=SENTENCE, kind_of_cue=KIND, second=st.none() | st.lists(WORD, min_size=1))
def test_any_words(kind, mode, sentence, kind_of_cue, second):
    """Words and their offsets are those of the given words, markers included."""
    plain, cue = map(list, zip(*sentence, strict=True))
    given, options = mark_cues(plain, cue, kind_of_cue), {**SPLIT, "return_offsets_mapping": True}
    encoded, expected = oa(kind, mode)(given, second, **options), backbone_of(kind)(plain, second, **options)
    numbers, usual = [number for number, word in enumerate(given) if not is_marker(word)], second and not any(cue)
    of_words = [
        (numbers[word], int(usual or cue[word])) if of == 0 else (word, 0)
        for word, of in zip(expected.word_ids(), expected.sequence_ids(), strict=True)
    ]
    own = zip(encoded.word_ids(), encoded["query_mask"], encoded.tokens(), encoded["offset_mapping"], strict=True)
    without = zip(of_words, expected.tokens(), expected["offset_mapping"], strict=True)
    assert [one for one in own if not is_marker(one[2])] == [(*word, *token) for word, *token in without]


def test_empty_words_are_not_cues():
    assert oa()(["[CUE]", "", " ", "not", "so"], **SPLIT)["query_mask"] == [0, 0, 1, 0, 0]


@every_kind
def test_markers_are_special_tokens(kind):
    backbone, tokenizer = backbone_of(kind), oa(kind)
    ids = tokenizer.convert_tokens_to_ids(list(MARKERS))
    assert sorted(ids) == list(range(len(backbone), len(tokenizer)))
    assert tokenizer.all_special_tokens == [*backbone.all_special_tokens, *MARKERS]
    assert len(wrap("oa-xlnet", tokenizer)) == len(tokenizer)
    assert tokenizer.decode(tokenizer("[CUE] a")["input_ids"], skip_special_tokens=True).split() == ["a"]


@every_kind
def test_a_random_query_is_of_as_many_other_words(kind):
    text = "Mira does [CUE] not bake bread [CUE] nor cakes in the town"
    tokenizer, usual = oa(kind, random_query=True), oa(kind)(text)
    drawn = tokenizer(text)
    query, others = (
        {word for word, is_query in zip(one.word_ids(), one["query_mask"], strict=True) if is_query}
        for one in (usual, drawn)
    )
    assert drawn["input_ids"] == usual["input_ids"]
    assert (len(query), len(others), query & others) == (2, 2, set())
    chosen = {token for token, is_query in zip(drawn.tokens(), drawn["query_mask"], strict=True) if is_query}
    assert not chosen & {*tokenizer.all_special_tokens}
    batch = tokenizer(["a [CUE] not b", text], padding="max_length", max_length=80)  # the same in any batch
    real = zip(batch["query_mask"][1], batch["attention_mask"][1], strict=True)
    assert [is_query for is_query, is_real in real if is_real] == drawn["query_mask"]
    assert sum(tokenizer("[CUE] not")["query_mask"]) > 0, "no other word"


# --- pairs and windows

WINDOWS = {"max_length": 50, "stride": 5, "return_overflowing_tokens": True, "padding": "max_length"}


@every_kind
@pytest.mark.parametrize(
    ("setting", "truncation", "segment"),
    [
        *[("auto", truncation, 0) for truncation in (False, True, "longest_first", "only_second")],
        ("auto", "only_first", 1),
        *[("first", truncation, 0) for truncation in (False, "only_first")],
        *[("second", truncation, 1) for truncation in (False, "only_second")],
    ],
)
def test_which_text_of_a_pair_is_the_query(kind, setting, truncation, segment):
    tokenizer, long = oa(kind, query_segment=setting), "The cat did not see the red house . " * 8
    for pair in (("Who did not see?", "The cat."), (["who"], ["a", "cat"])):
        encoded = tokenizer(*pair, truncation=truncation, max_length=40, is_split_into_words=isinstance(pair[0], list))
        assert encoded["query_mask"] == segment_mask(encoded, segment)
    assert not any(tokenizer("Who did not see?")["query_mask"]), "a single text without markers"
    if truncation in ("only_first", "only_second"):  # as stock run_qa.py calls it, for either padding side
        texts = ["Who did not see it?", long] if truncation == "only_second" else [long, "Who did not see it?"]
        windows = tokenizer(*([text] for text in texts), truncation=truncation, **WINDOWS)
        assert len(windows["input_ids"]) > 1
        assert windows["query_mask"] == [
            segment_mask(windows, segment, row) for row in range(len(windows["input_ids"]))
        ]


@every_kind
def test_markers_decide_unless_a_text_is_named_as_the_query(kind):
    assert marked(oa(kind)(KNOW, "Why?"), KNOW) == ["not"]
    assert not any(oa(kind)("Why?", "not [CUE]")["query_mask"]), "a marker without a word"
    named = oa(kind, query_segment="second")
    encoded = named(KNOW, "Why?")
    assert encoded["query_mask"] == segment_mask(encoded, 1)
    assert marked(named(KNOW), KNOW) == ["not"]
