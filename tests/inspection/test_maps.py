"""Maps, gates and weights of tokens are the model's own numbers, with the tokens as people read them."""

from functools import cache

import numpy as np
import pytest
import torch
from transformers import XLNetTokenizer

from hf_localattn import CoolForConditionalGeneration, outlook_attention_matrix
from hf_localattn.families import FAMILIES
from hf_localattn.inspection import attention_map, gate_values, token_influence, token_weights
from hf_localattn.inspection.attribution import is_explained_by_influence
from hf_localattn.inspection.maps import EQUAL
from hf_localattn.inspection.reading import read
from hf_localattn.inspection.weights import scale_label
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import tiny_model
from tests.qa_helpers import byte_pieces, tiny_bert, word_pieces

TEXT = "the cats sat on the red mat."
TOKENS = ("[CLS]", "the", "cat", "##s", "sat", "on", "the", "red", "mat", ".", "[SEP]")
TEXTS = ["the cat.", TEXT, "who sat on the dog?", "red"]
WINDOW = {"local_attention": "window", "window_size": 1}


@cache
def loaded(name, task="headless", padding_side="right", cls_last=False, backbone=None, **fields):
    """A model that keeps its attention, in evaluation mode, and its tokenizer. Shared: leave both as they are."""
    tokenizer = word_pieces(padding_side, cls_last)
    if name == "stock":
        model = tiny_bert(tokenizer)
    else:
        model = tiny_model(name, task, backbone, **fields)
        tokenizer = FAMILIES[name].adapt_tokenizer(tokenizer, model)
        model.resize_token_embeddings(len(tokenizer))
        with torch.no_grad():
            for parameter in model.parameters():  # far from uniform
                parameter.mul_(4)
    model.set_attn_implementation("eager")
    return model.eval(), tokenizer


def output_of(model, tokenizer, *texts):
    """What the model itself says of one text, or of one pair."""
    with torch.no_grad():
        return model.base_model(**tokenizer(*texts, return_tensors="pt"), output_attentions=True)


def mean_of(weights, layers=slice(None)):
    return torch.stack(list(weights))[layers, 0].double().mean((0, 1)).numpy()


def outlooks(output):
    return [outlook_attention_matrix(one)[:, None] for one in output.local_attentions]


@pytest.mark.parametrize(
    ("name", "fields", "kind", "weights"),
    [
        ("stock", {}, "auto", lambda output: output.attentions),
        ("cool", {}, "self", lambda output: output.attentions),
        ("cool", {"use_conv": False}, "auto", outlooks),
        ("cool", {"local_attention": "conv"}, "auto", lambda output: output.attentions),
        ("sam-roberta", {}, "auto", lambda output: output.attentions),
        ("sla-bert", WINDOW, "auto", lambda output: output.attentions),
        ("sla-bert", WINDOW, "local", lambda output: output.local_attentions),
    ],
)
def test_a_map_is_the_mean_of_layers_and_heads(name, fields, kind, weights):
    model, tokenizer = loaded(name, **fields)
    weights = weights(output_of(model, tokenizer, TEXT))
    whole = attention_map(model, tokenizer, TEXT, kind=kind, special_tokens=True)
    assert whole.tokens == whole.sources == TOKENS
    assert whole.weights == pytest.approx(mean_of(weights), abs=1e-6)
    assert abs(whole.weights - whole.weights.T).max() > 0.01  # so that rows and columns cannot be mixed up
    assert (whole.row_label, whole.column_label) == ("attending token", "attended token")
    last = len(weights) - 1
    inner = attention_map(model, tokenizer, TEXT, kind=kind, layers=[last, last])
    assert (inner.tokens, inner.layers) == (TOKENS[1:-1], (last,))
    assert inner.weights == pytest.approx(mean_of(weights, [last])[1:-1, 1:-1], abs=1e-6)


@pytest.mark.parametrize("special_tokens", [True, False])
def test_every_token_looks_at_the_tokens_of_its_query(special_tokens):
    model, tokenizer = loaded("oa-xlnet", backbone="bert")
    text = "the [CUE] cats sat on the [CUE] red mat."
    found = attention_map(model, tokenizer, text, special_tokens=special_tokens)
    assert found.sources == ("cat", "##s", "red")
    # the marker is a token of the text
    tokens = ("[CLS]", "the", "[CUE]", "cat", "##s", "sat", "on", "the", "[CUE]", "red", "mat", ".", "[SEP]")
    inner = slice(None) if special_tokens else slice(1, -1)
    assert found.tokens == tokens[inner]
    weights = output_of(model, tokenizer, text).local_attentions
    assert found.weights == pytest.approx(mean_of(weights)[inner], abs=1e-6)
    assert found.weights.std() > 0.01
    assert EQUAL not in found.title
    same = attention_map(model, tokenizer, "the [CUE] red mat.")  # one token shares nothing
    assert same.weights == pytest.approx(1.0)
    assert EQUAL in same.title


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
    model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="attn_implementation='sdpa'"):
        attention_map(model, word_pieces(), TEXT)


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
        assert (one.features is None) == (pooling == "rba")
        if pooling == "sam":
            assert one.features == pytest.approx(output.feature_attention[0].numpy(), abs=1e-5)
    (whole,) = token_weights(model, tokenizer, TEXTS[:1], special_tokens=True)
    assert (whole.tokens[0], whole.tokens[-1]) == ("[CLS]", "[SEP]")
    assert whole.weights.sum() == pytest.approx(1.0, abs=1e-5)


