"""`SlaBertTokenizer`: encodes like the backbone's tokenizer, and returns each token's word and the word's head."""

import copy
import json

import pytest
import torch
from datasets.fingerprint import Hasher
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    RobertaTokenizer,
)

from hf_localattn.models import sla_parser
from hf_localattn.models.sla_masks import without_open_keys
from hf_localattn.models.sla_parser import load_pipeline
from hf_localattn.models.tokenization_sla_bert import SlaBertTokenizer
from hf_localattn.resources import tiny_backbone
from tests.models.test_sla_masks import syntax_mask
from tests.parsers import tiny_parser
from tests.reference import sla as reference
from tests.tiny_parser import SENTENCES

CAT, DOG, TOWN = "The cat sleeps.", "A small dog saw the red house.", "Birds fly over the old town."
KEYS = ("word_index", "dep_heads")


@pytest.fixture(scope="session")
def backbones():
    text = [" ".join(words.split()) for words, _ in SENTENCES["en"]]
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(text, vocab_size=320, special_tokens=special, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    roberta = RobertaTokenizer(model["vocab"], [tuple(merge) for merge in model["merges"]], model_max_length=64)
    return {"wordpiece": AutoTokenizer.from_pretrained(tiny_backbone()), "bytes": roberta}


@pytest.fixture(params=["wordpiece", "bytes"])
def backbone(request, backbones):
    return copy.deepcopy(backbones[request.param])


@pytest.fixture
def tokenizer(backbone):
    return SlaBertTokenizer.from_backbone(backbone, parser=tiny_parser())


@pytest.fixture
def wordpiece(backbones):
    return SlaBertTokenizer.from_backbone(backbones["wordpiece"], parser=tiny_parser())


@pytest.fixture(autouse=True)
def _nothing_parsed():
    sla_parser._cache.clear()


@pytest.fixture
def parsed(monkeypatch):
    """Record the texts that the tiny pipeline parses, one list per call of `pipe`."""
    pipeline = load_pipeline(tiny_parser())
    calls, pipe = [], pipeline.pipe

    def counting(texts):
        calls.append(list(texts))
        return pipe(calls[-1])

    monkeypatch.setattr(pipeline, "pipe", counting)
    return calls


@pytest.mark.parametrize("threshold", [1, 3])
def test_open_punctuation_makes_the_masks_of_the_authors_code(wordpiece, threshold):
    given = ["The", "small", "dog", ",", "who", "sees", "a", "(red)", "house", ",", "sleeps."]
    heads = [2, 2, 10, 2, 5, 2, 8, 8, 5, 2, 10]
    tokenizer = SlaBertTokenizer.from_backbone(wordpiece, open_punctuation=True)
    encoded = tokenizer(given, is_split_into_words=True, heads=heads, return_tensors="pt")
    tokens, words = encoded.tokens(), encoded.word_ids()[1:-1]
    assert tokens.count(",") == 2
    assert "(" in tokens
    expected = reference.authors_mask(tokens, words, heads, threshold)
    assert syntax_mask(*(encoded[key] for key in KEYS), threshold=threshold)[0].tolist() == expected
    closed = wordpiece(given, is_split_into_words=True, heads=heads, return_tensors="pt")
    assert syntax_mask(*(closed[key] for key in KEYS), threshold=threshold)[0].tolist() != expected
    assert torch.equal(without_open_keys(encoded["word_index"])[0], closed["word_index"])
    assert torch.equal(encoded["dep_heads"], closed["dep_heads"])


def test_open_punctuation_is_saved_and_off_by_default(tokenizer, tmp_path):
    assert tokenizer.init_kwargs["open_punctuation"] is False
    assert min(tokenizer(CAT)["word_index"]) == -1
    opened = SlaBertTokenizer.from_backbone(tokenizer, open_punctuation=True)
    opened.save_pretrained(tmp_path)
    again = SlaBertTokenizer.from_pretrained(tmp_path, parser=tiny_parser())
    assert again(CAT)["word_index"] == opened(CAT)["word_index"]
    assert [
        again.convert_ids_to_tokens(one)
        for one, word in zip(again(CAT)["input_ids"], again(CAT)["word_index"], strict=True)
        if word < -1
    ] == ["."]
    assert SlaBertTokenizer.from_backbone(opened, open_punctuation=False)(CAT) == tokenizer(CAT)
    with pytest.raises(ValueError, match="`open_punctuation` is 'yes'; it must be true or false"):
        SlaBertTokenizer.from_backbone(tokenizer, open_punctuation="yes")


def words(encoded, *texts, row=0):
    """Return (text of its tokens, text of its head's tokens) for each word of the row."""
    encoding = encoded.encodings[row]
    word_index, dep_heads = (
        encoded[key] if row is None or not is_batch(encoded) else encoded[key][row] for key in KEYS
    )
    written = {}
    for place, (word, segment) in enumerate(zip(word_index, encoding.sequence_ids, strict=True)):
        if word != -1:
            begin, end = encoding.offsets[place]
            written[word] = written.get(word, "") + texts[segment][begin:end].strip()
    pairs = {
        word: (written[word], written[word_index[head]])
        for word, head in zip(word_index, dep_heads, strict=True)
        if word != -1
    }
    assert list(pairs) == sorted(pairs)
    return list(pairs.values())


def is_batch(encoded):
    return isinstance(encoded["input_ids"][0], list)


def check(word_index, dep_heads, encoding):
    """Check properties of every sequence."""
    first = {}
    sequence_ids = encoding.sequence_ids
    for place, (word, head, segment) in enumerate(zip(word_index, dep_heads, sequence_ids, strict=True)):
        assert (word == -1) == (head == -1)
        assert word == -1 or segment is not None
        if word != -1:
            first.setdefault(word, (place, head))
            assert first[word][1] == head
            assert sequence_ids[head] == segment
    heads = tops = dict(first.values())
    assert set(heads.values()) <= set(heads)
    for _ in range(len(heads).bit_length()):  # each round doubles the distance
        tops = {place: tops[top] for place, top in tops.items()}
    assert all(heads[top] == top for top in tops.values())
    return len(first)


ARGUMENTS = [
    (CAT,),
    (CAT, DOG),
    ([CAT, DOG, ""],),
    ([CAT, DOG], [TOWN, CAT]),
    ([(CAT, DOG), (TOWN, "")],),
]
OPTIONS = [
    {},
    {"add_special_tokens": False},
    {"truncation": True, "max_length": 9},
    {"padding": True},
    {"padding": "max_length", "max_length": 40, "padding_side": "left"},
    {"padding": True, "pad_to_multiple_of": 8, "return_special_tokens_mask": True, "return_offsets_mapping": True},
    {"truncation": True, "max_length": 13, "stride": 2, "return_overflowing_tokens": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=["text", "pair", "batch", "pairs", "tuples"])
def test_encodes_as_the_backbone(backbone, tokenizer, arguments, options):
    encoded, expected = tokenizer(*arguments, **options), backbone(*arguments, **options)
    assert {key: value for key, value in encoded.items() if key not in KEYS} == dict(expected)
    rows = [encoded[key] if is_batch(encoded) else [encoded[key]] for key in KEYS]
    assert all(isinstance(value, int) for row in rows[0] for value in row)
    for word_index, dep_heads, encoding in zip(*rows, encoded.encodings, strict=True):
        check(word_index, dep_heads, encoding)
    assert encoded.word_ids() == expected.word_ids()


def test_the_backbone_stays_as_it_was(backbone):
    before = backbone.backend_tokenizer.to_str(), list(backbone.model_input_names)
    made = SlaBertTokenizer.from_backbone(backbone, parser=None)
    made.add_tokens(["unheard-of"])
    made.add_special_tokens({"cls_token": "[FIRST]"})
    assert (backbone.backend_tokenizer.to_str(), backbone.model_input_names) == before
    assert "unheard-of" not in backbone.get_vocab()


def test_takes_over_what_the_backbone_is(backbone):
    backbone.padding_side, backbone.truncation_side, backbone.model_max_length = "left", "left", 17
    backbone.add_special_tokens({"extra_special_tokens": ["[EXTRA]"]})
    backbone(CAT, truncation=True, padding="max_length")  # changes the backbone's backend
    made = SlaBertTokenizer.from_backbone(backbone, parser=tiny_parser())
    assert made.is_fast
    assert made.special_tokens_map == backbone.special_tokens_map
    assert made.all_special_ids == backbone.all_special_ids
    assert (made.padding_side, made.truncation_side, made.model_max_length) == ("left", "left", 17)
    assert made.model_input_names == [*backbone.model_input_names, *KEYS]
    text = f"{DOG} [EXTRA] {backbone.mask_token}"
    assert made(text, truncation=True)["input_ids"] == backbone(text, truncation=True)["input_ids"]


def test_calls_of_the_backbone_leave_no_trace_either(backbone, tmp_path):
    fresh = SlaBertTokenizer.from_backbone(backbone, parser=None)
    backbone(CAT, truncation=True, max_length=5, padding="max_length")
    used = SlaBertTokenizer.from_backbone(backbone, parser=None)
    assert Hasher.hash(used) == Hasher.hash(fresh)
    backbone.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.init_kwargs["max_length"] == 5  # saved in the file, as by sentence-transformers; calls ignore it
    assert "max_length" not in SlaBertTokenizer.from_backbone(loaded, parser=None).init_kwargs


def test_a_blank_before_the_first_word_counts_as_the_backbone_does(backbones):
    backbone = RobertaTokenizer(backbones["bytes"]._vocab, backbones["bytes"]._merges, add_prefix_space=True)
    made = SlaBertTokenizer.from_backbone(backbone, parser=tiny_parser())
    assert made.add_prefix_space
    given = {"is_split_into_words": True}
    assert made(CAT.split(), **given)["input_ids"] == backbone(CAT.split(), **given)["input_ids"]
    assert words(made(CAT), CAT) == words(
        SlaBertTokenizer.from_backbone(backbones["bytes"], parser=tiny_parser())(CAT), CAT
    )


def test_a_blank_before_the_first_word_can_be_asked_for_when_loading(backbones, tmp_path):
    backbone, first, second = backbones["bytes"], tmp_path / "first", tmp_path / "second"
    SlaBertTokenizer.from_backbone(backbone, parser=None).save_pretrained(first)
    split = CAT.split()

    def ids(folder, **settings):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True, **settings)
        tokenizer.save_pretrained(second)
        return tokenizer(split, is_split_into_words=True)["input_ids"]

    with_blanks = RobertaTokenizer(backbone._vocab, backbone._merges, add_prefix_space=True)
    expected = with_blanks(split, is_split_into_words=True)["input_ids"]
    assert ids(first) == backbone(split, is_split_into_words=True)["input_ids"] != expected
    assert ids(first, add_prefix_space=True) == expected
    assert ids(second) == expected  # saved with it


def test_a_blank_before_the_first_word_that_was_switched_on_later_counts_too(backbones):
    backbone = copy.deepcopy(backbones["bytes"])
    backbone.backend_tokenizer.pre_tokenizer.add_prefix_space = True
    made = SlaBertTokenizer.from_backbone(backbone, parser=None)
    given = {"is_split_into_words": True}
    assert made.add_prefix_space
    assert made(CAT.split(), **given)["input_ids"] == backbone(CAT.split(), **given)["input_ids"]


def test_slow_tokenizers_are_refused():
    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match=r"slow.*Load the backbone's fast tokenizer"):
        SlaBertTokenizer.from_backbone(Slow())


