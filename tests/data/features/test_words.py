from functools import partial

import pytest
from transformers import AutoTokenizer, RobertaTokenizer

from hf_localattn.data.words import prepare_tokenizer, word_features
from tests.qa_helpers import byte_pieces, word_pieces

LABELS = {"O": 0, "B-x": 1, "I-x": 2, "B-y": 3}


def features(function, tokenizer, tokens, labels, max_length=40):
    encoded = function({"tokens": [tokens], "labels": [labels.split()]}, tokenizer, max_length, LABELS)
    return encoded.tokens(0), encoded["labels"][0], encoded["visible_word_ids"][0]


def test_the_first_token_has_the_label():
    tokens, labels, seen = features(word_features, word_pieces(), ["the", "cats", "sating"], "O B-x B-y")
    assert tokens == ["[CLS]", "the", "cat", "##s", "sat", "##ing", "[SEP]"]
    assert labels == [-100, 0, 1, -100, 3, -100, -100]
    assert seen == [0, 1, 2]


def test_all_tokens_have_the_label():
    # B-y has no I-y among the labels
    _, labels, _ = features(
        partial(word_features, label_all_tokens=True), word_pieces(), ["the", "cats", "sating"], "O B-x B-y"
    )
    assert labels == [-100, 0, 1, 2, 3, 3, -100]


def test_the_same_word_twice_is_two_words():
    _, labels, seen = features(word_features, word_pieces(), ["cats", "cats"], "B-x B-y")
    assert (labels, seen) == ([-100, 1, -100, 3, -100, -100], [0, 1])


def test_words_without_tokens_shift_nothing():
    words = ["\u200b", "the", "\x01", "", "cats", " "]
    _, labels, seen = features(word_features, word_pieces(), words, "B-y O B-y B-y B-x B-y")
    assert labels == [-100, 0, 1, -100, -100]
    assert seen == [1, 4]


def test_words_that_are_cut_off():
    tokens, labels, seen = features(word_features, word_pieces(), ["the", "cats", "the"], "O B-x O", max_length=4)
    assert tokens == ["[CLS]", "the", "cat", "[SEP]"]
    assert (labels, seen) == ([-100, 0, 1, -100], [0, 1])


def test_without_labels_the_places_are_told():
    _, labels, seen = features(word_features, word_pieces(), ["the", "cats"], "")
    assert (labels, seen) == ([-100, 0, 0, -100, -100], [0, 1])
    _, labels, seen = features(word_features, word_pieces(), [], "")
    assert (set(labels), seen) == ({-100}, [])


def roberta():
    return RobertaTokenizer(vocab=byte_pieces().get_vocab(), merges=[], unk_token="<pad>")


@pytest.mark.parametrize("make", [byte_pieces, roberta])
def test_a_byte_level_tokenizer_sees_where_words_begin(tmp_path, make):
    tokenizer = make()
    prepare_tokenizer(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    for own in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        tokens, labels, _ = features(word_features, own, ["a", "bc"], "O B-x")
        assert tokens == ["<s>", "Ġ", "a", "Ġ", "b", "c", "</s>"]
        assert labels == [-100, 0, -100, 1, -100, -100, -100]


def test_a_slow_tokenizer():
    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="Slow is not a fast tokenizer"):
        prepare_tokenizer(Slow())
