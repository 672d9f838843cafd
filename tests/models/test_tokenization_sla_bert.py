"""What `SlaBertTokenizer` says of each token: its word, and the first token of the word's head."""

import os

import pytest
import spacy
import torch
from datasets import Dataset

from hf_localattn.installed.parse_store import VARIABLE
from hf_localattn.models import sla_parser
from hf_localattn.models.sla_masks import without_open_keys
from tests.models.test_sla_masks import syntax_mask
from tests.models.test_tokenizers import CAT, DOG, TOWN, rows, wrap
from tests.reference import sla as reference
from tests.tiny_parser import SENTENCES, tiny_parser

KEYS = ("word_index", "dep_heads")
SPLIT = {"is_split_into_words": True}


def sla(backbone="wordpiece", **settings):
    return wrap("sla-bert", backbone, **settings)


@pytest.fixture(params=["wordpiece", "bytes"])
def tokenizer(request):
    return sla(request.param)


@pytest.fixture(autouse=True)
def _nothing_parsed():
    sla_parser._cache.clear()


@pytest.fixture
def parsed(monkeypatch):
    """Record the texts that the tiny pipeline parses, one list per call of `pipe`."""
    pipeline, calls = sla_parser.load_pipeline(tiny_parser()), []
    pipe = pipeline.pipe

    def counting(texts):
        calls.append(list(texts))
        return pipe(calls[-1])

    monkeypatch.setattr(pipeline, "pipe", counting)
    return calls


def words(encoded, *texts):
    """Return "word>head" for each word of the first row, with the texts of their tokens."""
    encoding, (word_index, *_), (dep_heads, *_) = encoded.encodings[0], *(rows(encoded, key) for key in KEYS)
    written = {}
    for place, (word, segment) in enumerate(zip(word_index, encoding.sequence_ids, strict=True)):
        if word != -1:
            begin, end = encoding.offsets[place]
            written[word] = written.get(word, "") + texts[segment][begin:end].strip()
    assert list(written) == list(range(len(written)))
    heads = {word: written[word_index[head]] for word, head in zip(word_index, dep_heads, strict=True) if word != -1}
    return " ".join(f"{written[word]}>{heads[word]}" for word in written)


def check(encoded, row=0):
    """Check properties of every sequence; return the number of words."""
    word_index, dep_heads, sequence_ids = *(rows(encoded, key)[row] for key in KEYS), encoded.sequence_ids(row)
    assert reference.is_structure(word_index, dep_heads)
    for word, head, segment in zip(word_index, dep_heads, sequence_ids, strict=True):
        assert (word == -1) == (head == -1)
        assert word == -1 or segment is not None
    # No token between the words of a text may look like the border of two segments.
    for segment in (0, 1):
        inside = [word for word, of in zip(word_index, sequence_ids, strict=True) if of == segment]
        trimmed = " ".join(map(str, inside)).removeprefix("-1 ").removesuffix(" -1").split()
        assert "-1" not in trimmed or set(inside) == {-1}
    return len(set(word_index) - {-1})


# --- texts

LEARNED = [(language, *sentence) for language, sentences in SENTENCES.items() for sentence in sentences]
CAT_TREE = "The>cat cat>sleeps sleeps>sleeps .>sleeps"
TREES = [
    *((text, "parser", CAT_TREE) for text in (CAT, f" {CAT}", f"{CAT}\n\n")),
    ("The  cat \n sleeps.", "parser", "The cat sleeps ."),
    ("The cat sleeps .", "whitespace", CAT_TREE),
    ("She isn't  here.", "parser", "She>is is>is n't>is here>is .>is"),
    ("She isn't  here.", "whitespace", "She isn't here."),
]


@pytest.mark.parametrize(("language", "sentence", "heads"), LEARNED, ids=[one[1] for one in LEARNED])
def test_parses_what_the_parser_has_learned(language, sentence, heads):
    """In a text and in a list of words."""
    tokenizer, given = sla(parser=tiny_parser(language), words="whitespace"), sentence.split()
    tree = " ".join(f"{word}>{given[head]}" for word, head in zip(given, heads, strict=True))
    assert words(tokenizer(sentence), sentence) == tree
    expected = sla(parser=None)(given, heads=heads, **SPLIT)["dep_heads"]
    assert tokenizer(given, **SPLIT)["dep_heads"] == expected


