"""Fields, inputs and sizes of the OA models."""

import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForTokenClassification

from hf_localattn import OaXLNetConfig, OaXLNetModel
from hf_localattn.models.oa_attention import query_positions
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import (
    TINY_BACKBONES,
    at_tokens,
    gradients,
    loss,
    main_outputs,
    run,
    tiny_config,
    tiny_model,
    token_ids,
)

INTERACTIONS = ("em", "emb", "c", "ca")

MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
# Three, two and no query tokens.
QUERY = torch.zeros(3, 11, dtype=torch.long)
QUERY[0, [1, 4, 9]] = 1
QUERY[1, [0, 6]] = 1
HEADS = ("text-classification", "token-classification", "question-answering", "multiple-choice", "fill-mask")
# Widths of heads that are squares.
SQUARE = {"oa_num_heads": 2}


def batch():
    return {"input_ids": token_ids(3, 11), "attention_mask": MASK, "query_mask": QUERY}


# --- variants


@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_chunks_change_nothing(interaction):
    whole = tiny_model("oa-xlnet", "token-classification", local_attention=interaction, **SQUARE)
    chunked = tiny_model("oa-xlnet", "token-classification", local_attention=interaction, oa_chunk_size=4, **SQUARE)
    torch.testing.assert_close(chunked(**batch()).logits, whole(**batch()).logits, rtol=1e-6, atol=1e-6)
    expected = gradients(whole.train(), "token-classification", **batch())
    actual = gradients(chunked.train(), "token-classification", **batch())
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("head", HEADS)
def test_none_is_the_backbone_under_the_head(head):
    """The paper's baseline needs no query and returns the states of the backbone."""
    model = tiny_model("oa-xlnet", head, local_attention="none")
    inputs = {"input_ids": token_ids(3, 11), "attention_mask": MASK}
    expected = main_outputs(run(model, **inputs))
    assert all("blocks" not in name for name in model.state_dict())
    assert model.config.required_inputs == ()
    for one, other in zip(main_outputs(run(model, **inputs, query_mask=QUERY)), expected, strict=True):
        assert torch.equal(one, other)
    headless = tiny_model("oa-xlnet", local_attention="none")
    alone = headless.backbone_model(inputs["input_ids"], MASK, token_type_ids=torch.zeros_like(MASK))
    assert torch.equal(headless(**inputs).last_hidden_state, alone.last_hidden_state)


def test_the_baseline_computes_what_the_stock_class_computes(tmp_path):
    """Backbone, dropout, linear (section 2.2)."""
    model = tiny_model("oa-xlnet", "token-classification", local_attention="none")
    model.backbone_model.save_pretrained(tmp_path)
    stock = AutoModelForTokenClassification.from_pretrained(tmp_path, num_labels=2).eval()
    stock.classifier.load_state_dict(model.token_classifier.state_dict())
    inputs = {"input_ids": token_ids(3, 11), "attention_mask": MASK, "labels": token_ids(3, 11) % 2}
    ours = model(**inputs)
    theirs = stock(**inputs, token_type_ids=torch.zeros_like(MASK))
    torch.testing.assert_close(ours.logits[MASK.bool()], theirs.logits[MASK.bool()], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.loss, theirs.loss, rtol=1e-5, atol=1e-6)