def test_unknown_settings_are_refused(backbone):
    with pytest.raises(ValueError, match=r"no setting 'word'; it has parser, words"):
        SlaBertTokenizer.from_backbone(backbone, word="whitespace")


def test_unknown_words_are_refused(backbone):
    with pytest.raises(ValueError, match=r"`words` is 'spaces'.*'parser', 'whitespace'"):
        SlaBertTokenizer.from_backbone(backbone, words="spaces")


def test_one_text(tokenizer):
    assert words(tokenizer(CAT), CAT) == [("The", "cat"), ("cat", "sleeps"), ("sleeps", "sleeps"), (".", "sleeps")]


def test_by_hand(wordpiece):
    """`[CLS] the cat sleep ##s . [SEP]`: both tokens of `sleeps` belong to word 2, which starts at position 3."""
    encoded = wordpiece("The cat sleeps.")
    pieces = len(wordpiece.tokenize("sleeps"))
    assert len(encoded["input_ids"]) == 5 + pieces
    assert encoded["word_index"] == [-1, 0, 1, *[2] * pieces, 3, -1]
    assert encoded["dep_heads"] == [-1, 2, 3, *[3] * pieces, 3, -1]


def test_the_second_text_counts_on(tokenizer):
    encoded = tokenizer(CAT, TOWN)
    found = words(encoded, CAT, TOWN)
    assert found[:4] == words(tokenizer(CAT), CAT)
    assert found[4:] == words(tokenizer(TOWN), TOWN)
    assert set(encoded["word_index"]) == set(range(-1, 4 + 7))