@pytest.mark.parametrize(("text", "setting", "tree"), TREES, ids=lambda value: repr(value[:30]))
def test_words_are_the_parsers_or_those_of_white_space(tokenizer, text, setting, tree):
    found = words(sla(tokenizer, words=setting)(text), text)
    assert found == tree or [one.split(">")[0] for one in found.split()] == tree.split()


def test_languages_without_blanks():
    text = "我看书。"
    assert words(sla(parser=tiny_parser("zh"))(text), text) == "我>看 看>看 书>看 。>看"


def test_positions_of_heads_and_sentences_that_follow(tokenizer):
    text, pieces, encoded = f"{CAT} {TOWN}", len(sla().tokenize("sleeps")), sla()(CAT)
    assert encoded["word_index"] == [-1, 0, 1, *[2] * pieces, 3, -1]
    assert encoded["dep_heads"] == [-1, 2, 3, *[3] * pieces, 3, -1]
    assert words(tokenizer(text), text) == f"{CAT_TREE} {words(tokenizer(TOWN), TOWN)}", "two sentences, two trees"
    assert words(tokenizer(CAT, TOWN), CAT, TOWN) == words(tokenizer(text), text), "the second text counts on"


def test_words_under_one_token_become_one():
    """spaCy's `can` and `not` are one token here; merging them leaves no gap in the indices."""
    tokenizer, text = sla(), "I cannot find my keys."
    assert "cannot" in tokenizer.get_vocab() or tokenizer.add_tokens(["cannot"])
    assert words(tokenizer(text), text) == "I>find cannot>find find>find my>keys keys>find .>find"


def test_special_tokens_in_the_text_are_words(tokenizer):
    encoded = tokenizer(f"The {tokenizer.mask_token} sleeps.")
    assert encoded["word_index"][encoded["input_ids"].index(tokenizer.mask_token_id)] == 1
    inside = [value != -1 for value in encoded["word_index"]]
    assert inside == [False, *[True] * (len(inside) - 2), False]


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
    "It rains . " * 334: 1002,
}


@pytest.mark.parametrize("setting", ["parser", "whitespace"])
@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:12]))
def test_odd_texts(tokenizer, setting, text):
    number = check(sla(tokenizer, words=setting)(text, verbose=False))
    expected = len(text.split()) if setting == "whitespace" else ODD[text]
    assert expected is None or "\u200b" in text or number == expected


# --- words and heads that are given


@pytest.mark.parametrize("setting", ["parser", "whitespace"])
def test_given_words_stay(tokenizer, setting):
    tokenizer = sla(tokenizer, words=setting)
    given = [["The", "cat", "sleeps", "."], ["isn't", "", "New York", "it"]]
    encoded, pair = tokenizer(given, **SPLIT), tokenizer(*given, **SPLIT)
    for row in range(2):
        assert encoded["word_index"][row] == [-1 if word is None else word for word in encoded.word_ids(row)]
        check(encoded, row)
    assert max(pair["word_index"]) == 4 + 3
    assert tokenizer([tuple(given)], **SPLIT)["dep_heads"][0] == pair["dep_heads"]


def test_given_words_of_white_space_are_not_parsed(tokenizer):
    """They keep their indices, and the heads of the other words count them."""
    given = ["", "The", "cat", " ", "sleeps", "."]
    encoded = tokenizer(given, **SPLIT)
    assert encoded["word_index"] == [-1 if word is None else word for word in encoded.word_ids()]
    assert encoded["dep_heads"] == tokenizer(given, heads=[0, 2, 4, 3, 4, 4], **SPLIT)["dep_heads"]


@pytest.mark.parametrize("with_parser", [True, False])
def test_ready_made_heads(tokenizer, parsed, with_parser):
    tokenizer = tokenizer if with_parser else sla(tokenizer, parser=None)
    given, first, second = [["The", "cat", "sleeps", "."], ["a", "b"]], [1, 2, 2, 2], [0, 0]
    single = tokenizer(given[0], heads=first, **SPLIT)
    batch = tokenizer(given, heads=[first, second], **SPLIT)
    pair = tokenizer(*given, heads=first, heads_pair=second, **SPLIT)
    pairs = tokenizer([tuple(given)], heads=[first], heads_pair=[second], **SPLIT)
    assert parsed == []
    word_ids = single.word_ids()
    assert single["dep_heads"] == [-1 if word is None else word_ids.index(first[word]) for word in word_ids]
    assert batch["dep_heads"][0] == single["dep_heads"]
    assert pairs["dep_heads"][0] == pair["dep_heads"]
    heads = [head for head, segment in zip(pair["dep_heads"], pair.sequence_ids(), strict=True) if segment == 1]
    assert set(heads) == {pair.sequence_ids().index(1)}


