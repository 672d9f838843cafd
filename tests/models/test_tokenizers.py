"""What the tokenizer of every family owes: it encodes like the backbone's, with one more value for each token."""

import copy
import pickle

import pytest
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import AutoTokenizer, DataCollatorForTokenClassification, DataCollatorWithPadding, RobertaTokenizer

from hf_localattn.registry import FAMILIES
from tests.models.tokenizers import FAMILIES_WITH_TOKENIZERS, KINDS, backbone_of, roberta_of, rows, wrap

CAT, DOG, TOWN = "The cat sleeps.", "A small dog saw the red house.", "Birds fly over the old town."
TEXTS = [CAT, DOG, "", f"{TOWN} {CAT}"]
every_family = pytest.mark.parametrize("name", FAMILIES_WITH_TOKENIZERS)


@pytest.fixture(params=KINDS)
def backbone(request):
    return copy.deepcopy(backbone_of(request.param))


@pytest.fixture(params=FAMILIES_WITH_TOKENIZERS)
def name(request):
    return request.param


@pytest.fixture
def own(name):
    return FAMILIES[name].tokenizer.OWN_INPUTS


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
@pytest.mark.parametrize("multiple", [None, 16])
def test_padding_later_is_padding_in_the_call(tokenizer, own, side, multiple):
    options = {"padding": True, "padding_side": side, "pad_to_multiple_of": multiple, "return_tensors": "pt"}
    in_call, later = tokenizer(TEXTS, **options), tokenizer.pad(tokenizer(TEXTS), **options)
    assert all(torch.equal(later[key], in_call[key]) and in_call[key].dtype == torch.int64 for key in in_call)
    fixed = {"padding": "max_length", "max_length": 33, "padding_side": side}
    expected = tokenizer([CAT, DOG], **fixed, return_tensors="pt")
    features = [{key: torch.tensor(value) for key, value in tokenizer(text).items()} for text in (CAT, DOG)]
    again, single = tokenizer.pad(features, **fixed), tokenizer.pad(tokenizer(CAT), **fixed)
    for key, pad in own.items():
        assert torch.equal(again[key], expected[key])
        assert single[key] == expected[key][0].tolist()
        assert (in_call[key][in_call["attention_mask"] == 0] == pad).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_collators_pad(tokenizer, own, side):
    tokenizer.padding_side = side
    expected = tokenizer([CAT, DOG], padding=True, return_tensors="pt")
    features = [dict(tokenizer(text)) for text in (CAT, DOG)]
    labeled = [{**feature, "labels": feature["input_ids"]} for feature in features]
    for batch in (
        DataCollatorWithPadding(tokenizer)(features),
        DataCollatorForTokenClassification(tokenizer)(labeled),
    ):
        assert all(torch.equal(batch[key], expected[key]) for key in own)


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
    with pytest.raises(ValueError, match="too short"):
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


VALUES = {
    "sla-bert": [{"words": "whitespace"}, {"shuffle_trees": True}, {"open_punctuation": True}],
    "oa-xlnet": [{"cue_marker": "drop"}, {"cue_marker": "typed"}, {"query_segment": "second"}, {"random_query": True}],
}
WRONG = {
    "sla-bert": {"words": "spaces", "shuffle_trees": "yes", "open_punctuation": "yes", "parser": 3},
    "oa-xlnet": {"cue_marker": "", "query_segment": None, "random_query": "no"},
}


@pytest.mark.parametrize(("name", "settings"), [(name, values) for name, lists in VALUES.items() for values in lists])
def test_settings_are_saved(name, settings, tmp_path):
    usual, tokenizer = wrap(name, "bytes"), wrap(name, "bytes", **settings)
    ((setting, value),) = settings.items()
    assert Hasher.hash(tokenizer) != Hasher.hash(usual)
    tokenizer(CAT, truncation=True, max_length=3, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    parser = {"parser": tokenizer.parser} if "parser" in tokenizer.SETTINGS else {}
    loaded = type(tokenizer).from_pretrained(tmp_path, **parser)
    assert getattr(loaded, setting) == value != getattr(usual, setting)
    assert {one: getattr(loaded, one) for one in tokenizer.SETTINGS} == {
        one: getattr(tokenizer, one) for one in tokenizer.SETTINGS
    }
    assert loaded.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert loaded.special_tokens_map == tokenizer.special_tokens_map
    assert loaded.model_input_names == tokenizer.model_input_names
    text = f"[CUE] {CAT}"
    assert dict(loaded(text, DOG)) == dict(tokenizer(text, DOG))
    back = type(tokenizer).from_pretrained(tmp_path, **parser, **{setting: getattr(usual, setting)})
    assert dict(back(text)) == dict(wrap(name, tokenizer, **{setting: getattr(usual, setting)})(text))
    assert dict(back(text)) == dict(usual(text))


@pytest.mark.parametrize(
    ("name", "setting", "value"), [(name, *item) for name, values in WRONG.items() for item in values.items()]
)
def test_wrong_settings_are_refused(name, setting, value):
    with pytest.raises(ValueError, match=f"`{setting}` is {value!r}"):
        wrap(name, "wordpiece", **{setting: value})
    with pytest.raises(ValueError, match=f"'{setting[:-1]}'.*{setting}"):
        wrap(name, "wordpiece", **{setting[:-1]: value})


@every_family
def test_the_settings_are_those_of_the_class_and_slow_tokenizers_are_refused(name):
    assert {*VALUES, *WRONG} == {*FAMILIES_WITH_TOKENIZERS}
    assert {*WRONG[name]} == {*FAMILIES[name].tokenizer.SETTINGS}
    with pytest.raises(ValueError, match="slow"):
        wrap(name, type("Slow", (), {"is_fast": False})())


@every_family
def test_a_blank_before_the_first_word_counts_as_the_backbone_does(name, tmp_path):
    """Whether it was set when the backbone was built, later, or when a checkpoint is loaded."""
    plain, blank, later = roberta_of(), roberta_of(add_prefix_space=True), copy.deepcopy(roberta_of())
    later.backend_tokenizer.pre_tokenizer.add_prefix_space = True

    def ids(tokenizer):
        return tokenizer(CAT.split(), is_split_into_words=True)["input_ids"]

    assert isinstance(plain, RobertaTokenizer)
    assert ids(wrap(name, plain)) == ids(plain) != ids(blank)
    for backbone in (blank, later):
        made = wrap(name, backbone)
        assert made.add_prefix_space
        assert ids(made) == ids(blank)
    wrap(name, plain).save_pretrained(tmp_path / "first")
    parser = {"parser": None} if name == "sla-bert" else {}
    loaded = AutoTokenizer.from_pretrained(tmp_path / "first", add_prefix_space=True, **parser)
    loaded.save_pretrained(tmp_path / "second")
    again = AutoTokenizer.from_pretrained(tmp_path / "second", **parser)
    assert ids(loaded) == ids(again) == ids(blank)
