"""Gates and weights of tokens, whatever the padding, are the model's own numbers; tokens are as people read them."""

import numpy as np
import pytest
from transformers import XLNetTokenizer

from hf_localattn.inspection import gate_values, token_weights
from hf_localattn.inspection.reading import read
from tests.inspection.models import TEXT, loaded, output_of
from tests.qa_helpers import byte_pieces, tiny_bert, word_pieces

TEXTS = ["the cat.", TEXT, "who sat on the dog?", "red"]


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_gates_are_means_over_all_tokens_but_pads(padding_side):
    model, tokenizer = loaded("sla-bert", padding_side=padding_side, local_attention="window")
    gates = [np.stack([gate[0].numpy() for gate in output_of(model, tokenizer, text).gates]) for text in TEXTS]
    every = np.concatenate(gates, axis=1)
    found = gate_values(model, tokenizer, TEXTS, batch_size=3)
    assert (found.layers, found.num_tokens) == ((0, 1), every.shape[1])
    assert found.means == pytest.approx(every.mean(1), abs=1e-5)
    assert abs(found.means - 0.5).max() > 0.01
    second = loaded("sla-bert", local_attention="window", sla_layers=(1,))
    assert gate_values(*second, [("the cat", "sat")]).layers == (1,)


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("pooling", ["sam", "rba"])
def test_weights_of_tokens_do_not_see_other_texts(pooling, padding_side):
    model, tokenizer = loaded("sam-roberta", padding_side=padding_side, pooling=pooling)
    for one, text in zip(token_weights(model, tokenizer, TEXTS, batch_size=3), TEXTS, strict=True):
        output = output_of(model, tokenizer, text)
        assert one.weights == pytest.approx(output.token_attention[0, 1:-1].numpy(), abs=1e-5)
        assert one.tokens == tuple(tokenizer.tokenize(text))
        if pooling == "sam":
            assert one.features == pytest.approx(output.feature_attention[0].numpy(), abs=1e-5)
        else:
            assert one.features is None
    (whole,) = token_weights(model, tokenizer, TEXTS[:1], special_tokens=True)
    assert (whole.tokens[0], whole.tokens[-1]) == ("[CLS]", "[SEP]")
    assert whole.weights.sum() == pytest.approx(1.0, abs=1e-5)


def test_long_texts_are_cut_and_counted(caplog):
    model, tokenizer = loaded("sam-roberta")
    found = token_weights(model, tokenizer, ["the cat", "the cat " * 30], special_tokens=True, batch_size=1)
    assert [len(one.tokens) for one in found] == [4, 38]  # RoBERTa counts positions from behind the padding index
    assert "1 of 2 texts" in caplog.text


@pytest.mark.parametrize(
    ("function", "name", "settings", "arguments", "word"),
    [
        (gate_values, "cool", {}, {}, "gates.* sla-bert"),
        (token_weights, "sam-roberta", {"use_tam": False}, {}, "token weights.* sam-roberta"),
        (token_weights, "sam-roberta", {}, {"batch_size": 0}, "`batch_size`"),
        (token_weights, "sam-roberta", {}, {"texts": "the cat"}, "`texts`"),
        (token_weights, "sam-roberta", {}, {"texts": []}, "`texts`"),
        (token_weights, "sam-roberta", {}, {"texts": ["the cat", ("the", "mat")]}, "pairs"),
        (token_weights, "sam-roberta", {}, {"texts": ["the cat", ""]}, "text 1"),
    ],
)
def test_what_cannot_be_weighed_is_said(function, name, settings, arguments, word):
    with pytest.raises(ValueError, match=word):
        function(*loaded(name, **settings), **{"texts": TEXTS, **arguments})


def test_tokens_are_as_people_read_them():
    pieces = ("<unk>", "<s>", "</s>", "<pad>", "<sep>", "<cls>", "\u2581ca", "ts", "\u2581")
    for tokenizer, text, expected in (
        (word_pieces(), ("the cats", "sat"), ["[CLS]", "the", "cat", "##s", "[SEP]", "sat", "[SEP]"]),
        # bytes are decoded, and parts of a character show it whole
        (byte_pieces(), "a é中\n", ["<s>", "a", "\u2581", "é", "é", "中", "中", "中", "\\n", "</s>"]),
        (XLNetTokenizer([(piece, -1.0) for piece in pieces]), "cats", ["\u2581ca", "ts", "<sep>", "<cls>"]),
    ):
        assert read(tiny_bert(tokenizer), tokenizer, [text], cut=False).tokens[0] == expected


def test_a_slow_tokenizer_is_an_error(monkeypatch):
    model, tokenizer = loaded("stock")
    encoded = tokenizer(TEXT, return_tensors="pt")
    encoded._encodings = None
    slow = type("Slow", (), {"__call__": lambda *_, **__: encoded, "model_max_length": 64, "padding_side": "right"})()
    with pytest.raises(ValueError, match="Slow is not a fast tokenizer"):
        read(model, slow, [TEXT], cut=False)