ONE_EACH = ([["a"], ["b", "c"]],)
REFUSED = {
    "another number of heads": ((["a", "b"],), {"heads": [0]}, "`heads` of row 0 .* 1 heads"),
    "no word": (ONE_EACH, {"heads": [[0], [2, 1]]}, r"`heads` of row 1, word 0 \('b'\)"),
    "a cycle": (ONE_EACH, {"heads": [[0], [1, 0]]}, "`heads` of row 1, word .* cycle"),
    "another number of rows": (ONE_EACH, {"heads": [[0]]}, "`heads` has 1 lists"),
    "no second heads": ((["a"], ["b"]), {"heads": [0]}, "`heads_pair` is missing"),
    "wrong second heads": (
        (["a"], ["b"]),
        {"heads": [0], "heads_pair": [1]},
        r"`heads_pair` of row 0, word 0 \('b'\)",
    ),
    "no second text": ((["a"],), {"heads": [0], "heads_pair": [0]}, "`heads_pair`.*second texts"),
    "a text": ((CAT,), {"heads": [0], "is_split_into_words": False}, "`heads`.*is_split_into_words"),
}


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_heads_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        sla()(*arguments, **{**SPLIT, **options})


def test_without_a_parser(tokenizer):
    tokenizer = sla(tokenizer, parser=None)
    assert tokenizer.model_input_names[-1] == "word_index"
    encoded, given = tokenizer([CAT, DOG], padding=True), tokenizer(["a", "b c"], ["d"], **SPLIT)
    assert max(encoded["word_index"][0]) == 2
    places = zip(given.word_ids(), given.sequence_ids(), strict=True)
    assert given["word_index"] == [-1 if word is None else word + 2 * segment for word, segment in places]
    assert not {"dep_heads"} & {*encoded, *given}


# --- windows and parses


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_word_whose_head_was_cut_off_becomes_a_root(side):
    tokenizer = sla()
    tokenizer.truncation_side = side
    given = {**SPLIT, "truncation": True, "max_length": 4}
    encoded = tokenizer(["a", "b", "c", "d"], heads=[3, 3, 0, 3], **given)
    assert encoded["word_index"][1:-1] == ([0, 1] if side == "right" else [2, 3])
    assert encoded["dep_heads"] == [-1, 1, 2, -1]
    assert tokenizer(["a", "b", "c", "d"], heads=[1, 1, 3, 3], **given)["dep_heads"] == [-1, 2, 2, -1]


def test_windows_share_one_parse(tokenizer, parsed):
    text = f"{DOG} {TOWN} {CAT}"
    whole = tokenizer(text)
    options = {"truncation": True, "max_length": 11, "stride": 3, "return_overflowing_tokens": True}
    windows = tokenizer([CAT, text], **options, padding="max_length")
    assert [len(call) for call in parsed] == [1, 1]
    assert windows["overflow_to_sample_mapping"].count(1) >= 3
    ends = [end for _, end in whole.encodings[0].offsets]  # windows may begin with the blank before a token
    heads_at = {end: both for end, *both in zip(ends, *(whole[key] for key in KEYS), strict=True) if both[0] >= 0}
    for row, sample in enumerate(windows["overflow_to_sample_mapping"]):
        word_index, dep_heads = (windows[key][row] for key in KEYS)
        check(windows, row)
        for place, (_, end) in enumerate(windows.encodings[row].offsets if sample else []):
            if word_index[place] != -1:
                word, head = heads_at[end]
                assert word_index[place] == word
                expected = whole["word_index"][head]
                assert word_index[dep_heads[place]] == (expected if expected in word_index else word)