def test_the_blocks_stand_on_the_backbone_as_printed():
    """Section 4: dropout, block, block, dropout, residual. Each block gathers the queries from its input."""
    model = tiny_model("oa-xlnet")
    states = model(**batch(), output_hidden_states=True).hidden_states[-1]
    expected = states
    positions, real = query_positions(QUERY.bool())
    for block in model.blocks:
        query = torch.stack([row[place] for row, place in zip(expected, positions, strict=True)])
        expected, _ = block(expected, query, MASK.bool(), real)
    torch.testing.assert_close(model(**batch()).last_hidden_state, expected + states, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("head", ["token-classification", "question-answering"])
def test_dropout_stands_where_the_paper_has_it(head, monkeypatch):
    """Dropout is before and after the blocks, before the last layer, and on the weights of each block."""
    model = tiny_model("oa-xlnet", head, oa_dropout=0.3, classifier_dropout=0.2).train()
    shares = []

    def record(states, p=0.5, training=True, inplace=False):
        shares.append(p)
        return states

    monkeypatch.setattr(functional, "dropout", record)
    model(**batch())
    assert [share for share in shares if share] == [0.3, 0.3, 0.3, 0.3, 0.2]


# --- outputs and inputs


def test_weights_of_each_block_are_given():
    model = tiny_model("oa-xlnet")
    output = model(**batch(), output_attentions=True)
    assert [tuple(weights.shape) for weights in output.local_attentions] == [(3, 2, 11, 3)] * 2
    for weights in output.local_attentions:
        torch.testing.assert_close(weights[0].sum(-1), torch.ones(2, 11))
        torch.testing.assert_close(weights[1, ..., :2].sum(-1), torch.ones(2, 11))
        assert not weights[1, ..., 2].any()  # has two query tokens
        assert not weights[2].any()  # has none


def test_query_tokens_come_in_the_order_of_the_text():
    positions, real = query_positions(QUERY.bool())
    assert positions[0].tolist() == [1, 4, 9]
    assert positions[1, :2].tolist() == [0, 6]
    assert real.tolist() == [[True] * 3, [True, True, False], [False] * 3]
    assert query_positions(torch.zeros(2, 5, dtype=torch.bool))[1].tolist() == [[False], [False]]


def test_pads_are_never_query_tokens():
    model = tiny_model("oa-xlnet", "token-classification")
    everywhere = {**batch(), "query_mask": QUERY | (1 - MASK)}
    expected, actual = (model(**inputs).logits for inputs in (batch(), everywhere))
    outputs = [at_tokens("token-classification", [one], MASK)[0] for one in (actual, expected)]
    torch.testing.assert_close(*outputs, rtol=1e-6, atol=1e-6)


def test_the_query_changes_what_is_said():
    model = tiny_model("oa-xlnet", "token-classification")
    moved = {**batch(), "query_mask": QUERY.roll(1, dims=1)}
    assert not torch.allclose(model(**moved).logits, model(**batch()).logits, atol=1e-4)


@pytest.mark.parametrize("head", ["headless", *HEADS])
def test_a_missing_query_is_named(head):
    model = tiny_model("oa-xlnet", head)
    given = token_ids(2, 5)[None] if head == "multiple-choice" else token_ids(2, 5)
    with pytest.raises(ValueError, match=r"`query_mask` is missing.*an OaXLNetTokenizer"):
        model(input_ids=given)
    with pytest.raises(ValueError, match=r"`query_mask` is of shape \(2, 4\)"):
        model(input_ids=given, query_mask=torch.ones(*given.shape[:-1], 4))


def test_a_batch_without_any_query_is_told_once(caplog):
    head = FAMILIES["oa-xlnet"].heads["token-classification"]
    ids = torch.tensor([[2, 5, 6, 3], [2, 7, 8, 3]])
    cued = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0]])
    hidden = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]])  # the only query token is padding

    def told(model, mask, **inputs):
        caplog.clear()
        with torch.no_grad():
            model(input_ids=ids, query_mask=mask, **inputs)
        return caplog.text.count("No row of this batch has a query token")

    for backend in (lambda model: model, lambda model: torch.compile(model, backend="eager")):
        model = head.from_backbone(tiny_backbone())
        assert told(model, cued) == 0
        assert told(backend(model), 0 * cued) == (backend(model) is model)
    model = head.from_backbone(tiny_backbone())
    assert told(model, cued, attention_mask=hidden) == 1
    assert told(model, 0 * cued) == 0  # once per model
    assert told(head.from_backbone(tiny_backbone()), 0 * cued) == 1
    finds_cues = {0: "O", 1: "SCOPE", 2: "negation:single", 3: "speculation:multi"}
    for fields in ({"id2label": finds_cues}, {"local_attention": "none"}):
        assert told(head.from_backbone(tiny_backbone(), **fields), 0 * cued) == 0