def test_several_sentences_are_several_trees(tokenizer):
    text = f"{CAT} {TOWN}"
    assert words(tokenizer(text), text) == words(tokenizer(CAT), CAT) + words(tokenizer(TOWN), TOWN)


def test_a_batch_is_its_rows(tokenizer):
    texts, seconds = [CAT, "", DOG], [TOWN, CAT, "It rains."]
    batch = tokenizer(texts, seconds)
    for row, pair in enumerate(zip(texts, seconds, strict=True)):
        assert {key: value[row] for key, value in batch.items()} == dict(tokenizer(*pair))


def test_words_of_the_parser_and_of_white_space(backbone):
    text = "She isn't  here."
    by_parser = SlaBertTokenizer.from_backbone(backbone, parser=tiny_parser())
    by_space = SlaBertTokenizer.from_backbone(by_parser, words="whitespace")
    assert by_space.parser == tiny_parser()
    assert [word for word, _ in words(by_parser(text), text)] == ["She", "is", "n't", "here", "."]
    assert [word for word, _ in words(by_space(text), text)] == ["She", "isn't", "here."]
    spaced = "The cat sleeps ."
    assert words(by_space(spaced), spaced) == words(by_parser(spaced), spaced)


@pytest.mark.parametrize("setting", ["parser", "whitespace"])
def test_given_words_stay(backbone, setting):
    tokenizer = SlaBertTokenizer.from_backbone(backbone, parser=tiny_parser(), words=setting)
    given = [["The", "cat", "sleeps", "."], ["isn't", "", "New York", "it"]]
    encoded = tokenizer(given, is_split_into_words=True)
    assert encoded["word_index"] == [
        [-1 if word is None else word for word in encoded.word_ids(row)] for row in range(2)
    ]
    word_ids = encoded.word_ids(0)
    first = [word_ids.index(word) for word in range(4)]
    heads = [1, 2, 2, 2]
    assert encoded["dep_heads"][0] == [-1 if word is None else first[heads[word]] for word in word_ids]
    check(encoded["word_index"][1], encoded["dep_heads"][1], encoded.encodings[1])
    single = tokenizer(given[0], is_split_into_words=True)
    assert [single[key] for key in KEYS] == [encoded[key][0] for key in KEYS]
    pair = tokenizer(given[0], given[1], is_split_into_words=True)
    assert [value for value in pair["word_index"] if value != -1][-1] == 4 + 3
    assert tokenizer([tuple(given)], is_split_into_words=True)["dep_heads"][0] == pair["dep_heads"]


