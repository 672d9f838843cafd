"""Gates and weights of tokens: whatever the padding, the model's own numbers."""

import numpy as np
import pytest

from hf_localattn.inspection import gate_values, token_weights
from tests.inspection.models import TEXT, loaded, output_of

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


def test_gates_are_told_by_the_numbers_of_their_layers():
    model, tokenizer = loaded("sla-bert", local_attention="window", sla_layers=(1,))
    assert gate_values(model, tokenizer, [("the cat", "sat")]).layers == (1,)


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
    assert "1 of 2 texts fill the 38 tokens that the model takes" in caplog.text


@pytest.mark.parametrize(
    ("function", "name", "message"),
    [
        (gate_values, "cool", "CoolModel, as it is configured, has no gates: these are of the family sla-bert"),
        (token_weights, "stock", "BertModel, as it is configured, does not weigh tokens: the family sam-roberta does"),
    ],
)
def test_a_model_without_such_weights_is_an_error(function, name, message):
    with pytest.raises(ValueError, match=message):
        function(*loaded(name), TEXTS)


def test_a_head_without_such_weights_is_an_error():
    with pytest.raises(ValueError, match="does not weigh tokens"):
        token_weights(*loaded("sam-roberta", use_tam=False), TEXTS)
    with pytest.raises(ValueError, match="`batch_size` must be at least 1; got 0"):
        token_weights(*loaded("sam-roberta"), TEXTS, batch_size=0)
