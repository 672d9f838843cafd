"""What `SlaBertTokenizer` says of each token: its word, and the first token of the word's head."""

import itertools
import re
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.installed.structure import check_structure
from hf_localattn.models import sla_parser
from hf_localattn.models.sla_alignment import Words, align
from hf_localattn.models.sla_masks import without_open_keys
from hf_localattn.models.sla_parser import whitespace_words
from tests.models.test_sla_mechanism import syntax_mask
from tests.models.test_tokenizers import CAT, DOG, TOWN, rows, wrap
from tests.reference import sla as reference
from tests.tiny_parser import SENTENCES, record_parses, tiny_parser

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
    return record_parses(monkeypatch, sla_parser.load_pipeline(tiny_parser()))


def tree(encoded, *texts):
    """Return "word>head" for each word of the first row; without heads "word"."""
    encoding, (word_index, *_), starts, written = encoded.encodings[0], rows(encoded, "word_index"), {}, {}
    places = zip(encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True)
    for word, (segment, number, (begin, end)) in zip(word_index, places, strict=True):
        if word != -1:
            text = texts[segment] if isinstance(texts[segment], str) else texts[segment][number]
            written[word] = text[starts.setdefault(word, begin) : end].strip().replace(" ", "_")
    if "dep_heads" not in encoded:
        return " ".join(written.values())
    (dep_heads, *_) = rows(encoded, "dep_heads")
    check_structure(torch.tensor([word_index]), torch.tensor([dep_heads]))
    return " ".join(f"{written[word]}>{written[word_index[dep_heads[word_index.index(word)]]]}" for word in written)


# --- words and heads

CAT_TREE, RAINS = "The>cat cat>sleeps sleeps>sleeps .>sleeps", "It>rains rains>rains .>rains"
SHE = "She>is is>is n't>is here>is .>is"
ONE, TWO, NO_PARSER = ["a", "b", "c"], ["d", "e"], {"parser": None}
CASES = {
    "blanks around": ((f" {CAT}\n",), {}, CAT_TREE),
    "blanks within": (("It  rains \n .",), {}, "It rains ."),
    "words of the parser": (("She isn't here.",), {}, SHE),
    "words of white space": (("She isn't here.",), {"words": "whitespace"}, "She isn't here."),
    "two texts": ((CAT, "It rains."), {}, f"{CAT_TREE} {RAINS}"),
    "no words": ((" \n\t ",), {}, ""),
    "accents": (("caf\u00e9 \u05d9\u05e9\u05df",), {"words": "whitespace"}, "caf\u00e9 \u05d9\u05e9\u05df"),
    "odd": (("\u200b a\x00b 👍🏽 👩‍👩‍👧 here",), {}, None),
    "given words": ((["She", "isn't", "", "New York", "here"], TWO), {}, "She isn't New_York here d e"),
    "heads": ((ONE, TWO), {"heads": [1, 1, 1], "heads_pair": [0, 0]}, "a>b b>b c>b d>d e>d"),
    "no parser": ((CAT, "It rains."), NO_PARSER, "The cat sleeps. It rains."),
    "no parser, given words": ((["a", "b c"], ["d"]), NO_PARSER, "a b_c d"),
    "no parser, heads": ((ONE,), {**NO_PARSER, "heads": [1, 1, 1]}, "a>b b>b c>b"),
}


@pytest.mark.parametrize(("texts", "given", "expected"), CASES.values(), ids=CASES)
def test_words_and_heads(tokenizer, texts, given, expected):
    heads = {name: given[name] for name in ("heads", "heads_pair") if name in given}
    tokenizer = sla(tokenizer, **{name: value for name, value in given.items() if name not in heads})
    split = {"is_split_into_words": isinstance(texts[0], list)}
    encoded = tokenizer(*texts, **heads, **split)
    found = tree(encoded, *texts)
    assert expected in (None, found, " ".join(one.partition(">")[0] for one in found.split()))
    assert set(KEYS) & {*encoded} == {*tokenizer.model_input_names} & {*KEYS} | ({"dep_heads"} if heads else set())