def test_given_words_of_white_space_are_not_parsed(tokenizer):
    """They keep their indices, and the heads of the other words count them."""
    encoded = tokenizer(["", "The", "cat", " ", "sleeps", "."], is_split_into_words=True)
    word_ids = encoded.word_ids()
    heads = {1: 2, 2: 4, 3: 3, 4: 4, 5: 4}
    assert encoded["word_index"] == [-1 if word is None else word for word in word_ids]
    assert encoded["dep_heads"] == [-1 if word is None else word_ids.index(heads[word]) for word in word_ids]


def test_languages_without_spaces(wordpiece):
    tokenizer = SlaBertTokenizer.from_backbone(wordpiece, parser=tiny_parser("zh"))
    encoded = tokenizer("我看书。")
    assert words(encoded, "我看书。") == [("我", "看"), ("看", "看"), ("书", "看"), ("。", "看")]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_word_whose_head_was_cut_off_becomes_a_root(wordpiece, side):
    wordpiece.truncation_side = side
    given = {"is_split_into_words": True, "truncation": True, "max_length": 4}
    encoded = wordpiece(["a", "b", "c", "d"], heads=[3, 3, 0, 3], **given)
    kept = encoded["word_index"][1:-1]
    assert kept == ([0, 1] if side == "right" else [2, 3])
    assert encoded["dep_heads"] == [-1, 1, 2, -1]
    encoded = wordpiece(["a", "b", "c", "d"], heads=[1, 1, 3, 2 + 1], **given)
    assert encoded["dep_heads"] == ([-1, 2, 2, -1])