def test_parses_what_is_new_in_one_go_and_nothing_for_ids_alone(tokenizer, parsed):
    calls = [
        (lambda: tokenizer([CAT, DOG, CAT], [TOWN, CAT, ""]), 4),
        (lambda: tokenizer([DOG, "It rains."]), 1),
        (lambda: tokenizer([CAT, DOG, TOWN], truncation=True, max_length=5), None),
        (lambda: tokenizer([CAT.split()], **SPLIT), 1),
        (lambda: tokenizer([CAT.split()], **SPLIT), None),
        (lambda: sla(tokenizer, words="whitespace")(CAT), 1),
        (lambda: tokenizer.tokenize("Goats sleep."), None),
        (lambda: tokenizer.encode("Goats sleep."), None),
    ]
    for call, texts in calls:
        parsed.clear()
        assert call()
        assert [len(one) for one in parsed] == ([texts] if texts else [])
    assert tokenizer.encode(CAT, DOG) == tokenizer(CAT, DOG)["input_ids"]


def shape(words, heads):
    """The depth and the number of children of each word, sorted."""
    parent = {words.index(word): heads[words.index(word)] for word in words if word >= 0}

    def depth(place):
        return 0 if parent[place] == place else 1 + depth(parent[place])

    return sorted((depth(place), list(parent.values()).count(place)) for place in parent)


def test_shuffled_trees_keep_their_shape_and_come_from_the_text(tokenizer):
    shuffling = sla(tokenizer, shuffle_trees=True)
    text = "the old farmer saw a dog in the garden of the town and fed it"
    parsed, drawn = (tuple(one(text)[key] for key in KEYS) for one in (tokenizer, shuffling))
    assert drawn != parsed
    assert shuffling([CAT, text])["dep_heads"][1] == drawn[1], "the same in each batch"
    assert shape(*drawn) == shape(*parsed)
    heads = {**SPLIT, "heads": [1, 1]}
    assert shuffling(["a", "dog"], **heads)["dep_heads"] == tokenizer(["a", "dog"], **heads)["dep_heads"]


@pytest.mark.parametrize("threshold", [1, 3])
def test_open_punctuation_makes_the_masks_of_the_authors_code(threshold):
    given = ["The", "small", "dog", ",", "who", "sees", "a", "(red)", "house", ",", "sleeps."]
    heads = [2, 2, 10, 2, 5, 2, 8, 8, 5, 2, 10]
    encoded, closed = (
        sla(open_punctuation=is_open)(given, heads=heads, return_tensors="pt", **SPLIT) for is_open in (True, False)
    )
    masks = [syntax_mask(*(one[key] for key in KEYS), threshold=threshold)[0].tolist() for one in (encoded, closed)]
    expected = reference.authors_mask(encoded.tokens(), encoded.word_ids()[1:-1], heads, threshold)
    assert masks[0] == expected != masks[1]
    assert torch.equal(without_open_keys(encoded["word_index"])[0], closed["word_index"])
    assert torch.equal(encoded["dep_heads"], closed["dep_heads"])


# Python 3.12 and newer warn about forks in processes with threads; `datasets` decides to fork.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("stored", [False, True])
def test_map_in_several_processes_loads_the_pipeline_once_in_each(stored, monkeypatch, tmp_path):
    load, log, tokenizer = spacy.load, tmp_path / "loads", sla()

    def logged(name):
        with log.open("a") as stream:
            stream.write(f"{os.getpid()}\n")
        return load(name)

    monkeypatch.setattr(spacy, "load", logged)
    monkeypatch.setattr(sla_parser, "_cache", sla_parser.ParseCache())
    monkeypatch.setattr(sla_parser, "_pipelines", {})
    if stored:
        monkeypatch.setattr(os, "environ", os.environ)  # `map` replaces it by a copy, which would keep the variable
        monkeypatch.setenv(VARIABLE, str(tmp_path / "parses"))
    data = Dataset.from_dict({"text": [CAT, DOG, TOWN, "", *(f"{CAT} {number}" for number in range(4))]})
    tokenize = lambda batch: tokenizer(batch["text"], truncation=True, max_length=8)  # noqa: E731
    mapped = data.map(tokenize, batched=True, batch_size=2, num_proc=2)
    workers = log.read_text().split()
    assert len(workers) == len(set(workers)) == 2
    assert mapped["dep_heads"][:] == tokenize(data[:])["dep_heads"]
