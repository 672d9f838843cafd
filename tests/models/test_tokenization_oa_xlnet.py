"""Cue markers in texts and lists of words, and the tokens that `OaXLNetTokenizer` marks as the query."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.models.cue_markers import CUE_MARKER, MARKERS, TYPED_MARKERS, is_marker, mark_cues
from hf_localattn.models.tokenization_oa_xlnet import read_cues
from tests.models.tokenizers import KINDS, backbone_of, rows, wrap

KNOW, NOR = "I do [CUE] not know.", "[CUE] Neither a saint [CUE] nor a sinner, it is [CUE:affix] infrequent"
PLAIN = {KNOW: "I do not know.", NOR: "Neither a saint nor a sinner, it is infrequent"}
CUES = {KNOW: ["not"], NOR: ["Neither", "nor", "infrequent"]}
MODES = ("keep", "drop", "typed")
SPLIT = {"is_split_into_words": True}
every_mode = pytest.mark.parametrize("mode", MODES)


def cue_spans(text, read):
    """Return the characters [start, end) of the cue words of a text."""
    marked = "".join("x" if read.is_cue((place, place + 1), None) else " " for place in range(len(text)))
    return [match.span() for match in re.finditer("x+", marked)]


# --- markers


def test_names():
    assert CUE_MARKER == "[CUE]"
    assert TYPED_MARKERS == {"affix": "[CUE:affix]", "single": "[CUE:single]", "multi": "[CUE:multi]"}
    assert all(map(is_marker, MARKERS))
    assert not any(map(is_marker, ["CUE", "[cue]", "[CUE] ", "[CUE:other]", "", "not"]))


WORDS, NEITHER_NOR = ["neither", "a", "saint", "nor", "a", "sinner"], [1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("words", "cue", "kind", "expected"),
    [
        (WORDS, NEITHER_NOR, None, "[CUE] neither a saint [CUE] nor a sinner"),
        (WORDS, NEITHER_NOR, "multi", "[CUE:multi] neither a saint [CUE:multi] nor a sinner"),
        (WORDS, [0] * 6, "single", "neither a saint nor a sinner"),
        ([], [], None, ""),
    ],
)
def test_cues_are_marked(words, cue, kind, expected):
    assert mark_cues(words, cue, kind) == expected.split()


@pytest.mark.parametrize(
    ("cue", "kind", "text"),
    [
        ([1, 0], None, "`cue`.* 6 words"),
        ([2, 0, 0, 1, 0, 0], None, "`cue`.* 0 or 1"),
        (NEITHER_NOR, "prefix", "`cue_type` is 'prefix'"),
    ],
)
def test_wrong_cues_are_refused(cue, kind, text):
    with pytest.raises(ValueError, match=text):
        mark_cues(WORDS, cue, kind)


READ = [
    ("I do [CUE] not know", ["not"]),
    ("I do [CUE:single] not know", ["not"]),
    ("[CUE] neither a saint [CUE] nor a sinner", ["neither", "nor"]),
    ("is [CUE:affix] infrequent.", ["infrequent"]),
    ("[CUE] not, he said", ["not"]),
    ("I [CUE] don't and [CUE] can\u2019t, [CUE] self-less-ly", ["don't", "can\u2019t", "self-less-ly"]),
    ("a [CUE] 'no' here", ["'no'"]),
    ("a [CUE] ... b", ["..."]),
    ("a [CUE] ..[CUE] b", ["..", "b"]),
    ("in[CUE]frequent", ["frequent"]),
    ("[CUE]\n\t na\u00efve", ["na\u00efve"]),
    ("[CUE] [CUE:affix] unhappy [CUE]", ["unhappy"]),
    ("he said no [CUE]", []),
    ("[CUE]", []),
    ("[CUE:other] not [cue] no", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "cues"), READ)
def test_the_word_after_a_marker_is_a_cue(text, cues):
    read = read_cues(text, "keep")
    assert [text[start:end] for start, end in cue_spans(text, read)] == cues
    assert read.has_marker == any(marker in text for marker in MARKERS)


@pytest.mark.parametrize("word", ["[CUE]not", " [CUE]", "in[CUE:affix]"])
def test_a_marker_inside_a_word_is_refused(word):
    with pytest.raises(ValueError, match=r"Word 1 .*marker"):
        read_cues(["do", word], "drop")
    with pytest.raises(ValueError, match=r"Word 1 .*marker"):
        oa()([["do", word]], **SPLIT)


# --- the tokenizer


def oa(kind="wordpiece", **settings):
    return wrap("oa-xlnet", kind, **settings)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def make(kind):
    return lambda **given: oa(kind, **given)


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


def without_mask(encoded):
    return {name: values for name, values in encoded.items() if name != "query_mask"}


def segment_mask(encoded, segment, row=0):
    return [int(of == segment) for of in encoded.encodings[row].sequence_ids]


@every_mode
def test_a_random_query_is_of_as_many_other_words(make, mode):
    text = "Mira does [CUE] not bake bread [CUE] nor cakes in the town"
    tokenizer, given = make(cue_marker=mode, random_query=True), make(cue_marker=mode)(text)
    drawn = tokenizer(text)
    queries = [
        {word for word, is_query in zip(one.word_ids(), one["query_mask"], strict=True) if is_query}
        for one in (given, drawn)
    ]
    assert without_mask(drawn) == without_mask(given)
    assert [len(query) for query in queries] == [2, 2]
    assert not queries[0] & queries[1]
    chosen = {token for token, is_query in zip(drawn.tokens(), drawn["query_mask"], strict=True) if is_query}
    assert not chosen & {"[CUE]", "[CUE:multi]", "[CLS]", "[SEP]", "<cls>", "<sep>"}
    assert tokenizer(["a [CUE] not b", text])["query_mask"][1] == drawn["query_mask"], "the same in each batch"
    padded = tokenizer(text, padding="max_length", max_length=80)
    real = zip(padded["query_mask"], padded["attention_mask"], strict=True)
    assert [is_query for is_query, is_real in real if is_real] == drawn["query_mask"], "the same with padding"
    assert sum(tokenizer("[CUE] not")["query_mask"]) > 0, "no other word"


@every_mode
def test_markers_are_special_tokens(kind, make, mode):
    backbone, tokenizer = backbone_of(kind), make(cue_marker=mode)
    ids = tokenizer.convert_tokens_to_ids(list(MARKERS))
    assert sorted(ids) == list(range(len(backbone), len(tokenizer)))
    assert tokenizer.all_special_tokens == [*backbone.all_special_tokens, *MARKERS]
    typed = oa(tokenizer, cue_marker="typed")
    assert len(typed) == len(tokenizer)
    encoded = typed(" ".join(f"{marker} a" for marker in TYPED_MARKERS.values()))["input_ids"]
    assert [token for token in encoded if token in ids] == ids[1:]
    assert typed.decode(encoded, skip_special_tokens=True).split() == ["a"] * 3


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
def test_markers_are_written_as_the_mode_says(kind, make, mode, text, written):
    """Without them, every mode has the tokens of the text that has none."""
    tokenizer, plain = make(cue_marker=mode), PLAIN.get(text, "infrequent")
    tokens = tokenizer.tokenize(text)
    assert [token for token in tokens if is_marker(token)] == written
    assert [token for token in tokens if not is_marker(token)] == backbone_of(kind).tokenize(plain)
    assert tokenizer.convert_tokens_to_ids(tokens) == tokenizer.encode(text, add_special_tokens=False)
    assert marked(tokenizer(text), text) == CUES.get(text, ["infrequent"])


OPTIONS = [
    {},
    {"truncation": True, "max_length": 12},
    {"padding": "max_length", "max_length": 90, "padding_side": "left", "return_tensors": "pt"},
    {"padding": True, "pad_to_multiple_of": 8, "return_special_tokens_mask": True, "return_length": True},
    {"truncation": True, "max_length": 12, "stride": 1, "return_overflowing_tokens": True},
]
CALLS = [(KNOW,), (NOR, KNOW), ([KNOW, NOR, ""],), ([NOR, ""], [KNOW, "so"]), ([(NOR, "so"), (NOR, KNOW)],)]


def plain(value):
    return PLAIN.get(value, value) if isinstance(value, str) else type(value)(map(plain, value))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("call", CALLS, ids=["text", "pair", "batch", "pairs", "tuples"])
def test_drop_encodes_the_text_without_markers(kind, make, call, options):
    encoded, expected = make(cue_marker="drop")(*call, **options), backbone_of(kind)(*plain(call), **options)
    assert encoded.keys() - {"query_mask"} == expected.keys()
    assert all(rows(encoded, key) == rows(expected, key) for key in expected)
    assert [len(row) for row in rows(encoded, "query_mask")] == [len(row) for row in rows(encoded)]
    assert (encoded.word_ids(), encoded.sequence_ids()) == (expected.word_ids(), expected.sequence_ids())


PIECES = st.lists(
    st.sampled_from([" ", "  ", "\n", "not", "no.", "don't", "in", "know", ",", "\u00e9t\u00e9", "\U0001f44d"])
    | st.sampled_from(MARKERS)
    | st.just("[CUE] "),
    max_size=12,
)
every_kind = pytest.mark.parametrize("name", KINDS)
few = settings(max_examples=40, deadline=None)


@every_kind
@few
@given(pieces=PIECES)
def test_any_text(name, pieces):
    """Drop equals the text without markers; the mask has what overlaps the cue words, in every mode alike."""
    text = "".join(pieces)
    encoded = {mode: oa_of(name, mode)(text, return_offsets_mapping=True) for mode in MODES}
    if not any(map(is_marker, (piece.strip() for piece in pieces))):
        for one in encoded.values():
            assert without_mask(one) == dict(backbone_of(name)(text, return_offsets_mapping=True))
            assert not any(one["query_mask"])
        return
    cues = cue_spans(text, read_cues(text, "keep"))
    assert encoded["drop"]["input_ids"] == backbone_of(name)(read_cues(text, "drop").encoded)["input_ids"]
    for mode, one in encoded.items():
        assert one.encodings[0].offsets == one["offset_mapping"]
        tensors = oa_of(name, mode)([text], return_offsets_mapping=True, return_tensors="pt")
        assert tensors["offset_mapping"].tolist() == [[list(pair) for pair in one["offset_mapping"]]]
        for token, value, (begin, end), special in zip(
            one.tokens(), one["query_mask"], one["offset_mapping"], one.encodings[0].special_tokens_mask, strict=True
        ):
            inside = any(begin < stop and start < max(end, begin + 1) for start, stop in cues)
            assert value == int(inside and not special)
            assert not (value and is_marker(token))
            assert not is_marker(token) or is_marker(text[begin:end])
        for start, _ in cues:  # every cue word that has tokens is marked
            first = one.char_to_token(start)
            assert first is None or one["query_mask"][first] == 1


_made = {}


def oa_of(name, mode):
    """A tokenizer that is made once for all drawn texts."""
    return _made.setdefault((name, mode), oa(name, cue_marker=mode))


LISTS = st.lists(st.tuples(st.sampled_from(["not", "no.", "", "unheard", "a b", "\u00e9"]), st.integers(0, 1)))


@every_kind
@few
@given(pairs=LISTS, marker=st.sampled_from([None, *TYPED_MARKERS]), second=LISTS)
def test_any_words(name, pairs, marker, second):
    """Numbers of words, markers included, and the mask, by the words that the backbone has without markers."""
    tokens, cue, others = [one for one, _ in pairs], [is_cue for _, is_cue in pairs], [one for one, _ in second]
    words = mark_cues(tokens, cue, marker)
    if not words or not others:
        return
    given = {**SPLIT, "return_offsets_mapping": True}
    expected = backbone_of(name)(tokens, others, **given)
    segments, numbers = expected.sequence_ids(), [place for place, one in enumerate(words) if not is_marker(one)]
    of_first = [word if segment == 0 else None for word, segment in zip(expected.word_ids(), segments, strict=True)]
    drop = oa_of(name, "drop")(words, others, **given)
    assert without_mask(drop) == dict(expected)
    found = zip(drop.word_ids(), segments, strict=True)
    known = [numbers[word] for word in of_first if word is not None]
    assert [word for word, segment in found if segment == 0 and word is not None] == known
    pending = _cues_after_empty_words(words)
    mask = [int(word is not None and numbers[word] in pending) for word in of_first]
    assert drop["query_mask"] == (mask if any(cue) else [int(segment == 0) for segment in segments])
    for mode in ("keep", "typed"):
        kept = oa_of(name, mode)(words, others, **given)
        places = zip(kept["query_mask"], kept.word_ids(), kept.sequence_ids(), strict=True)
        flags = [value for value, word, of in places if word is None or of == 1 or not is_marker(words[word])]
        assert flags == drop["query_mask"]


def _cues_after_empty_words(words):
    """What a marker before an empty word marks: the next word that has something in it."""
    cues, pending = set(), False
    for number, word in enumerate(words):
        if is_marker(word):
            pending = True
        elif pending and word:
            cues.add(number)
            pending = False
    return cues


@pytest.mark.parametrize(
    ("setting", "truncation", "segment"),
    [
        *[("auto", truncation, 0) for truncation in (False, True, "longest_first", "only_second")],
        ("auto", "only_first", 1),
        *[("first", truncation, 0) for truncation in (False, "only_first")],
        *[("second", truncation, 1) for truncation in (False, "only_second", "only_first")],
    ],
)
def test_which_text_of_a_pair_is_the_query(make, setting, truncation, segment):
    tokenizer = make(query_segment=setting)
    for call in (("Who did not see?", "The cat."), ("The cat.", "Who?"), (["who"], ["a", "cat"])):
        encoded = tokenizer(*call, truncation=truncation, max_length=40, is_split_into_words=isinstance(call[0], list))
        assert encoded["query_mask"] == segment_mask(encoded, segment)
        assert sum(encoded["query_mask"]) > 0
    assert not any(tokenizer("Who did not see?")["query_mask"]), "a single text without markers"


def test_markers_decide_unless_a_text_is_named_as_the_query(make):
    encoded = make()(["Why?", "Why?"], [KNOW, "So."])
    assert marked(encoded, "Why?", KNOW, row=0) == ["not"]
    assert encoded["query_mask"][1] == segment_mask(encoded, 0, row=1)
    tokenizer = make(query_segment="second")
    encoded = tokenizer(KNOW, "Why?")
    assert encoded["query_mask"] == segment_mask(encoded, 1)
    assert marked(tokenizer(KNOW), KNOW) == ["not"]


def test_the_question_is_the_query_in_every_window(make):
    """As stock run_qa.py calls it, for either padding side."""
    question, passage = "Who did not see it?", "The cat did not see the red house . " * 8
    options = {"max_length": 50, "stride": 5, "return_overflowing_tokens": True, "padding": "max_length"}
    for call, strategy, segment in (
        (([question], [passage]), "only_second", 0),
        (([passage], [question]), "only_first", 1),
    ):
        encoded = make()(*call, truncation=strategy, **options)
        assert len(encoded["input_ids"]) > 1
        for row, mask in enumerate(encoded["query_mask"]):
            assert mask == segment_mask(encoded, segment, row)


@every_mode
def test_windows_have_their_own_masks(make, mode):
    text, tokenizer = f"{NOR}. {'It rains here. ' * 8}{KNOW}", make(cue_marker=mode)
    options = {"truncation": True, "max_length": 20, "stride": 3, "return_overflowing_tokens": True}
    windows = tokenizer(["no", text], **options, return_offsets_mapping=True)
    whole = tokenizer(text, truncation=False, verbose=False)
    cues = {offsets for offsets, value in zip(whole.encodings[0].offsets, whole["query_mask"], strict=True) if value}
    first, *others = windows["query_mask"]
    assert not any(first)
    assert others == [[int(pair in cues) for pair in offsets] for offsets in windows["offset_mapping"][1:]]
    assert {pair for offsets in windows["offset_mapping"][1:] for pair in offsets if pair in cues} == cues
    assert any(not any(mask) for mask in others)