@pytest.mark.parametrize("strategy", ["longest_first", "only_first", "only_second"])
def test_truncated_pairs(tokenizer, strategy):
    whole = tokenizer(DOG, TOWN)
    cut = tokenizer(DOG, TOWN, truncation=strategy, max_length=len(whole["input_ids"]) - 3)
    assert check(cut["word_index"], cut["dep_heads"], cut.encodings[0]) < check(
        whole["word_index"], whole["dep_heads"], whole.encodings[0]
    )
    assert set(cut["word_index"]) < set(whole["word_index"])


@pytest.mark.parametrize("strategy", ["only_first", "only_second"])
def test_refuses_a_text_that_is_too_short_to_truncate(tokenizer, strategy):
    texts = (CAT, DOG * 9) if strategy == "only_first" else (DOG * 9, CAT)
    with pytest.raises(ValueError, match="too short"):
        tokenizer(*texts, truncation=strategy, max_length=20)


def test_windows_share_one_parse(tokenizer, parsed):
    text = f"{DOG} {TOWN} {CAT}"
    whole = tokenizer(text)
    options = {"truncation": True, "max_length": 11, "stride": 3, "return_overflowing_tokens": True}
    windows = tokenizer([CAT, text], **options, padding="max_length")
    assert [len(call) for call in parsed] == [1, 1]
    assert windows["overflow_to_sample_mapping"].count(1) >= 3
    heads_at = dict(
        zip(whole.encodings[0].offsets, zip(whole["word_index"], whole["dep_heads"], strict=True), strict=True)
    )
    for row, sample in enumerate(windows["overflow_to_sample_mapping"]):
        word_index, dep_heads, encoding = windows["word_index"][row], windows["dep_heads"][row], windows.encodings[row]
        check(word_index, dep_heads, encoding)
        for place, offsets in enumerate(encoding.offsets if sample else []):
            if word_index[place] != -1:
                word, head = heads_at[offsets]
                assert word_index[place] == word
                expected = whole["word_index"][head]
                assert word_index[dep_heads[place]] == (expected if expected in word_index else word)
    only = tokenizer(text, **options)
    assert only["word_index"] == [
        [word for word, real in zip(windows["word_index"][row], windows["attention_mask"][row], strict=True) if real]
        for row, sample in enumerate(windows["overflow_to_sample_mapping"])
        if sample
    ]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("multiple", [None, 16])
