"""What the tokenizer of every family owes: it encodes like the backbone's, with one more value for each token."""

import copy
import json
import pickle
from functools import cache
from typing import get_args

import pytest
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer
from transformers import (
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    RobertaTokenizer,
    XLNetTokenizer,
)

from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.tiny_parser import SENTENCES, tiny_parser

CAT, DOG, TOWN = "The cat sleeps.", "A small dog saw the red house.", "Birds fly over the old town."
LEARNED = [
    *(" ".join(words.split()) for words, _ in SENTENCES["en"]),
    *("I do not know.", "Neither a saint nor a sinner, it is infrequent", "Nobody knows why it never rains here .")
    * 3,
]
TOKENIZERS = {name: family.tokenizer for name, family in FAMILIES.items() if family.tokenizer is not None}


@cache
def roberta_of(**options):
    """A byte-level tokenizer."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(LEARNED, vocab_size=320, special_tokens=special, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    return RobertaTokenizer(model["vocab"], list(map(tuple, model["merges"])), model_max_length=64, **options)


def _unigram():
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    trained = SentencePieceUnigramTokenizer()
    trained.train_from_iterator(LEARNED, vocab_size=90, special_tokens=special, unk_token="<unk>", show_progress=False)
    pieces = json.loads(trained.to_str())["model"]["vocab"]
    return XLNetTokenizer(list(map(tuple, pieces)), model_max_length=64)


KINDS = {
    "wordpiece": lambda: AutoTokenizer.from_pretrained(tiny_backbone()),
    # Adds a space before texts and words, as stock scripts set it for words that are split.
    "bytes": lambda: roberta_of(add_prefix_space=True),
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


every_family = pytest.mark.parametrize("name", TOKENIZERS)


@pytest.fixture(params=KINDS)
def backbone(request):
    return copy.deepcopy(backbone_of(request.param))


@pytest.fixture(params=TOKENIZERS)
def name(request):
    return request.param


@pytest.fixture
def own(name):
    return TOKENIZERS[name].OWN_INPUTS


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
    {"padding": True},
    {"padding": "max_length", "max_length": 90, "padding_side": "left"},
    {"padding": True, "pad_to_multiple_of": 8, "return_special_tokens_mask": True, "return_offsets_mapping": True},
    {"truncation": True, "max_length": 13, "stride": 1, "return_overflowing_tokens": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_encodes_as_the_backbone(backbone, tokenizer, own, call, options):
    encoded, expected = tokenizer(*call, **options), backbone(*call, **options)
    assert {key: value for key, value in encoded.items() if key not in own} == dict(expected)
    assert (encoded.word_ids(), encoded.sequence_ids()) == (expected.word_ids(), expected.sequence_ids())
    for key in own:
        assert [len(row) for row in rows(encoded, key)] == [len(row) for row in rows(encoded)]
        assert all(isinstance(value, int) for row in rows(encoded, key) for value in row)


def test_a_batch_is_its_rows(tokenizer):
    texts, seconds = [CAT, "", DOG], [TOWN, CAT, "It rains."]
    batch = tokenizer(texts, seconds)
    for row, pair in enumerate(zip(texts, seconds, strict=True)):
        assert {key: value[row] for key, value in batch.items()} == dict(tokenizer(*pair))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_later_is_padding_in_the_call(tokenizer, own, side):
    texts = [CAT, DOG, "", f"{TOWN} {CAT}"]
    for multiple in (None, 16):
        options = {"padding": True, "padding_side": side, "pad_to_multiple_of": multiple, "return_tensors": "pt"}
        in_call, later = tokenizer(texts, **options), tokenizer.pad(tokenizer(texts), **options)
        assert all(torch.equal(later[key], in_call[key]) and in_call[key].dtype == torch.int64 for key in in_call)
    fixed = {"padding": "max_length", "max_length": 33, "padding_side": side}
    assert dict(tokenizer.pad(tokenizer(CAT), **fixed)) == dict(tokenizer(CAT, **fixed))
    features = [{key: torch.tensor(value) for key, value in tokenizer(text).items()} for text in (CAT, DOG)]
    again, expected = tokenizer.pad(features, **fixed), tokenizer([CAT, DOG], **fixed, return_tensors="pt")
    tokenizer.padding_side = side
    features = [{**tokenizer(text), "labels": tokenizer(text)["input_ids"]} for text in texts]
    collated = DataCollatorForTokenClassification(tokenizer, pad_to_multiple_of=16)(features)
    for key, pad in own.items():
        assert torch.equal(again[key], expected[key])
        assert torch.equal(collated[key], in_call[key])
        assert (in_call[key][in_call["attention_mask"] == 0] == pad).all()


def test_the_backbone_stays_as_it_was_and_leaves_no_trace(name, backbone):
    fresh = wrap(name, backbone)
    before = backbone.backend_tokenizer.to_str(), list(backbone.model_input_names)
    fresh.add_tokens(["unheard-of"])
    fresh.add_special_tokens({"cls_token": "[FIRST]"})
    assert (backbone.backend_tokenizer.to_str(), backbone.model_input_names) == before
    fresh = wrap(name, backbone)
    backbone(CAT, truncation=True, max_length=5, padding="max_length")
    assert Hasher.hash(wrap(name, backbone)) == Hasher.hash(fresh)


def test_takes_over_what_the_backbone_is(name, backbone, own, tmp_path):
    backbone.padding_side, backbone.truncation_side, backbone.model_max_length = "left", "left", 17
    backbone.add_special_tokens({"extra_special_tokens": ["[EXTRA]"]}, replace_extra_special_tokens=False)
    backbone(CAT, truncation=True, padding="max_length")  # changes the backbone's backend
    made = wrap(name, backbone)
    assert made.is_fast
    assert set(backbone.all_special_ids) <= set(made.all_special_ids)
    assert (made.padding_side, made.truncation_side, made.model_max_length) == ("left", "left", 17)
    assert made.model_input_names == [*backbone.model_input_names, *own]
    text = f"{DOG} [EXTRA] {backbone.mask_token}"
    assert made(text, truncation=True)["input_ids"] == backbone(text, truncation=True)["input_ids"]
    backbone(CAT, truncation=True, max_length=5)
    backbone.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.init_kwargs["max_length"] == 5  # saved in the file, as by sentence-transformers; calls ignore it
    assert "max_length" not in wrap(name, loaded).init_kwargs


def test_calls_leave_no_trace_and_copies_work(tokenizer):
    before, expected = (pickle.dumps(tokenizer), Hasher.hash(tokenizer)), dict(tokenizer(CAT, DOG))
    tokenizer([CAT, DOG], truncation=True, max_length=5, padding=True)
    tokenizer("It rains. " * 200)  # over the model's length: a warning, once
    DataCollatorWithPadding(tokenizer)([dict(tokenizer(CAT))])
    with pytest.raises(ValueError, match=r"`text`.* too short"):
        tokenizer(CAT, DOG * 9, truncation="only_first", max_length=20)
    assert (pickle.dumps(tokenizer), Hasher.hash(tokenizer)) == before
    for copied in (copy.deepcopy(tokenizer), pickle.loads(before[0])):
        assert dict(copied(CAT, DOG)) == expected
        assert Hasher.hash(copied) == before[1]


@every_family
def test_map_finds_its_cache(name, tmp_path):
    tokenizer, calls = wrap(name, "wordpiece"), tmp_path / "calls"
    Dataset.from_dict({"text": [CAT, DOG, TOWN]}).save_to_disk(tmp_path / "data")

    def tokenize(batch):
        with calls.open("a") as stream:
            stream.write("x")
        return tokenizer(batch["text"], truncation=True, max_length=8)

    first, second = (Dataset.load_from_disk(tmp_path / "data").map(tokenize, batched=True) for _ in range(2))
    assert first[:] == second[:]
    assert calls.read_text() == "x"


EVERY_SETTING = [(name, setting) for name, made in TOKENIZERS.items() for setting in made.SETTINGS]
OTHER_VALUES = [
    (name, setting, value)
    for name, setting in EVERY_SETTING
    for value in get_args(TOKENIZERS[name].SETTINGS[setting]) or (True,)
    if setting != "parser" and value != getattr(wrap(name, "wordpiece"), setting)
]


@pytest.mark.parametrize(("name", "setting", "value"), OTHER_VALUES)
def test_settings_are_saved(name, setting, value, tmp_path):
    usual, tokenizer = wrap(name, "bytes"), wrap(name, "bytes", **{setting: value})
    assert Hasher.hash(tokenizer) != Hasher.hash(usual)
    tokenizer(CAT, truncation=True, max_length=3, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    given = {"parser": tokenizer.parser} if "parser" in tokenizer.SETTINGS else {}  # a folder: no checkpoint's choice
    loaded = type(tokenizer).from_pretrained(tmp_path, **given)
    for one in tokenizer.SETTINGS:
        assert getattr(loaded, one) == getattr(tokenizer, one) == (value if one == setting else getattr(usual, one))
    assert loaded.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert loaded.special_tokens_map == tokenizer.special_tokens_map
    assert loaded.model_input_names == tokenizer.model_input_names
    text = f"[CUE] {CAT}"
    assert dict(loaded(text, DOG)) == dict(tokenizer(text, DOG))
    back = {setting: getattr(usual, setting)}
    for one in (type(tokenizer).from_pretrained(tmp_path, **given, **back), wrap(name, tokenizer, **back)):
        assert dict(one(text)) == dict(usual(text))


@pytest.mark.parametrize(("name", "setting"), EVERY_SETTING)
def test_wrong_settings_are_refused(name, setting):
    for given in (setting, setting[:-1]):
        with pytest.raises(ValueError, match=setting):
            wrap(name, "wordpiece", **{given: 3})


@every_family
def test_slow_tokenizers_are_refused(name):
    with pytest.raises(ValueError, match="slow"):
        wrap(name, type("Slow", (), {"is_fast": False})())


@every_family
def test_a_blank_before_the_first_word_counts_as_the_backbone_does(name, tmp_path):
    """Whether it was set when the backbone was built, later, or when a checkpoint is loaded."""
    plain, blank, later = roberta_of(), roberta_of(add_prefix_space=True), copy.deepcopy(roberta_of())
    later.backend_tokenizer.pre_tokenizer.add_prefix_space = True

    def ids(tokenizer):
        return tokenizer(CAT.split(), is_split_into_words=True)["input_ids"]

    assert ids(wrap(name, plain)) == ids(plain) != ids(blank)
    for backbone in (blank, later):
        made = wrap(name, backbone)
        assert made.add_prefix_space
        assert ids(made) == ids(blank)
    wrap(name, plain).save_pretrained(tmp_path / "first")
    parser = {"parser": None} if "parser" in TOKENIZERS[name].SETTINGS else {}
    loaded = AutoTokenizer.from_pretrained(tmp_path / "first", add_prefix_space=True, **parser)
    loaded.save_pretrained(tmp_path / "second")
    again = AutoTokenizer.from_pretrained(tmp_path / "second", **parser)
    assert ids(loaded) == ids(again) == ids(blank)
