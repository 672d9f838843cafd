"""Tokens as people read them."""

import pytest
from transformers import AutoTokenizer, XLNetTokenizer

from hf_localattn.inspection.reading import read
from hf_localattn.resources import tiny_backbone
from tests.inspection.models import TEXT, loaded
from tests.qa_helpers import byte_pieces, tiny_bert, word_pieces


def tokens_of(tokenizer, *texts):
    return read(tiny_bert(tokenizer), tokenizer, [texts if len(texts) > 1 else texts[0]], cut=False).tokens[0]


def test_word_pieces_stay_as_they_are():
    assert tokens_of(word_pieces(), "the cats", "sat") == ["[CLS]", "the", "cat", "##s", "[SEP]", "sat", "[SEP]"]


def test_bytes_are_decoded_and_parts_of_a_character_show_it_whole():
    found = tokens_of(byte_pieces(), "a é中\n")
    assert found == ["<s>", "a", "\u2581", "é", "é", "中", "中", "中", "\\n", "</s>"]


def test_the_beginnings_of_words_are_marked():
    vocabulary = [
        (piece, -1.0) for piece in ("<unk>", "<s>", "</s>", "<pad>", "<sep>", "<cls>", "\u2581ca", "ts", "\u2581")
    ]
    tokenizer = XLNetTokenizer(vocabulary)
    assert tokens_of(tokenizer, "cats") == ["\u2581ca", "ts", "<sep>", "<cls>"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("the cat", "`texts` is 'the cat'; give a list"),
        ([], r"`texts` is \[\]; give a list"),
        (["the cat", ("the", "mat")], "only single texts, or only pairs"),
        (["the cat", ""], "text 1 is ''; give a text"),
    ],
)
def test_what_is_no_list_of_texts_is_an_error(texts, message):
    with pytest.raises(ValueError, match=message):
        read(*loaded("stock"), texts, cut=True)


def test_a_slow_tokenizer_is_an_error():
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone())

    def without_encodings(*args, **kwargs):
        encoded = AutoTokenizer.from_pretrained(tiny_backbone())(*args, **kwargs)
        encoded._encodings = None
        return encoded

    slow = type("Slow", (), {"__call__": staticmethod(without_encodings), "model_max_length": 64})()
    slow.padding_side = tokenizer.padding_side
    with pytest.raises(ValueError, match="Slow is not a fast tokenizer"):
        read(loaded("stock")[0], slow, [TEXT], cut=False)