def test_padding_later_is_padding_in_the_call(tokenizer, side, multiple):
    texts = [CAT, DOG, "", f"{TOWN} {CAT}"]
    options = {"padding": True, "padding_side": side, "pad_to_multiple_of": multiple, "return_tensors": "pt"}
    expected = tokenizer(texts, **options)
    padded = tokenizer.pad(tokenizer(texts), **options)
    assert {key: value.tolist() for key, value in padded.items()} == {
        key: value.tolist() for key, value in expected.items()
    }
    features = [{key: torch.tensor(value) for key, value in tokenizer(text).items()} for text in (CAT, DOG)]
    again = tokenizer.pad(features, padding="max_length", max_length=33, padding_side=side)
    in_call = tokenizer([CAT, DOG], padding="max_length", max_length=33, padding_side=side, return_tensors="pt")
    assert all(torch.equal(again[key], in_call[key]) for key in KEYS)
    single = tokenizer.pad(tokenizer(CAT), padding="max_length", max_length=33, padding_side=side)
    assert [single[key] for key in KEYS] == [in_call[key][0].tolist() for key in KEYS]


@pytest.mark.parametrize("side", ["left", "right"])
def test_collators_pad(tokenizer, side):
    tokenizer.padding_side = side
    expected = tokenizer([CAT, DOG], padding=True, return_tensors="pt")
    features = [dict(tokenizer(text)) for text in (CAT, DOG)]
    assert all(torch.equal(DataCollatorWithPadding(tokenizer)(features)[key], expected[key]) for key in KEYS)
    labeled = [{**feature, "labels": feature["word_index"]} for feature in features]
    batch = DataCollatorForTokenClassification(tokenizer, label_pad_token_id=-1)(labeled)
    assert all(torch.equal(batch[key], expected[key]) for key in KEYS)
    assert torch.equal(batch["labels"], expected["word_index"])


def test_as_the_pipelines_call_it(tokenizer):
    encoded = tokenizer(CAT, return_tensors="pt", truncation=True)
    assert all(encoded[key].shape == encoded["input_ids"].shape and encoded[key].dtype == torch.int64 for key in KEYS)
    options = {"return_offsets_mapping": True, "return_special_tokens_mask": True, "return_overflowing_tokens": True}
    encoded = tokenizer(DOG, **options, return_tensors="pt", truncation=True, stride=1, max_length=8, padding=True)
    assert encoded["dep_heads"].shape == encoded["input_ids"].shape
    assert encoded.is_fast
    moved = encoded.to("cpu")
    assert torch.equal(moved["word_index"] == -1, encoded["special_tokens_mask"].bool())


def test_words_under_one_token_become_one(wordpiece):
    """spaCy's `can` and `not` are one token here; merging them leaves no gap in the indices."""
    assert "cannot" in wordpiece.get_vocab() or wordpiece.add_tokens(["cannot"])
    encoded = wordpiece("I cannot find my keys.")
    found = words(encoded, "I cannot find my keys.")
    assert found == [
        ("I", "find"),
        ("cannot", "find"),
        ("find", "find"),
        ("my", "keys"),
        ("keys", "find"),
        (".", "find"),
    ]
    assert max(encoded["word_index"]) == 5


def test_special_tokens_in_the_text_are_words(tokenizer):
    text = f"The {tokenizer.mask_token} sleeps."
    encoded = tokenizer(text)
    mask = encoded["input_ids"].index(tokenizer.mask_token_id)
    assert encoded["word_index"][mask] == 1
    assert [value == -1 for value in encoded["word_index"]] == [True] + [False] * (len(encoded["input_ids"]) - 2) + [
        True
    ]


ODD = {
    "": 0,
    " \n\t ": 0,
    "  It\n\nrains.  ": 3,
    "👍🏽": None,
    "It rains 👩‍👩‍👧 here": None,
    "הכלב ישן בבית": 3,
    "cafe\u0301 nai\u0308ve": 2,
    "\u200b It": None,
    "a\x00b": None,
    "It rains . " * 3334: 10_002,
}


