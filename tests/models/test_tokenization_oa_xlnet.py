"""Cue markers in texts and lists of words, and the tokens that `OaXLNetTokenizer` marks as the query."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.models.cue_markers import MARKERS, TYPED_MARKERS, is_marker, mark_cues
from hf_localattn.models.tokenization_oa_xlnet import read_cues
from tests.models.test_tokenizers import CALLS, KINDS, OPTIONS, backbone_of, rows, wrap

KNOW, NOR = "I do [CUE] not know.", "[CUE] Neither a saint [CUE] nor a sinner, it is [CUE:affix] infrequent"
PLAIN = {KNOW: "I do not know.", NOR: "Neither a saint nor a sinner, it is infrequent"}
CUES = {KNOW: ["not"], NOR: ["Neither", "nor", "infrequent"]}
MODES = ("keep", "drop", "typed")
SPLIT = {"is_split_into_words": True, "return_offsets_mapping": True}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_mode = pytest.mark.parametrize("mode", MODES)


@cache
def oa(kind="wordpiece", mode="keep", **settings):
    return wrap("oa-xlnet", kind, cue_marker=mode, **settings)


def marked(encoded, *texts, row=0):
    """The parts of the texts that the marked tokens cover."""
    encoding = encoded.encodings[row]
    tokens = zip(rows(encoded, "query_mask")[row], encoding.sequence_ids, encoding.offsets, strict=True)
    covered = {(segment, place) for value, segment, offsets in tokens if value for place in range(*offsets)}
    shown = (
        "".join(one if (segment, place) in covered else " " for place, one in enumerate(text))
        for segment, text in enumerate(texts)
    )
    return " ".join(shown).split()


def segment_mask(encoded, segment, row=0):
    return [int(of == segment) for of in encoded.encodings[row].sequence_ids]


# --- markers

WORDS, NEITHER_NOR = ["neither", "a", "saint", "nor", "a", "sinner"], [1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("cue", "kind", "expected"),
    [
        (NEITHER_NOR, None, "[CUE] neither a saint [CUE] nor a sinner"),
        *((NEITHER_NOR, kind, f"[CUE:{kind}] neither a saint [CUE:{kind}] nor a sinner") for kind in TYPED_MARKERS),
        ([0] * 6, "single", "neither a saint nor a sinner"),
    ],
)
def test_cues_are_marked(cue, kind, expected):
    assert mark_cues(WORDS, cue, kind) == expected.split()
    assert mark_cues([], [], kind) == []


REFUSED = {
    "fewer values": (lambda: mark_cues(WORDS, [1, 0]), "`cue`.* 6 words"),
    "no value": (lambda: mark_cues(WORDS, [2, *NEITHER_NOR[1:]]), "`cue`.* 0 or 1"),
    "no type": (lambda: mark_cues(WORDS, NEITHER_NOR, "prefix"), "`cue_type` is 'prefix'"),
    **{word: (lambda word=word: oa()([["do", word]], **SPLIT), "Word 1 .*marker") for word in ("[CUE]no", " [CUE]")},
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_cues_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


READ = [
    ("[CUE] neither a saint [CUE] nor a sinner", ["neither", "nor"]),
    ("is [CUE:affix] infrequent.", ["infrequent"]),
    ("[CUE:single] not, he said", ["not"]),
    ("I [CUE] don't and [CUE] can\u2019t, [CUE:multi] self-less-ly", ["don't", "can\u2019t", "self-less-ly"]),
    ("a [CUE] 'no' here", ["'no'"]),
    ("a [CUE] ..[CUE] b", ["..", "b"]),
    ("in[CUE]frequent", ["frequent"]),
    ("[CUE]\n\t na\u00efve", ["na\u00efve"]),
    ("[CUE] [CUE:affix] unhappy [CUE]", ["unhappy"]),
    ("he said no [CUE]", []),
    ("[CUE:other] not [cue] no", []),
]


@every_mode
@pytest.mark.parametrize(("text", "cues"), READ, ids=lambda value: value if isinstance(value, str) else "")
def test_the_word_after_a_marker_is_a_cue(text, cues, mode):
    encoded = oa(mode=mode)(text, "second")
    if not any(marker in text for marker in MARKERS):
        assert encoded["query_mask"] == segment_mask(encoded, 0)  # the usual query of a pair
    else:
        assert marked(encoded, text) == cues


# --- tokens


@every_kind
@every_mode
def test_a_random_query_is_of_as_many_other_words(kind, mode):
    text = "Mira does [CUE] not bake bread [CUE] nor cakes in the town"
    tokenizer, given = oa(kind, mode, random_query=True), oa(kind, mode)(text)
    drawn = tokenizer(text)
    queries = [
        {word for word, is_query in zip(one.word_ids(), one["query_mask"], strict=True) if is_query}
        for one in (given, drawn)
    ]
    assert drawn["input_ids"] == given["input_ids"]
    assert [len(query) for query in queries] == [2, 2]
    assert not queries[0] & queries[1]
    chosen = {token for token, is_query in zip(drawn.tokens(), drawn["query_mask"], strict=True) if is_query}
    assert not chosen & {*tokenizer.all_special_tokens}
    assert tokenizer(["a [CUE] not b", text])["query_mask"][1] == drawn["query_mask"], "the same in each batch"
    padded = tokenizer(text, padding="max_length", max_length=80)
    real = zip(padded["query_mask"], padded["attention_mask"], strict=True)
    assert [is_query for is_query, is_real in real if is_real] == drawn["query_mask"], "the same with padding"
    assert sum(tokenizer("[CUE] not")["query_mask"]) > 0, "no other word"


@every_kind
@every_mode
def test_markers_are_special_tokens(kind, mode):
    backbone, tokenizer = backbone_of(kind), oa(kind, mode)
    ids = tokenizer.convert_tokens_to_ids(list(MARKERS))
    assert sorted(ids) == list(range(len(backbone), len(tokenizer)))
    assert tokenizer.all_special_tokens == [*backbone.all_special_tokens, *MARKERS]
    typed = wrap("oa-xlnet", tokenizer, cue_marker="typed")
    assert len(typed) == len(tokenizer)
    encoded = typed(" ".join(f"{marker} a" for marker in TYPED_MARKERS.values()))["input_ids"]
    assert [token for token in encoded if token in ids] == ids[1:]
    assert typed.decode(encoded, skip_special_tokens=True).split() == ["a"] * 3


@every_kind
@pytest.mark.parametrize(
    ("mode", "text", "written"),
    [
        ("keep", NOR, ["[CUE]"] * 3),
        ("drop", NOR, []),
        ("typed", NOR, ["[CUE:multi]", "[CUE:multi]", "[CUE:affix]"]),
        ("typed", KNOW, ["[CUE:single]"]),
        ("typed", "[CUE:affix] infrequent", ["[CUE:affix]"]),
    ],
)
def test_markers_are_written_as_the_mode_says(kind, mode, text, written):
    """Without them, every mode has the tokens of the text that has none."""
    tokenizer, plain = oa(kind, mode), PLAIN.get(text, "infrequent")
    tokens = tokenizer.tokenize(text)
    assert [token for token in tokens if is_marker(token)] == written
    assert [token for token in tokens if not is_marker(token)] == backbone_of(kind).tokenize(plain)
    assert tokenizer.convert_tokens_to_ids(tokens) == tokenizer.encode(text, add_special_tokens=False)
    assert marked(tokenizer(text), text) == CUES.get(text, ["infrequent"])


@every_kind
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_drop_encodes_the_text_without_markers(kind, call, options):
    def with_markers(value):
        if isinstance(value, str):
            return value.replace("cat", "[CUE] cat").replace("saw", "[CUE:affix]  saw")
        return type(value)(map(with_markers, value))

    encoded, expected = oa(kind, "drop")(*with_markers(call), **options), backbone_of(kind)(*call, **options)
    assert encoded.keys() - {"query_mask"} == expected.keys()
    assert all(encoded[key] == expected[key] for key in expected.keys() - {"offset_mapping"})
    assert [len(row) for row in rows(encoded, "query_mask")] == [len(row) for row in rows(encoded)]
    assert (encoded.word_ids(), encoded.sequence_ids()) == (expected.word_ids(), expected.sequence_ids())


# --- any text, any words

PIECES = st.lists(
    st.sampled_from([" ", "  ", "\n", "not", "no.", "don't", "in", "know", ",", "\u00e9t\u00e9", "\U0001f44d"])
    | st.sampled_from(MARKERS)
    | st.just("[CUE] "),
    max_size=12,
)
few = settings(max_examples=40, deadline=None)


@every_kind
@few
@given(pieces=PIECES)
def test_any_text(kind, pieces):
    """Drop equals the text without markers; the mask has what overlaps the cue words, in every mode alike."""
    text = "".join(pieces)
    is_cue = read_cues(text, "keep").is_cue
    cues = {place for place in range(len(text)) if is_cue((place, place + 1), None)}
    dropped = backbone_of(kind)(read_cues(text, "drop").encoded)
    assert oa(kind, "drop")(text)["input_ids"] == dropped["input_ids"]
    for mode in MODES:
        encoded = oa(kind, mode)(text, return_offsets_mapping=True)
        offsets, special = encoded["offset_mapping"], encoded.encodings[0].special_tokens_mask
        assert encoded.encodings[0].offsets == offsets
        assert oa(kind, mode)([text], **{**SPLIT, "is_split_into_words": False})["offset_mapping"] == [offsets]
        for token, value, (begin, end), outside in zip(
            encoded.tokens(), encoded["query_mask"], offsets, special, strict=True
        ):
            covers = not cues.isdisjoint(range(begin, max(end, begin + 1)))
            assert value == (covers and not outside and not is_marker(token))
            assert not is_marker(token) or is_marker(text[begin:end])
        for start in cues - {place + 1 for place in cues}:  # every cue word that has tokens is marked
            first = encoded.char_to_token(start)
            assert first is None or encoded["query_mask"][first] == 1


LISTS = st.lists(
    st.tuples(st.sampled_from(["not", "no.", "", "unheard", "a b", "\u00e9"]), st.integers(0, 1)), min_size=1
)


@every_kind
@few
@given(pairs=LISTS, marker=st.sampled_from([None, *TYPED_MARKERS]), second=LISTS)
def test_any_words(kind, pairs, marker, second):
    """Numbers of words, markers included, and the mask, by the words that the backbone has without markers."""
    tokens, cue, others = [one for one, _ in pairs], [is_cue for _, is_cue in pairs], [one for one, _ in second]
    words, cues, pending = mark_cues(tokens, cue, marker), set(), False
    for number, word in enumerate(words):  # before an empty word, a marker marks the next that is not
        if pending and word and not is_marker(word):
            cues.add(number)
        pending = is_marker(word) or (pending and not word)
    numbers = [number for number, word in enumerate(words) if not is_marker(word)]
    expected = backbone_of(kind)(tokens, others, **SPLIT)
    places = list(zip(expected.word_ids(), expected.sequence_ids(), strict=True))
    of_words = [numbers[word] if of == 0 else word for word, of in places]
    mask = [
        int(of == 0 and (number in cues or not any(cue))) for (_, of), number in zip(places, of_words, strict=True)
    ]
    for mode in MODES:
        encoded = oa(kind, mode)(words, others, **SPLIT)
        own = zip(encoded.tokens(), encoded["offset_mapping"], encoded.word_ids(), encoded["query_mask"], strict=True)
        without = zip(expected.tokens(), expected["offset_mapping"], of_words, mask, strict=True)
        assert [one for one in own if not is_marker(one[0])] == list(without)


# --- pairs and windows


@every_kind
@pytest.mark.parametrize(
    ("setting", "truncation", "segment"),
    [
        *[("auto", truncation, 0) for truncation in (False, True, "longest_first", "only_second")],
        ("auto", "only_first", 1),
        *[("first", truncation, 0) for truncation in (False, "only_first")],
        *[("second", truncation, 1) for truncation in (False, "only_second", "only_first")],
    ],
)
def test_which_text_of_a_pair_is_the_query(kind, setting, truncation, segment):
    tokenizer = oa(kind, query_segment=setting)
    for call in (("Who did not see?", "The cat."), ("The cat.", "Who?"), (["who"], ["a", "cat"])):
        encoded = tokenizer(*call, truncation=truncation, max_length=40, is_split_into_words=isinstance(call[0], list))
        assert encoded["query_mask"] == segment_mask(encoded, segment)
        assert sum(encoded["query_mask"]) > 0
    assert not any(tokenizer("Who did not see?")["query_mask"]), "a single text without markers"


@every_kind
def test_markers_decide_unless_a_text_is_named_as_the_query(kind):
    encoded = oa(kind)(["Why?", "Why?"], [KNOW, "So."])
    assert marked(encoded, "Why?", KNOW, row=0) == ["not"]
    assert encoded["query_mask"][1] == segment_mask(encoded, 0, row=1)
    tokenizer = oa(kind, query_segment="second")
    encoded = tokenizer(KNOW, "Why?")
    assert encoded["query_mask"] == segment_mask(encoded, 1)
    assert marked(tokenizer(KNOW), KNOW) == ["not"]


@every_kind
@pytest.mark.parametrize(("protected", "strategy"), [(0, "only_second"), (1, "only_first")])
def test_the_question_is_the_query_in_every_window(kind, protected, strategy):
    """As stock run_qa.py calls it, for either padding side."""
    texts = [["The cat did not see the red house . " * 8]]
    texts.insert(protected, ["Who did not see it?"])
    options = {"max_length": 50, "stride": 5, "return_overflowing_tokens": True, "padding": "max_length"}
    encoded = oa(kind)(*texts, truncation=strategy, **options)
    assert len(encoded["input_ids"]) > 1
    for row, mask in enumerate(encoded["query_mask"]):
        assert mask == segment_mask(encoded, protected, row)


@every_kind
@every_mode
def test_windows_have_their_own_masks(kind, mode):
    text, tokenizer = f"{NOR}. {'It rains here. ' * 8}{KNOW}", oa(kind, mode)
    options = {"truncation": True, "max_length": 20, "stride": 3, "return_overflowing_tokens": True}
    windows = tokenizer(["no", text], **options, return_offsets_mapping=True)
    whole = tokenizer(text, truncation=False, verbose=False)
    cues = {offsets for offsets, value in zip(whole.encodings[0].offsets, whole["query_mask"], strict=True) if value}
    first, *others = windows["query_mask"]
    assert not any(first)
    assert others == [[int(pair in cues) for pair in offsets] for offsets in windows["offset_mapping"][1:]]
    assert {pair for offsets in windows["offset_mapping"][1:] for pair in offsets if pair in cues} == cues
    assert any(not any(mask) for mask in others)