def score_of(output):
    """The sum over what a head predicts, of one text."""
    if "start_logits" in output:
        return output.start_logits.max() + output.end_logits.max()
    return output.logits[0].max(-1).values.mean()


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("task", ["text-classification", "token-classification", "question-answering"])
def test_the_influence_of_a_token_is_what_the_score_loses_without_it(task, padding_side):
    model, tokenizer = loaded("sam-roberta", task, padding_side, pooling="rb")
    text = ("who sat?", "the cats.") if task == "question-answering" else "the cats."
    (found,) = token_influence(model, tokenizer, [text], special_tokens=True, batch_size=2)
    sides = text if isinstance(text, tuple) else (text,)
    inputs = tokenizer(*(sides if padding_side == "right" else sides[::-1]), return_tensors="pt")
    assert found.tokens == tuple(tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]))
    with torch.no_grad():
        output = model(**inputs)
        for position, value in enumerate(found.weights):
            ids = inputs["input_ids"].clone()
            ids[0, position] = tokenizer.unk_token_id
            masked = model(**{**inputs, "input_ids": ids})
            if "start_logits" in output:
                start, end = output.start_logits.argmax(), output.end_logits.argmax()
                other = masked.start_logits[0, start] + masked.end_logits[0, end]
            else:
                best = output.logits[0].argmax(-1, keepdim=True)
                other = masked.logits[0].gather(-1, best).mean()
            assert value == pytest.approx(float(score_of(output) - other), abs=1e-5)
    (inner,) = token_influence(model, tokenizer, [text])
    assert "[SEP]" not in inner.tokens
    assert scale_label([inner]) == "influence"


def test_influence_is_for_models_without_weights_of_their_own():
    explained = {
        ("sam-roberta", "text-classification", "rb"): True,
        ("sam-roberta", "text-classification", "none"): True,
        ("sam-roberta", "text-classification", "rba"): False,
        ("sam-roberta", "headless", "rb"): False,
    }
    for (name, task, pooling), expected in explained.items():
        assert is_explained_by_influence(loaded(name, task, pooling=pooling)[0]) == expected
    assert not is_explained_by_influence(loaded("stock")[0])  # its attention is all that decides
    with pytest.raises(ValueError, match="no head"):
        token_influence(*loaded("sam-roberta"), [TEXT])


def test_long_texts_are_cut_and_counted(caplog):
    found = token_weights(*loaded("sam-roberta"), ["the cat", "the cat " * 30], special_tokens=True, batch_size=1)
    assert [len(one.tokens) for one in found] == [4, 38]  # RoBERTa counts positions from behind the padding index
    assert "1 of 2 texts" in caplog.text


@pytest.mark.parametrize(
    ("function", "name", "fields", "arguments", "word"),
    [
        (attention_map, "stock", {}, {"kind": "global"}, "'global'"),
        (attention_map, "stock", {}, {"kind": "local"}, "`kind='self'`"),
        (attention_map, "cool", {"local_attention": "conv"}, {"kind": "local"}, "`kind='self'`"),
        (attention_map, "sam-roberta", {}, {"kind": "local"}, "`token_weights`"),
        (attention_map, "cool", {}, {"layers": [3]}, r"\[3\].* 0 to 1"),
        (attention_map, "stock", {}, {"layers": []}, r"\[\]"),
        (attention_map, "cool", {}, {"text": "the cat " * 20}, "42 tokens.* 40"),
        (attention_map, "stock", {}, {"text": " "}, "text 0"),
        (attention_map, "oa-xlnet", {"backbone": "bert"}, {}, r"\[CUE\]"),
        (gate_values, "cool", {}, {}, "gates.* sla-bert"),
        (token_weights, "sam-roberta", {"use_tam": False}, {}, "token weights.* sam-roberta"),
        (token_weights, "sam-roberta", {}, {"batch_size": 0}, "`batch_size`"),
        (token_weights, "sam-roberta", {}, {"texts": "the cat"}, "`texts`"),
        (token_weights, "sam-roberta", {}, {"texts": []}, "`texts`"),
        (token_weights, "sam-roberta", {}, {"texts": ["the cat", ("the", "mat")]}, "pairs"),
        (token_weights, "sam-roberta", {}, {"texts": ["the cat", ""]}, "text 1"),
    ],
)
def test_what_cannot_be_shown_is_said(function, name, fields, arguments, word):
    given = {"text": TEXT} if function is attention_map else {"texts": TEXTS}
    with pytest.raises(ValueError, match=word):
        function(*loaded(name, **fields), **{**given, **arguments})


PIECES = ("<unk>", "<s>", "</s>", "<pad>", "<sep>", "<cls>", "\u2581ca", "ts", "\u2581")


@pytest.mark.parametrize(
    ("tokenizer", "text", "expected"),
    [
        (word_pieces(), ("the cats", "sat"), ["[CLS]", "the", "cat", "##s", "[SEP]", "sat", "[SEP]"]),
        # bytes are decoded, and parts of a character show it whole
        (byte_pieces(), "a é中\n", ["<s>", "a", "\u2581", "é", "é", "中", "中", "中", "\\n", "</s>"]),
        (XLNetTokenizer([(piece, -1.0) for piece in PIECES]), "cats", ["\u2581ca", "ts", "<sep>", "<cls>"]),
    ],
    ids=["pieces", "bytes", "sentencepiece"],
)
def test_tokens_are_as_people_read_them(tokenizer, text, expected):
    assert read(tiny_bert(tokenizer), tokenizer, [text], cut=False).tokens[0] == expected