@pytest.mark.parametrize("setting", ["parser", "whitespace"])
@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:12]))
def test_odd_texts(backbone, setting, text):
    tokenizer = SlaBertTokenizer.from_backbone(backbone, parser=tiny_parser(), words=setting)
    encoded = tokenizer(text, verbose=False)
    number = check(encoded["word_index"], encoded["dep_heads"], encoded.encodings[0])
    expected = len(text.split()) if setting == "whitespace" else ODD[text]
    if expected is not None and "\u200b" not in text:
        assert number == expected
    # No token between words may look like the border of two segments.
    inside = [word for word in encoded["word_index"] if word != -1]
    if inside:
        first = encoded["word_index"].index(inside[0])
        assert encoded["word_index"][first : first + len(inside)] == inside == sorted(inside)


def test_without_a_parser(backbone):
    tokenizer = SlaBertTokenizer.from_backbone(backbone, parser=None)
    assert tokenizer.model_input_names == [*backbone.model_input_names, "word_index"]
    encoded = tokenizer([CAT, DOG], padding=True)
    assert "dep_heads" not in encoded
    assert max(encoded["word_index"][0]) == 2
    given = tokenizer(["a", "b c"], ["d"], is_split_into_words=True)
    assert [word for word in given["word_index"] if word != -1] == [
        word + 2 * segment
        for word, segment in zip(given.word_ids(), given.sequence_ids(), strict=True)
        if word is not None
    ]
    assert "dep_heads" not in given


HEADS = [1, 2, 2, 2]


@pytest.mark.parametrize("with_parser", [True, False])
def test_ready_made_heads(backbone, parsed, with_parser):
    tokenizer = SlaBertTokenizer.from_backbone(backbone, parser=tiny_parser() if with_parser else None)
    given = {"is_split_into_words": True}
    rows = [["The", "cat", "sleeps", "."], ["a", "b"]]
    single = tokenizer(rows[0], heads=HEADS, **given)
    batch = tokenizer(rows, heads=[HEADS, [0, 0]], **given)
    pair = tokenizer(*rows, heads=HEADS, heads_pair=[0, 0], **given)
    pairs = tokenizer([tuple(rows)], heads=[HEADS], heads_pair=[[0, 0]], **given)
    assert parsed == []
    assert batch["dep_heads"][0] == single["dep_heads"]
    assert pairs["dep_heads"][0] == pair["dep_heads"]
    if with_parser:
        assert tokenizer(rows[0], **given)["dep_heads"] == single["dep_heads"]
    second = [head for head, segment in zip(pair["dep_heads"], pair.sequence_ids(), strict=True) if segment == 1]
    assert set(second) == {pair.sequence_ids().index(1)}


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((["a", "b"],), {"heads": [0]}, "`heads` of row 0 has 2 words but 1 heads"),
        (([["a"], ["b", "c"]],), {"heads": [[0], [2, 1]]}, r"`heads` of row 1, word 0 \('b'\).*root its own index"),
        (([["a"], ["b", "c"]],), {"heads": [[0], [1, 0]]}, "`heads` of row 1, word .* cycle"),
        (([["a"], ["b", "c"]],), {"heads": [[0]]}, "`heads` has 1 lists for a batch of 2"),
        ((["a"], ["b"]), {"heads": [0]}, "`heads_pair` is missing"),
        ((["a"], ["b"]), {"heads": [0], "heads_pair": [1]}, r"`heads_pair` of row 0, word 0 \('b'\)"),
        ((["a"],), {"heads": [0], "heads_pair": [0]}, "second texts, but there are none"),
    ],
)
def test_wrong_heads_are_refused(wordpiece, arguments, options, text):
    with pytest.raises(ValueError, match=text):
        wordpiece(*arguments, is_split_into_words=True, **options)


def test_heads_are_for_words(wordpiece):
    with pytest.raises(ValueError, match=r"not split into words.*is_split_into_words=True"):
        wordpiece(CAT, heads=[0])