@pytest.mark.parametrize(("sentence", "heads"), SENTENCES, ids=[sentence for sentence, _ in SENTENCES])
def test_parses_what_the_parser_has_learned(sentence, heads):
    """In a text and in a list of words, in which words of white space are not parsed."""
    tokenizer, given = sla(words="whitespace"), sentence.split()
    expected = " ".join(f"{word}>{given[head]}" for word, head in zip(given, heads, strict=True))
    for text in (sentence, given, ["", given[0], " ", *given[1:]]):
        assert tree(tokenizer(text, is_split_into_words=text is not sentence), text) == expected


def test_positions_of_heads():
    pieces, encoded = len(sla().tokenize("sleeps")), sla()(CAT)
    assert encoded["word_index"] == [-1, 0, 1, *[2] * pieces, 3, -1]
    assert encoded["dep_heads"] == [-1, 2, 3, *[3] * pieces, 3, -1]
    cued = sla()(["[CUE]", "a", "b", "[CUE]"], heads=[1, 1], **SPLIT)  # a marker belongs to the word after it
    numbers = [-1 if word is None else word // 2 for word in cued.word_ids()]
    assert cued["word_index"] == numbers
    assert cued["dep_heads"] == [-1 if number == -1 else numbers.index(1) for number in numbers]


def test_special_tokens_in_the_text_are_words_and_words_under_one_token_become_one(tokenizer):
    encoded = tokenizer(f"The {tokenizer.mask_token} sleeps.")
    assert encoded["word_index"][encoded["input_ids"].index(tokenizer.mask_token_id)] == 1
    tokenizer.add_tokens(["cannot"])
    text = "I cannot find my keys."
    assert {*tokenizer(text)["word_index"]} == {*range(-1, 6)}
    assert tree(tokenizer(text), text) == "I>find cannot>find find>find my>keys keys>find .>find"


ONE_EACH = ([["a"], ["b", "c"]],)
REFUSED = {
    "another number of heads": ((["a", "b"],), {"heads": [0]}, "`heads` of row 0 .* 1 heads"),
    "no word": (ONE_EACH, {"heads": [[0], [2, 1]]}, r"`heads` of row 1, word 0 \('b'\)"),
    "no word before": (ONE_EACH, {"heads": [[0], [-1, 1]]}, r"`heads` of row 1, word 0 \('b'\)"),
    "no number": ((["a"],), {"heads": [0.5]}, "`heads` of row 0"),
    "a cycle": (ONE_EACH, {"heads": [[0], [1, 0]]}, "`heads` of row 1, word .* cycle"),
    "another number of rows": (ONE_EACH, {"heads": [[0]]}, "`heads` has 1 lists"),
    "no second heads": ((["a"], ["b"]), {"heads": [0]}, "`heads_pair` is missing"),
    "wrong second heads": ((["a"], ["b"]), {"heads": [0], "heads_pair": [1]}, "`heads_pair` of row 0, word 0"),
    "no second text": ((["a"],), {"heads": [0], "heads_pair": [0]}, "`heads_pair`.*second texts"),
    "a text": ((CAT,), {"heads": [0], "is_split_into_words": False}, "`heads`.*is_split_into_words"),
    "a text, second heads": ((CAT,), {"heads_pair": [0], "is_split_into_words": False}, "is_split_into_words"),
}


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_heads_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        sla()(*arguments, **{**SPLIT, **options})


def test_parses_what_is_new_in_one_go_and_nothing_for_ids_alone(tokenizer, parsed):
    calls = [
        (lambda: tokenizer([CAT, DOG, CAT], [TOWN, CAT, ""]), 4),
        (lambda: tokenizer([DOG, "It rains."]), 1),
        (lambda: tokenizer([CAT, DOG, TOWN], truncation=True, max_length=5), None),
        (lambda: tokenizer(f"{TOWN} {DOG}", truncation=True, max_length=9, return_overflowing_tokens=True), 1),
        (lambda: tokenizer([CAT.split()], **SPLIT), 1),
        (lambda: tokenizer([CAT.split()], **SPLIT), None),
        (lambda: tokenizer([["Goats", "sleep"]], heads=[[0, 0]], **SPLIT), None),
        (lambda: sla(tokenizer, words="whitespace")(CAT), 1),
        (lambda: tokenizer.tokenize("Goats sleep."), None),
        (lambda: tokenizer.encode("Goats sleep."), None),
    ]
    for call, texts in calls:
        parsed.clear()
        assert call()
        assert [len(one) for one in parsed] == ([texts] if texts else [])


def children(words, heads):
    """Sorted numbers of children of all words that have any."""
    return sorted(Counter(heads[words.index(word)] for word in {*words} - {-1}).values())


def test_shuffled_trees_keep_their_shape_and_come_from_the_text(tokenizer):
    shuffling = sla(tokenizer, shuffle_trees=True)
    text = "the old farmer saw a dog in the garden of the town and fed it"
    parsed, drawn = (tuple(one(text)[key] for key in KEYS) for one in (tokenizer, shuffling))
    assert drawn != parsed
    assert shuffling([CAT, text])["dep_heads"][1] == drawn[1], "the same in each batch"
    check_structure(*torch.tensor(drawn).unsqueeze(1))
    assert children(*drawn) == children(*parsed)
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


# --- alignment, compared with loops over characters


@st.composite
def segments(draw):
    """Draw a text, its words, their heads, and the tokens of one window: spans of the text, some of them missing."""
    text = draw(st.text(alphabet="ab文 \n", max_size=14))
    few = draw(st.sampled_from([None, 4]))  # so that tokens hold several words
    cuts = (st.sets(st.integers(0, len(text)), max_size=most) for most in (None, few))
    parts, tokens = (itertools.pairwise(sorted({0, len(text)} | draw(some))) for some in cuts)
    words = [found.span() for part in parts for found in re.compile(r"\S+").finditer(text, *part)]
    order = draw(st.permutations(range(len(words))))  # the head of a word comes before it, or it is a root
    heads = dict(sorted((word, order[draw(st.integers(0, place))]) for place, word in enumerate(order)))
    # Some overlap, like byte-level tokens that end within a character.
    tokens = [(begin, min(end + draw(st.sampled_from([0, 0, 0, 1])), len(text))) for begin, end in tokens]
    first, last = sorted(draw(st.integers(0, len(tokens))) for _ in range(2))
    return text, words, [*heads.values()], [one for one in tokens[first:last] if draw(st.integers(0, 5))]


def naive(text, words, heads, tokens):
    """Return (index of the word, position of the head's first token) of each token, relative to the first token."""
    owners, group = [], {}
    for begin, end in tokens:
        seen = [place for place in range(begin, end) if not text[place].isspace()]
        holding = [word for word, (start, stop) in enumerate(words) if seen and start <= seen[0] < stop]
        owners += holding or owners[-1:] or [-1]
    for word, (start, stop) in enumerate(words):
        over = [owner for owner, (begin, end) in zip(owners, tokens, strict=True) if begin <= start and stop <= end]
        group[word] = over[0] if over and word not in owners else word

    def depth(word):
        return 0 if heads[word] == word else 1 + depth(heads[word])

    def of_token(owner):
        if owner == -1:
            return -1, -1
        head = group[heads[min((word for word in group if group[word] == owner), key=depth)]]
        gone = sum(group[word] != word for word in range(owner))
        return owner - gone, owners.index(head if head in owners else owner)

    return [of_token(owner) for owner in owners]


@settings(max_examples=300, deadline=None)
@given(st.lists(segments(), min_size=1, max_size=2), st.integers(1, 4))
def test_equals_the_loop_over_characters(segments, left):
    """With special tokens around the texts, and padding on the left."""
    sequence_ids, offsets, expected, shift = [None] * left, [(0, 0)] * left, [(-1, -1)] * left, 0
    for number, (_, words, _, tokens) in enumerate(segments):
        pairs = naive(*segments[number])
        expected += [(word + shift, head + len(offsets)) if word != -1 else (-1, -1) for word, head in pairs]
        expected.append((-1, -1))
        sequence_ids += [number] * len(tokens) + [None]
        offsets += [*tokens, (0, 0)]
        shift += len(words)
    given = [
        Words(len(words), heads, *([one[end] for one in words] for end in (0, 1))) for _, words, heads, _ in segments
    ]
    word_index, dep_heads = align(sequence_ids, offsets, None, given)
    assert list(zip(word_index, dep_heads, strict=True)) == expected
    check_structure(torch.tensor([word_index]), torch.tensor([dep_heads]))


@given(st.text(alphabet="ab \t\n\x1c\u00a0\u2003\u3000\u200b", max_size=20))
def test_white_space_splits_as_python_does(text):
    words = whitespace_words(text)
    assert [text[start:end] for start, end in zip(words.starts, words.ends, strict=True)] == text.split()