def test_rows_without_any_query_train_too():
    """Distributed training needs a gradient for every parameter in any batch."""
    model = tiny_model("oa-xlnet", "token-classification").train()
    found = gradients(model, "token-classification", **{**batch(), "query_mask": torch.zeros_like(QUERY)})
    assert all(gradient is not None and gradient.isfinite().all() for gradient in found.values())


def test_all_dropouts_together_are_finite():
    model = tiny_model("oa-xlnet", "token-classification", oa_dropout=0.9, classifier_dropout=0.9).train()
    assert loss(model, "token-classification", **batch()).isfinite()


# --- fields


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"local_attention": "emc"}, "`local_attention` is 'emc'"),
        ({"oa_num_heads": 5}, "`oa_num_heads` is 5; for the width 32 use one of 1, 2, 4, 8, 16, 32"),
        ({"oa_num_heads": 0}, "`oa_num_heads` is 0"),
        ({"local_attention": "ca", "oa_num_heads": 4}, "use one of 2, 8, 32, with heads of a square"),
        ({"kv_sharing": "some"}, "`kv_sharing` is 'some'"),
        ({"query_summary": "x"}, "`query_summary` is 'x'"),
        ({"share_context_projection": 1}, "`share_context_projection` is 1"),
        ({"oa_chunk_size": 0}, "`oa_chunk_size` is 0"),
        ({"num_oa_layers": 0}, "`num_oa_layers` is 0"),
        ({"oa_dropout": 1.0}, "`oa_dropout` is 1.0"),
    ],
)
def test_impossible_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        tiny_config("oa-xlnet", **fields)


def test_heads_of_a_block_are_twelve_where_they_fit():
    assert OaXLNetConfig(backbone_config={"model_type": "bert", "hidden_size": 768}).oa_num_heads == 12
    assert tiny_config("oa-xlnet", "bert").oa_num_heads == 2  # the backbone's: 12 do not divide 32
    wide = {"model_type": "bert", "hidden_size": 384, "num_attention_heads": 12}
    assert OaXLNetConfig(backbone_config=wide).oa_num_heads == 12
    assert OaXLNetConfig(backbone_config=wide, local_attention="ca").oa_num_heads == 6  # 64 wide; of 12 they were 32


def test_fields_without_effect_are_told(caplog):
    tiny_config("oa-xlnet", local_attention="em", query_summary="plain")
    assert "`query_summary` is 'plain', which has no effect" in caplog.text
    caplog.clear()
    tiny_config("oa-xlnet", local_attention="none", num_oa_layers=3)
    assert "`num_oa_layers` is 3, which has no effect" in caplog.text


@pytest.mark.parametrize("backbone", TINY_BACKBONES)
def test_every_backbone_takes_every_interaction(backbone):
    for interaction in INTERACTIONS:
        model = tiny_model("oa-xlnet", backbone=backbone, local_attention=interaction, **SQUARE)
        assert model(**batch()).last_hidden_state.isfinite().all()


# --- size


def test_new_blocks_start_as_torch_starts_linear_layers():
    """The bound of a layer's initial weights is 1 / sqrt(number of inputs) at any width."""
    model = OaXLNetModel(tiny_config("oa-xlnet"))
    for name, parameter in model.blocks[0].named_parameters():
        if name.endswith("weight") and "norm" not in name:
            bound = parameter.shape[-1] ** -0.5
            assert 0.8 * bound < parameter.abs().max() <= bound, name


def test_heads_are_those_of_the_registry():
    assert set(FAMILIES["oa-xlnet"].heads) == set(HEADS)