def test_parses_what_is_new_in_one_go(tokenizer, parsed):
    tokenizer([CAT, DOG, CAT], [TOWN, CAT, ""])
    assert [len(call) for call in parsed] == [4]
    tokenizer([DOG, "It rains."])
    assert parsed[1:] == [["It rains."]]
    tokenizer([CAT, DOG, TOWN], truncation=True, max_length=5)
    tokenizer([CAT.split()], is_split_into_words=True)
    tokenizer([CAT.split()], is_split_into_words=True)
    assert len(parsed) == 3
    SlaBertTokenizer.from_backbone(tokenizer, words="whitespace")(CAT)
    assert len(parsed) == 4


def test_ids_alone_need_no_parser(tokenizer, parsed):
    assert tokenizer.encode(CAT, DOG) == tokenizer(CAT, DOG)["input_ids"]
    parsed.clear()
    assert tokenizer.tokenize(TOWN)
    tokenizer.encode(TOWN)
    assert parsed == []


def test_a_missing_pipeline_is_missed_at_the_first_text(wordpiece):
    tokenizer = SlaBertTokenizer.from_backbone(wordpiece, parser="xx_not_there")
    with pytest.raises(OSError, match=r"python -m spacy download xx_not_there"):
        tokenizer(CAT)


def test_shuffled_trees_keep_their_shape_and_come_from_the_text(tokenizer):
    shuffling = SlaBertTokenizer.from_backbone(tokenizer, shuffle_trees=True)
    text = "the old farmer saw a dog in the garden of the town and fed it"
    words, parsed, drawn = (
        own(text)[name]
        for own, name in ((tokenizer, "word_index"), (tokenizer, "dep_heads"), (shuffling, "dep_heads"))
    )
    assert drawn != parsed
    assert shuffling([CAT, text])["dep_heads"][1] == drawn, "the same in each batch"
    assert shape(words, drawn) == shape(words, parsed)
    heads = {"is_split_into_words": True, "heads": [1, 1]}
    assert shuffling(["a", "dog"], **heads)["dep_heads"] == tokenizer(["a", "dog"], **heads)["dep_heads"]


def shape(words, heads):
    """The depth and the number of children of each word, sorted."""
    first = {word: words.index(word) for word in words if word >= 0}
    parent = {place: heads[place] for place in first.values()}

    def depth(place):
        return 0 if parent[place] == place else 1 + depth(parent[place])

    return sorted((depth(place), list(parent.values()).count(place)) for place in parent)


def test_shuffle_trees_is_a_bool(wordpiece):
    with pytest.raises(ValueError, match="`shuffle_trees` is 'yes'; it must be true or false"):
        SlaBertTokenizer.from_backbone(wordpiece, shuffle_trees="yes")


def test_settings_are_saved(tokenizer, tmp_path):
    assert tuple(SlaBertTokenizer.SETTINGS) == ("parser", "words", "shuffle_trees", "open_punctuation")
    tokenizer = SlaBertTokenizer.from_backbone(tokenizer, words="whitespace", shuffle_trees=True)
    tokenizer(CAT, truncation=True, max_length=3, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    assert SlaBertTokenizer.from_pretrained(tmp_path).parser == tiny_parser()
    loaded = SlaBertTokenizer.from_pretrained(tmp_path, parser=tiny_parser())
    assert (loaded.parser, loaded.words, loaded.shuffle_trees) == (tiny_parser(), "whitespace", True)
    assert loaded.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert loaded.special_tokens_map == tokenizer.special_tokens_map
    assert loaded.model_input_names == tokenizer.model_input_names
    assert dict(loaded(CAT, DOG)) == dict(tokenizer(CAT, DOG))
    other = SlaBertTokenizer.from_pretrained(tmp_path, parser=None)
    assert other.model_input_names == tokenizer.model_input_names[:-1]
    again = SlaBertTokenizer.from_backbone(other, parser=tiny_parser())
    assert again.words == "whitespace"
    assert dict(again(CAT, DOG)) == dict(tokenizer(CAT, DOG))
