"""`OaXLNetTokenizer` encodes like the backbone's tokenizer and marks the tokens of the query."""

import copy
import json
import pickle

import pytest
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer
from transformers import (
    AutoTokenizer,
    BertConfig,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    RobertaTokenizer,
    XLNetTokenizer,
)

from hf_localattn.models.cue_markers import MARKERS, TYPED_MARKERS, is_marker, mark_cues
from hf_localattn.models.tokenization_oa_xlnet import OaXLNetTokenizer, read_cues
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.models.test_cue_markers import cue_spans

KNOW, NOR = "I do [CUE] not know.", "[CUE] Neither a saint [CUE] nor a sinner, it is [CUE:affix] infrequent"
PLAIN = {KNOW: "I do not know.", NOR: "Neither a saint nor a sinner, it is infrequent"}
CUES = {KNOW: ["not"], NOR: ["Neither", "nor", "infrequent"]}
MODES = ("keep", "drop", "typed")


@pytest.fixture(scope="session")
def backbones():
    text = [*PLAIN.values(), "The cat did not see the red house .", "Nobody knows why it never rains here ."] * 3
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(text, vocab_size=300, special_tokens=special, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    # Adds a space before texts and words, as stock scripts set it for words that are split.
    roberta = RobertaTokenizer(
        model["vocab"], [tuple(merge) for merge in model["merges"]], model_max_length=64, add_prefix_space=True
    )
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    trained = SentencePieceUnigramTokenizer()
    trained.train_from_iterator(text, vocab_size=90, special_tokens=special, unk_token="<unk>", show_progress=False)
    vocab = [tuple(piece) for piece in json.loads(trained.to_str())["model"]["vocab"]]
    xlnet = XLNetTokenizer(vocab, model_max_length=64)
    assert xlnet.padding_side == "left"
    return {"wordpiece": AutoTokenizer.from_pretrained(tiny_backbone()), "bytes": roberta, "unigram": xlnet}


@pytest.fixture(params=["wordpiece", "bytes", "unigram"])
def backbone(request, backbones):
    return copy.deepcopy(backbones[request.param])


@pytest.fixture
def make(backbone):
    return lambda **given: OaXLNetTokenizer.from_backbone(backbone, **given)


@pytest.fixture(scope="session")
def wrapped(backbones):
    """All backbones in all modes, made once for the property tests."""
    return {
        (name, mode): OaXLNetTokenizer.from_backbone(one, cue_marker=mode)
        for name, one in backbones.items()
        for mode in MODES
    }


def rows(encoded, key="query_mask"):
    values = encoded[key]
    if torch.is_tensor(values):
        return values.tolist()
    return values if values and isinstance(values[0], list) else [values]


def marked(encoded, *texts, row=0):
    """The parts of the texts that the marked tokens cover."""
    encoding = encoded.encodings[row]
    tokens = zip(rows(encoded)[row], encoding.sequence_ids, encoding.offsets, strict=True)
    covered = {(segment, place) for value, segment, offsets in tokens if value for place in range(*offsets)}
    return [
        part
        for segment, text in enumerate(texts)
        for part in "".join(
            character if (segment, place) in covered else " " for place, character in enumerate(text)
        ).split()
    ]


def without_mask(encoded):
    return {name: values for name, values in encoded.items() if name != "query_mask"}


def segment_mask(encoded, segment, row=0):
    return [int(of == segment) for of in encoded.encodings[row].sequence_ids]


def test_settings(make):
    assert tuple(OaXLNetTokenizer.SETTINGS) == ("cue_marker", "query_segment", "random_query")
    tokenizer = make()
    assert (tokenizer.cue_marker, tokenizer.query_segment) == ("keep", "auto")
    other = OaXLNetTokenizer.from_backbone(make(cue_marker="drop"), query_segment="second")
    assert (other.cue_marker, other.query_segment) == ("drop", "second")
    assert len(other) == len(tokenizer)


@pytest.mark.parametrize("mode", MODES)
def test_a_random_query_is_of_as_many_other_words(make, mode):
    text = "Mira does [CUE] not bake bread [CUE] nor cakes in the town"
    given, drawn = (make(cue_marker=mode, random_query=value)(text) for value in (False, True))
    queries = [
        {word for word, is_query in zip(one.word_ids(), one["query_mask"], strict=True) if is_query}
        for one in (given, drawn)
    ]
    assert without_mask(drawn) == without_mask(given)
    assert len(queries[0]) == len(queries[1]) == 2
    assert not queries[0] & queries[1]
    chosen = [token for token, is_query in zip(drawn.tokens(), drawn["query_mask"], strict=True) if is_query]
    assert not set(chosen) & {"[CUE]", "[CUE:multi]", "[CLS]", "[SEP]", "<cls>", "<sep>"}
    batch = make(cue_marker=mode, random_query=True)(["a [CUE] not b", text])
    assert batch["query_mask"][1] == drawn["query_mask"], "the same in each batch"
    padded = make(cue_marker=mode, random_query=True)(text, padding="max_length", max_length=80)
    real = zip(padded["query_mask"], padded["attention_mask"], strict=True)
    assert [is_query for is_query, is_real in real if is_real] == drawn["query_mask"], "the same with padding"
    alone = make(cue_marker=mode, random_query=True)("[CUE] not")
    assert sum(alone["query_mask"]) > 0, "no other word"


@pytest.mark.parametrize("value", ["", None, "none", True])
def test_wrong_settings_are_refused(make, value):
    with pytest.raises(ValueError, match=r"`cue_marker` is .*'keep', 'drop', 'typed'"):
        make(cue_marker=value)
    with pytest.raises(ValueError, match=r"`query_segment` is .*'auto', 'first', 'second'"):
        make(query_segment=value)
    with pytest.raises(ValueError, match=r"`random_query` is .*; it must be true or false"):
        make(random_query=str(value))
    with pytest.raises(ValueError, match="no setting 'cue'; it has cue_marker, query_segment, random_query"):
        make(cue=value)


@pytest.mark.parametrize("mode", MODES)
def test_markers_are_special_tokens(backbone, make, mode):
    backbone.add_special_tokens({"extra_special_tokens": ["[EXTRA]"]}, replace_extra_special_tokens=False)
    before = len(backbone), list(backbone.all_special_tokens)
    tokenizer = make(cue_marker=mode)
    assert (len(backbone), backbone.all_special_tokens) == before
    assert tokenizer.is_fast
    assert len(tokenizer) == before[0] + len(MARKERS)
    ids = tokenizer.convert_tokens_to_ids(list(MARKERS))
    assert sorted(ids) == list(range(before[0], len(tokenizer)))
    assert tokenizer.all_special_tokens == [*before[1], *MARKERS]
    assert set(ids) <= set(tokenizer.all_special_ids)
    assert tokenizer.model_input_names == [*backbone.model_input_names, "query_mask"]
    typed = OaXLNetTokenizer.from_backbone(tokenizer, cue_marker="typed")
    text = " ".join(f"{marker} a" for marker in TYPED_MARKERS.values())
    encoded = typed(text)["input_ids"]
    assert [token for token in encoded if token in ids] == ids[1:]
    assert typed.decode(encoded, skip_special_tokens=True).split() == ["a"] * 3


def test_keep_has_one_plain_marker_before_each_word(make):
    tokenizer = make()
    tokens = tokenizer.tokenize(NOR)
    assert [token for token in tokens if is_marker(token)] == ["[CUE]"] * 3
    assert tokenizer.convert_tokens_to_ids(tokens) == tokenizer.encode(NOR, add_special_tokens=False)
    blank = {"\u0120", "\u2581"} & set(tokens[tokens.index("[CUE]", 1) - 1 : tokens.index("[CUE]", 1)])
    assert not blank, "a token of the blank before a marker"
    encoded = tokenizer(NOR)
    assert marked(encoded, NOR) == CUES[NOR]
    places = [place for place, token in enumerate(encoded.tokens()) if token == "[CUE]"]
    assert [NOR[slice(*encoded.token_to_chars(place))] for place in places] == ["[CUE]", "[CUE]", "[CUE:affix]"]
    assert all(rows(encoded)[0][place + 1] and not rows(encoded)[0][place] for place in places)


def test_typed_tells_one_cue_word_from_several(make):
    tokenizer = make(cue_marker="typed")
    of = lambda text: [token for token in tokenizer.tokenize(text) if is_marker(token)]  # noqa: E731
    assert of(KNOW) == ["[CUE:single]"]
    assert of(NOR) == ["[CUE:multi]", "[CUE:multi]", "[CUE:affix]"]
    assert of("[CUE:affix] infrequent") == ["[CUE:affix]"]
    assert marked(tokenizer(NOR), NOR) == CUES[NOR]


@pytest.mark.parametrize("mode", MODES)
def test_only_the_markers_differ(backbone, make, mode):
    """Without them, every mode has the tokens of the text that has none."""
    tokenizer = make(cue_marker=mode)
    markers = set(tokenizer.convert_tokens_to_ids(list(MARKERS)))
    for text, plain in PLAIN.items():
        ids = tokenizer(text)["input_ids"]
        assert [token for token in ids if token not in markers] == backbone(plain)["input_ids"]
        assert (set(ids) & markers == set()) == (mode == "drop")


OPTIONS = [
    {},
    {"add_special_tokens": False},
    {"truncation": True, "max_length": 12},
    {"padding": True},
    {"padding": "max_length", "max_length": 70, "padding_side": "left", "return_tensors": "pt"},
    {"padding": True, "pad_to_multiple_of": 8, "return_special_tokens_mask": True, "return_length": True},
    {"truncation": True, "max_length": 12, "stride": 1, "return_overflowing_tokens": True},
]
CALLS = [(KNOW,), (NOR, KNOW), ([KNOW, NOR, ""],), ([NOR, ""], [KNOW, "so"]), ([(NOR, "so"), (NOR, KNOW)],)]


def plain(value):
    return PLAIN.get(value, value) if isinstance(value, str) else type(value)(map(plain, value))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("call", CALLS, ids=["text", "pair", "batch", "pairs", "tuples"])
def test_drop_encodes_the_text_without_markers(backbone, make, call, options):
    if options.get("return_tensors") and len(call) == 2 and isinstance(call[0], str):
        options = {**options, "max_length": 90}
    encoded, expected = make(cue_marker="drop")(*call, **options), backbone(*plain(call), **options)
    assert encoded.keys() - {"query_mask"} == expected.keys()
    for key in expected:
        assert rows(encoded, key) == rows(expected, key)
    assert [len(row) for row in rows(encoded)] == [len(row) for row in rows(encoded, "input_ids")]
    assert encoded.word_ids() == expected.word_ids()
    assert encoded.sequence_ids() == expected.sequence_ids()


@pytest.mark.parametrize("options", OPTIONS[:4], ids=lambda options: "-".join(options))
def test_texts_without_markers_are_as_the_backbone_encodes_them(backbone, make, options):
    for call in (("A saint.",), ("A saint.", "a sinner"), (["A saint.", ""], ["no", "not"])):
        given = {**options, "return_offsets_mapping": True}
        encoded, expected = make()(*call, **given), backbone(*call, **given)
        assert without_mask(encoded) == dict(expected)


PIECES = st.lists(
    st.sampled_from([" ", "  ", "\n", "not", "no.", "don't", "in", "know", ",", "\u00e9t\u00e9", "\U0001f44d"])
    | st.sampled_from(MARKERS)
    | st.just("[CUE] "),
    max_size=12,
)
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", ["wordpiece", "bytes", "unigram"])
@FEW
@given(pieces=PIECES)
def test_any_text(wrapped, backbones, name, pieces):
    """Drop equals the text without markers; the mask has what overlaps the cue words, in every mode alike."""
    text = "".join(pieces)
    encoded = {mode: wrapped[name, mode](text, return_offsets_mapping=True) for mode in MODES}
    if not any(map(is_marker, (piece.strip() for piece in pieces))):
        for one in encoded.values():
            assert without_mask(one) == dict(backbones[name](text, return_offsets_mapping=True))
            assert not any(one["query_mask"])
        return
    cues = cue_spans(text, read_cues(text, "keep"))
    assert encoded["drop"]["input_ids"] == backbones[name](read_cues(text, "drop").encoded)["input_ids"]
    for one in encoded.values():
        assert one.encodings[0].offsets == one["offset_mapping"]
        for token, value, (begin, end), special in zip(
            one.tokens(), one["query_mask"], one["offset_mapping"], one.encodings[0].special_tokens_mask, strict=True
        ):
            inside = any(begin < stop and start < max(end, begin + 1) for start, stop in cues)
            assert value == int(inside and not special)
            assert not (value and is_marker(token))
            if is_marker(token):
                assert is_marker(text[begin:end])
        for start, stop in cues:  # every cue word that has tokens is marked
            first = one.char_to_token(start)
            assert first is None or one["query_mask"][first] == 1
            assert stop <= len(text)


WORDS = st.lists(st.tuples(st.sampled_from(["not", "no.", "", "unheard", "a b", "\u00e9"]), st.integers(0, 1)))


@pytest.mark.parametrize("name", ["wordpiece", "bytes", "unigram"])
@FEW
@given(pairs=WORDS, kind=st.sampled_from([None, *TYPED_MARKERS]), second=WORDS)
def test_any_words(wrapped, backbones, name, pairs, kind, second):
    (tokens, cue), (others, _) = (zip(*some, strict=True) if some else ((), ()) for some in (pairs, second))
    words, others = mark_cues(tokens, cue, kind), list(others)
    if not words or not others:
        return
    numbers = [number for number, word in enumerate(words) if not is_marker(word)]
    given = {"is_split_into_words": True, "return_offsets_mapping": True}
    expected = backbones[name](list(tokens), others, **given)
    drop = wrapped[name, "drop"](words, others, **given)
    segments = expected.sequence_ids()
    assert without_mask(drop) == dict(expected)
    assert drop.sequence_ids() == segments
    of_first = [word if segment == 0 else None for word, segment in zip(expected.word_ids(), segments, strict=True)]
    known = [word for word in of_first if word is not None]
    assert [word for word, segment in zip(drop.word_ids(), segments, strict=True) if segment == 0] == [
        numbers[word] for word in known
    ]
    if any(cue):
        pending = _cues_after_empty_words(words)
        assert drop["query_mask"] == [int(word is not None and numbers[word] in pending) for word in of_first]
    else:
        assert drop["query_mask"] == [int(segment == 0) for segment in segments]
    for mode in ("keep", "typed"):
        kept = wrapped[name, mode](words, others, **given)
        flags = [
            value
            for value, word, of in zip(kept["query_mask"], kept.word_ids(), kept.sequence_ids(), strict=True)
            if word is None or of == 1 or not is_marker(words[word])
        ]
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


def test_offsets_are_those_of_the_text_as_given(make):
    for mode in MODES:
        encoded = make(cue_marker=mode)(NOR, KNOW, return_offsets_mapping=True)
        assert encoded["offset_mapping"] == encoded.encodings[0].offsets
        assert marked(encoded, NOR, KNOW) == CUES[NOR] + CUES[KNOW]
        place = encoded.char_to_token(0, NOR.index("infrequent"))
        assert encoded["query_mask"][place] == 1
        begin, end = encoded.word_to_chars(encoded.token_to_word(place))
        assert NOR[begin:end].strip().startswith("infrequent"[: end - begin])
        place = encoded.char_to_token(0, sequence_index=1)
        assert encoded.token_to_sequence(place) == 1
        tensors = make(cue_marker=mode)([NOR], [KNOW], return_offsets_mapping=True, return_tensors="pt")
        assert tensors["offset_mapping"].tolist() == [[list(pair) for pair in encoded["offset_mapping"]]]


@pytest.mark.parametrize("mode", MODES)
def test_labels_align_with_given_words(make, mode):
    """As stock run_ner.py does it: a label for each given word, markers included, found by `word_ids`."""
    words = mark_cues(["It", "is", "infrequent", "here"], [0, 0, 1, 0])
    encoded = make(cue_marker=mode)([words, ["no"]], is_split_into_words=True)
    found = {words[word] for word in encoded.word_ids(0) if word is not None}
    assert found == set(words) - ({"[CUE]"} if mode == "drop" else set())
    mask = encoded["query_mask"][0]
    assert {words[word] for word, value in zip(encoded.word_ids(0), mask, strict=True) if value} == {"infrequent"}
    assert encoded["query_mask"][1] == [0] * len(encoded["query_mask"][1])


@pytest.mark.parametrize("mode", MODES)
def test_nothing_but_markers(make, mode):
    tokenizer = make(cue_marker=mode)
    assert not any(tokenizer("he said no [CUE]")["query_mask"])
    assert not any(tokenizer("[CUE]")["query_mask"])
    assert not any(tokenizer("he said no [CUE]", "why")["query_mask"])
    assert not any(tokenizer(["[CUE]"], is_split_into_words=True)["query_mask"])
    batch = tokenizer([["[CUE]"], ["[CUE]", "", "no"]], is_split_into_words=True, padding=True, return_tensors="pt")
    assert batch["query_mask"].any(dim=1).tolist() == [False, True]
    assert marked(tokenizer(["", "[CUE]"], ["no", KNOW]), "[CUE]", KNOW, row=1) == ["not"]


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


def test_single_texts_without_markers_have_no_query(make):
    for setting in ("auto", "first", "second"):
        assert not any(make(query_segment=setting)("Who did not see?")["query_mask"])


def test_a_text_that_is_named_as_the_query_is_it_whatever_markers_say(make):
    """Markers that happen to be in a passage do not take the question's place."""
    tokenizer = make(query_segment="second")
    encoded = tokenizer(KNOW, "Why?")
    assert encoded["query_mask"] == segment_mask(encoded, 1)
    assert marked(tokenizer(KNOW), KNOW) == ["not"]


def test_markers_decide_where_there_are_any(make):
    tokenizer = make()
    assert marked(tokenizer("Why?", KNOW), "Why?", KNOW) == ["not"]
    batch = tokenizer(["Why?", "Why?"], [KNOW, "So."])
    assert marked(batch, "Why?", KNOW, row=0) == ["not"]
    assert batch["query_mask"][1] == segment_mask(batch, 0, row=1)


def test_the_question_is_the_query_in_every_window(make):
    """As stock run_qa.py calls it, for either padding side."""
    question, passage = "Who did not see it?", "The cat did not see the red house . " * 8
    for call, strategy, segment in (
        ((question, passage), "only_second", 0),
        ((passage, question), "only_first", 1),
    ):
        encoded = make()(
            *([text] for text in call),
            truncation=strategy,
            max_length=50,
            stride=5,
            return_overflowing_tokens=True,
            padding="max_length",
        )
        assert len(encoded["input_ids"]) > 1
        for row in range(len(encoded["input_ids"])):
            assert encoded["query_mask"][row] == segment_mask(encoded, segment, row)


@pytest.mark.parametrize("mode", MODES)
def test_windows_have_their_own_masks(make, mode):
    text = f"{NOR}. {'It rains here. ' * 8}{KNOW}"
    tokenizer = make(cue_marker=mode)
    options = {"truncation": True, "max_length": 20, "stride": 3, "return_overflowing_tokens": True}
    windows = tokenizer(["no", text], **options, return_offsets_mapping=True)
    whole = tokenizer(text, truncation=False, verbose=False)
    cues = {offsets for offsets, value in zip(whole.encodings[0].offsets, whole["query_mask"], strict=True) if value}
    assert windows["query_mask"][0] == [0] * len(windows["query_mask"][0])
    seen = set()
    for mask, offsets, ids in zip(
        windows["query_mask"][1:], windows["offset_mapping"][1:], windows["input_ids"][1:], strict=True
    ):
        assert len(mask) == len(ids)
        assert mask == [int(pair in cues) for pair in offsets]
        seen |= {pair for pair, value in zip(offsets, mask, strict=True) if value}
    assert seen == cues
    assert any(not any(mask) for mask in windows["query_mask"][1:])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_cue_that_was_cut_off(make, side):
    tokenizer = make()
    tokenizer.truncation_side = side
    first, last = "[CUE] Neither a saint or a sinner, it is here", "A saint or a sinner, it is [CUE] not"
    cut = [any(tokenizer(text, truncation=True, max_length=9)["query_mask"]) for text in (first, last)]
    assert cut == ([False, True] if side == "left" else [True, False])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("multiple", [None, 16])
def test_padding_later_is_padding_in_the_call(make, side, multiple):
    tokenizer = make()
    texts = [KNOW, NOR, "", "no"]
    options = {"padding": True, "padding_side": side, "pad_to_multiple_of": multiple, "return_tensors": "pt"}
    in_call = tokenizer(texts, **options)
    later = tokenizer.pad([dict(tokenizer(text)) for text in texts], **options)
    assert in_call["query_mask"].shape == in_call["input_ids"].shape
    assert torch.equal(later["query_mask"], in_call["query_mask"])
    assert in_call["query_mask"].sum(1).tolist() == [sum(tokenizer(text)["query_mask"]) for text in texts]
    assert not (in_call["query_mask"].bool() & ~in_call["attention_mask"].bool()).any()


@pytest.mark.parametrize("side", ["left", "right"])
def test_collators_pad(make, side):
    tokenizer = make()
    tokenizer.padding_side = side
    expected = tokenizer([KNOW, NOR], padding=True, return_tensors="pt")
    features = [dict(tokenizer(text)) for text in (KNOW, NOR)]
    assert torch.equal(DataCollatorWithPadding(tokenizer)(features)["query_mask"], expected["query_mask"])
    labeled = [{**feature, "labels": feature["query_mask"]} for feature in features]
    batch = DataCollatorForTokenClassification(tokenizer, label_pad_token_id=0)(labeled)
    assert torch.equal(batch["query_mask"], expected["query_mask"])
    assert torch.equal(batch["labels"], expected["query_mask"])


def test_markers_inside_words_are_refused(make):
    with pytest.raises(ValueError, match=r"Word 1 \('\[CUE\]not'\)"):
        make()([["do", "[CUE]not"]], is_split_into_words=True)


@pytest.mark.parametrize("mode", MODES)
def test_settings_are_saved(make, tmp_path, mode):
    tokenizer = make(cue_marker=mode, query_segment="second")
    tokenizer(KNOW, truncation=True, max_length=4, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    loaded = OaXLNetTokenizer.from_pretrained(tmp_path)
    assert (loaded.cue_marker, loaded.query_segment) == (mode, "second")
    assert loaded.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert loaded.all_special_tokens == tokenizer.all_special_tokens
    assert loaded.model_input_names == tokenizer.model_input_names
    assert dict(loaded(NOR, "so")) == dict(tokenizer(NOR, "so"))
    other = OaXLNetTokenizer.from_pretrained(tmp_path, cue_marker="drop")
    assert len(other) == len(tokenizer)
    assert dict(other(NOR)) == dict(make(cue_marker="drop")(NOR))


def test_calls_leave_no_trace(make):
    tokenizer = make(cue_marker="drop")
    before = pickle.dumps(tokenizer), Hasher.hash(tokenizer)
    tokenizer([KNOW, NOR], truncation=True, max_length=9, padding=True)
    DataCollatorWithPadding(tokenizer)([dict(tokenizer(KNOW))])
    with pytest.raises(ValueError, match="contains a cue marker"):
        tokenizer(["[CUE]not"], is_split_into_words=True, truncation=True, max_length=4)
    assert (pickle.dumps(tokenizer), Hasher.hash(tokenizer)) == before
    for copied in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert dict(copied(NOR, KNOW)) == dict(tokenizer(NOR, KNOW))
        assert Hasher.hash(copied) == before[1]
    assert Hasher.hash(make(cue_marker="keep")) != before[1]


FRESH_PROCESS = """
import json
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import AutoTokenizer

folder, data, expected, again = sys.argv[1:]
expected = json.loads(expected)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
assert type(tokenizer).__module__.startswith("transformers_modules"), type(tokenizer).__module__
assert tokenizer.is_fast and tokenizer.cue_marker == "drop"
fingerprint = Hasher.hash(tokenizer)
rows = Dataset.load_from_disk(data)
mapped = rows.map(lambda batch: tokenizer(batch["text"], truncation=True, max_length=64), batched=True)
assert {name: mapped[name][:] for name in expected} == expected
assert Hasher.hash(tokenizer) == fingerprint
print(fingerprint, mapped._fingerprint)

if again != "-":  # the second generation, and another setting
    tokenizer.save_pretrained(again)
    second = AutoTokenizer.from_pretrained(again, trust_remote_code=True)
    assert dict(second(rows["text"][:])) == expected
    kept = AutoTokenizer.from_pretrained(again, trust_remote_code=True, cue_marker="keep")
    assert kept.cue_marker == "keep" and "[CUE]" in kept.tokenize(rows["text"][0])
"""


@pytest.mark.slow(
    reason="a process of its own; tests/hub/test_round_trip.py loads a tokenizer of every family like this"
)
def test_loads_where_the_package_is_not_installed(backbones, tmp_path):
    tokenizer = OaXLNetTokenizer.from_backbone(backbones["unigram"], cue_marker="drop")
    folder, data, again = tmp_path / "folder", tmp_path / "data", tmp_path / "again"
    Dataset.from_dict({"text": [KNOW, NOR, "no"]}).save_to_disk(data)
    tokenizer.save_pretrained(folder)
    for checkpoint in (folder, again):
        BertConfig().save_pretrained(checkpoint)
    expected = json.dumps(dict(tokenizer([KNOW, NOR, "no"])))
    said = []
    for second_generation in (again, "-"):
        result = run_fresh(FRESH_PROCESS, tmp_path, folder, data, expected, second_generation)
        assert result.returncode == 0, result.stderr
        said.append(result.stdout.split())
    assert said[0] == said[1]
    code = {"cue_markers.py", "tokenization_local_attention.py", "tokenization_oa_xlnet.py", "tokenizer_checks.py"}
    assert code == {path.name for path in again.glob("*.py")}
