"""Maps, gates and weights of tokens are the model's own numbers, with the tokens as people read them."""

import numpy as np
import pytest
import torch
from transformers import XLNetTokenizer

from hf_localattn import CoolConfig, CoolForConditionalGeneration, outlook_attention_matrix
from hf_localattn.inspection import attention_map, gate_values, token_weights
from hf_localattn.inspection.reading import read
from hf_localattn.resources import tiny_backbone
from tests.inspection.models import TEXT, loaded, output_of
from tests.models.tiny import choices
from tests.qa_helpers import byte_pieces, tiny_bert, word_pieces

TOKENS = ("[CLS]", "the", "cat", "##s", "sat", "on", "the", "red", "mat", ".", "[SEP]")
WINDOW = {"local_attention": "window", "window_size": 1}


def mean_of(weights, layers=slice(None)):
    return torch.stack(list(weights))[layers, 0].double().mean((0, 1)).numpy()


@pytest.mark.parametrize(
    ("name", "fields", "kind", "output"),
    [
        ("stock", {}, "auto", "attentions"),
        ("cool", {}, "self", "attentions"),
        ("sam-roberta", {}, "auto", "attentions"),
        ("sla-bert", WINDOW, "auto", "attentions"),
        ("sla-bert", WINDOW, "local", "local_attentions"),
    ],
)
def test_a_map_is_the_mean_of_layers_and_heads(name, fields, kind, output):
    model, tokenizer = loaded(name, **fields)
    weights = output_of(model, tokenizer, TEXT)[output]
    whole = attention_map(model, tokenizer, TEXT, kind=kind, special_tokens=True)
    assert whole.tokens == whole.sources == TOKENS
    assert whole.weights == pytest.approx(mean_of(weights), abs=1e-6)
    assert whole.weights.sum(1) == pytest.approx(1.0, abs=1e-5)
    assert abs(whole.weights - whole.weights.T).max() > 0.01  # so that rows and columns cannot be mixed up
    inner = attention_map(model, tokenizer, TEXT, kind=kind, layers=[1, 1])
    assert (inner.tokens, inner.layers) == (TOKENS[1:-1], (1,))
    assert inner.weights == pytest.approx(mean_of(weights, [1])[1:-1, 1:-1], abs=1e-6)


def test_outlook_weights_are_what_of_a_column_reaches_a_row():
    model, tokenizer = loaded("cool", use_conv=False)
    weights = output_of(model, tokenizer, TEXT).local_attentions
    expected = torch.stack([outlook_attention_matrix(one)[0] for one in weights]).mean(0)[1:-1, 1:-1].numpy()
    found = attention_map(model, tokenizer, TEXT)
    assert found.weights == pytest.approx(expected, abs=1e-6)
    assert abs(found.weights - found.weights.T).max() > 0.01
    assert (found.row_label, found.column_label) == ("attending token", "attended token")


@pytest.mark.parametrize("special_tokens", [True, False])
def test_every_token_looks_at_the_tokens_of_its_query(special_tokens, caplog):
    model, tokenizer = loaded("oa-xlnet", backbone="bert")
    text = "the [CUE] cats sat on the [CUE] red mat."
    found = attention_map(model, tokenizer, text, special_tokens=special_tokens)
    assert found.sources == ("cat", "##s", "red")
    # the marker is a token of the text
    tokens = ["[CLS]", "the", "[CUE]", "cat", "##s", "sat", "on", "the", "[CUE]", "red", "mat", ".", "[SEP]"]
    inner = slice(None) if special_tokens else slice(1, -1)
    assert found.tokens == tuple(tokens[inner])
    weights = output_of(model, tokenizer, text).local_attentions
    assert found.weights == pytest.approx(mean_of(weights)[inner], abs=1e-6)
    assert found.weights.std() > 0.01
    assert attention_map(model, tokenizer, "the [CUE] red mat.").weights == pytest.approx(1.0)
    assert "all weights are 1" in caplog.text


@pytest.mark.parametrize(("padding_side", "first"), [("right", "who"), ("left", "the")])
def test_the_query_of_a_question_answering_model_is_the_question(padding_side, first):
    model, tokenizer = loaded("oa-xlnet", "question-answering", padding_side, padding_side == "left", backbone="bert")
    found = attention_map(model, tokenizer, "who sat?", TEXT)
    assert found.sources == ("who", "sat", "?")
    assert found.tokens[0] == first  # a tokenizer that pads on the left has the passage first, as in training


def test_an_encoder_decoder_shows_its_encoder():
    model = CoolForConditionalGeneration.from_backbone(tiny_backbone(generates=True), attn_implementation="eager")
    assert attention_map(model, word_pieces(), "the cat.", kind="self").weights.shape == (3, 3)
    assert attention_map(model, word_pieces(), "the cat.").title.startswith("outlook attention")


def test_the_model_stays_as_it_was_and_has_to_keep_its_attention():
    model = tiny_bert(word_pieces())
    model.set_attn_implementation("eager")
    model.bert.encoder.train()
    modes = [module.training for module in model.modules()]
    attention_map(model, word_pieces(), TEXT)
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
    model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="attn_implementation='sdpa'"):
        attention_map(model, word_pieces(), TEXT)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("stock", {"kind": "global"}, "'global'"),
        ("stock", {"kind": "local"}, "`kind='self'`"),
        ("sam-roberta", {"kind": "local"}, "`token_weights`"),
        ("stock", {"layers": [3]}, r"\[3\].* 0 to 2"),
        ("stock", {"layers": []}, r"\[\]"),
        ("stock", {"text": "the cat " * 20}, "42 tokens.* 40"),
        ("stock", {"text": " "}, "text 0"),
        ("oa-xlnet", {}, r"\[CUE\]"),
    ],
)
def test_what_cannot_be_shown_is_said(name, settings, message):
    with pytest.raises(ValueError, match=message):
        attention_map(*loaded(name, backbone="bert" if name == "oa-xlnet" else None), **{"text": TEXT, **settings})


def test_what_cool_has_without_an_outlook_is_no_map():
    for local_attention in {*choices(CoolConfig, "local_attention")} - {"outlook"}:
        shown = loaded("cool", local_attention=local_attention)
        with pytest.raises(ValueError, match="`kind='self'`"):
            attention_map(*shown, TEXT, kind="local")
        assert attention_map(*shown, TEXT).title.startswith("self-attention")


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
