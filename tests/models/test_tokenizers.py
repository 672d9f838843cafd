"""What the tokenizer of every family owes: it encodes like the backbone's, with one more value for each token."""

import copy
import pickle
from functools import cache
from string import ascii_letters, punctuation

import pytest
import torch
from datasets.fingerprint import Hasher
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer, DataCollatorForTokenClassification, RobertaTokenizer, XLNetTokenizer

from hf_localattn.families import FAMILIES
from hf_localattn.models.fields import values_of
from hf_localattn.resources import tiny_backbone
from tests.tiny_parser import tiny_parser

CAT, DOG, TOWN = "The cat sleeps.", "A small dog saw the red house.", "Birds fly over the old town."
TOKENIZERS = {name: family.tokenizer for name, family in FAMILIES.items() if family.tokenizer is not None}


def roberta_of(**options):
    """A tokenizer of bytes."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet()), "th", "the", "Ġthe", "at"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return RobertaTokenizer(vocabulary, [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "t")], **options)


def _unigram():
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    pieces = [*special, "▁", "▁the", "at", "not", *ascii_letters, *punctuation]
    return XLNetTokenizer([(piece, -1.0) for piece in pieces], model_max_length=64)


KINDS = {
    "wordpiece": lambda: AutoTokenizer.from_pretrained(tiny_backbone()),
    # Adds a space before texts and words, as stock scripts set it for words that are split.
    "bytes": lambda: roberta_of(add_prefix_space=True, model_max_length=64),
    "unigram": _unigram,  # pads on the left
}
backbone_of = cache(lambda kind: KINDS[kind]())


def wrap(name, backbone, **settings):
    """Return a family's tokenizer on a backbone's, or on one of `KINDS`."""
    backbone = backbone_of(backbone) if isinstance(backbone, str) else backbone
    parser = {"parser": tiny_parser()} if "parser" in TOKENIZERS[name].SETTINGS else {}
    return TOKENIZERS[name].from_backbone(backbone, **{**parser, **settings})


def rows(encoded, key="input_ids"):
    """The rows of a column as lists, also those of a single text or of tensors."""
    values = encoded[key].tolist() if torch.is_tensor(encoded[key]) else encoded[key]
    return values if values and isinstance(values[0], list) else [values]


@pytest.fixture(params=KINDS)
def backbone(request):
    return copy.deepcopy(backbone_of(request.param))


@pytest.fixture(params=TOKENIZERS)
def name(request):
    return request.param


@pytest.fixture
def tokenizer(name, backbone):
    return wrap(name, backbone)


CALLS = {
    "text": (CAT,),
    "pair": (CAT, DOG),
    "batch": ([CAT, DOG, ""],),
    "pairs": ([CAT, DOG], [TOWN, CAT]),
    "tuples": ([(CAT, DOG), (TOWN, "")],),
}
OPTIONS = [
    {},
    {"add_special_tokens": False},
    {"truncation": True, "max_length": 12},
    {"padding": "max_length", "max_length": 90, "padding_side": "left"},
    {"padding": True, "pad_to_multiple_of": 8, "return_special_tokens_mask": True, "return_offsets_mapping": True},
    {"truncation": True, "max_length": 13, "stride": 1, "return_overflowing_tokens": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_encodes_as_the_backbone(backbone, tokenizer, call, options):
    encoded, expected = tokenizer(*call, **options), backbone(*call, **options)
    assert {key: value for key, value in encoded.items() if key not in tokenizer.OWN_INPUTS} == dict(expected)
    assert (encoded.word_ids(), encoded.sequence_ids()) == (expected.word_ids(), expected.sequence_ids())
    for key in tokenizer.OWN_INPUTS:
        assert [len(row) for row in rows(encoded, key)] == [len(row) for row in rows(encoded)]
        assert all(isinstance(value, int) for row in rows(encoded, key) for value in row)


@pytest.mark.parametrize("split", [False, True], ids=["texts", "words"])
def test_a_batch_is_its_rows(tokenizer, split):
    pairs = [(f"[CUE] {CAT}", DOG), (TOWN, f"{CAT} not"), (DOG, "so [CUE] not")]
    pairs = [tuple(text.split() for text in pair) for pair in pairs] if split else pairs
    options = {"is_split_into_words": split, "return_offsets_mapping": True}
    for call in ((pairs,), map(list, zip(*pairs, strict=True))):
        batch = tokenizer(*call, **options)
        for row, pair in enumerate(pairs):
            alone = tokenizer(*pair, **options)
            assert {key: values[row] for key, values in batch.items()} == dict(alone)
            assert batch.word_ids(row) == alone.word_ids()


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_later_is_padding_in_the_call(tokenizer, side):
    texts = [CAT, DOG, "", f"{TOWN} {CAT}"]
    for multiple in (None, 16):
        options = {"padding": True, "padding_side": side, "pad_to_multiple_of": multiple, "return_tensors": "pt"}
        in_call, later = tokenizer(texts, **options), tokenizer.pad(tokenizer(texts), **options)
        assert all(torch.equal(later[key], in_call[key]) and in_call[key].dtype == torch.int64 for key in in_call)
    tokenizer.padding_side = side
    features = [{**tokenizer(text), "labels": tokenizer(text)["input_ids"]} for text in texts]
    collated = DataCollatorForTokenClassification(tokenizer, pad_to_multiple_of=16)(features)
    for key, pad in tokenizer.OWN_INPUTS.items():
        assert torch.equal(collated[key], in_call[key])
        assert (in_call[key][in_call["attention_mask"] == 0] == pad).all()


def test_takes_over_what_the_backbone_is_and_leaves_it_alone(name, backbone, tmp_path):
    backbone.padding_side, backbone.truncation_side, backbone.model_max_length = "left", "left", 17
    backbone.add_special_tokens({"extra_special_tokens": ["[EXTRA]"]}, replace_extra_special_tokens=False)
    made, before = wrap(name, backbone), (backbone.backend_tokenizer.to_str(), list(backbone.model_input_names))
    assert set(backbone.all_special_ids) <= set(made.all_special_ids)
    assert (made.padding_side, made.truncation_side, made.model_max_length) == ("left", "left", 17)
    assert made.model_input_names == [*backbone.model_input_names, *made.OWN_INPUTS]
    text = f"{DOG} [EXTRA] {backbone.mask_token}"
    assert made(text, truncation=True)["input_ids"] == backbone(text, truncation=True)["input_ids"]
    backbone(CAT, truncation=True, max_length=5, padding="max_length")  # changes the backbone's backend
    assert Hasher.hash(wrap(name, backbone)) == Hasher.hash(made)
    backbone.save_pretrained(tmp_path)  # with the length of the call, as sentence-transformers does
    loaded = wrap(name, AutoTokenizer.from_pretrained(tmp_path))
    assert "max_length" not in loaded.init_kwargs
    loaded.add_tokens(["unheard-of"])
    backbone.backend_tokenizer.no_truncation()
    backbone.backend_tokenizer.no_padding()
    made.add_special_tokens({"cls_token": "[FIRST]"})
    assert (backbone.backend_tokenizer.to_str(), backbone.model_input_names) == before


def test_calls_leave_no_trace_and_copies_work(tokenizer):
    """`datasets` finds the results of a `map` by the hash."""
    before, expected = (pickle.dumps(tokenizer), Hasher.hash(tokenizer)), dict(tokenizer(CAT, DOG))
    tokenizer([CAT, DOG], truncation=True, max_length=5, padding=True)
    tokenizer("It rains. " * 200)  # over the model's length: a warning, once
    tokenizer.pad([dict(tokenizer(CAT))], padding=True)
    with pytest.raises(ValueError, match=r"`text`.* too short"):
        tokenizer(CAT, DOG * 9, truncation="only_first", max_length=20)
    assert (pickle.dumps(tokenizer), Hasher.hash(tokenizer)) == before
    for copied in (copy.deepcopy(tokenizer), pickle.loads(before[0])):
        assert dict(copied(CAT, DOG)) == expected
        assert Hasher.hash(copied) == before[1]


EVERY_SETTING = [(name, setting) for name, made in TOKENIZERS.items() for setting in made.SETTINGS]
OTHER_VALUES = [
    (name, setting, value)
    for name, setting in EVERY_SETTING
    for value in values_of(TOKENIZERS[name].SETTINGS[setting]) or (True,)
    if setting != "parser" and value != getattr(wrap(name, "wordpiece"), setting)
]


@pytest.mark.parametrize(("name", "setting", "value"), OTHER_VALUES)
def test_settings_are_saved_and_can_be_taken_back(name, setting, value, tmp_path):
    usual, tokenizer, text = wrap(name, "bytes"), wrap(name, "bytes", **{setting: value}), f"[CUE] {CAT}"
    assert Hasher.hash(tokenizer) != Hasher.hash(usual)
    tokenizer.save_pretrained(tmp_path)
    given = {"parser": tokenizer.parser} if "parser" in tokenizer.SETTINGS else {}  # a folder: no checkpoint's choice
    loaded = type(tokenizer).from_pretrained(tmp_path, **given)
    assert getattr(loaded, setting) == value
    assert loaded.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert loaded.special_tokens_map == tokenizer.special_tokens_map
    assert dict(loaded(text, DOG)) == dict(tokenizer(text, DOG))
    back = {setting: getattr(usual, setting)}
    for one in (type(tokenizer).from_pretrained(tmp_path, **given, **back), wrap(name, tokenizer, **back)):
        assert dict(one(text)) == dict(usual(text))


ALONE = [row for row in OTHER_VALUES if row[1] != "random_query"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "setting", "value"), ALONE)
def test_windows_have_the_values_of_the_whole_text(name, setting, value, kind):
    tokenizer = wrap(name, kind, **{setting: value})
    text = f"[CUE] Neither you [CUE] nor I. {DOG * 8} I do [CUE] not know."
    options = {"truncation": True, "max_length": 20, "stride": 3, "return_overflowing_tokens": True}
    whole, windows = tokenizer(text), tokenizer([CAT, text], **options)
    key = next(iter(tokenizer.OWN_INPUTS))

    def values(encoding, row):  # a window may begin with a blank, which then is of no word and has no width
        return {(end, value) for (_, end), value in zip(encoding.offsets, row, strict=True) if value != -1}

    first, *others = map(values, windows.encodings, windows[key])
    assert first == values(tokenizer(CAT).encodings[0], tokenizer(CAT)[key])
    assert len(others) > 2
    assert set().union(*others) == values(whole.encodings[0], whole[key])


@pytest.mark.parametrize(("name", "setting"), EVERY_SETTING)
def test_wrong_settings_and_slow_tokenizers_are_refused(name, setting):
    for given in (setting, setting[:-1]):
        with pytest.raises(ValueError, match=setting):
            wrap(name, "wordpiece", **{given: 3})
    with pytest.raises(ValueError, match="slow"):
        wrap(name, type("Slow", (), {"is_fast": False})())


def test_a_blank_before_the_first_word_can_be_asked_for_later(name, tmp_path):
    """Where the backbone is built, its tokens have it as in `test_encodes_as_the_backbone`."""
    plain, blank, later = roberta_of(), roberta_of(add_prefix_space=True), roberta_of()
    later.backend_tokenizer.pre_tokenizer.add_prefix_space = True
    wrap(name, plain).save_pretrained(tmp_path)
    parser = {"parser": None} if "parser" in TOKENIZERS[name].SETTINGS else {}
    AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True, **parser).save_pretrained(tmp_path)
    expected, other = (one(CAT)["input_ids"] for one in (blank, plain))
    assert wrap(name, plain)(CAT)["input_ids"] == other != expected
    for one in (wrap(name, later), AutoTokenizer.from_pretrained(tmp_path, **parser)):
        assert one(CAT)["input_ids"] == expected
