"""What an OA model does beside its mechanism: where blocks and dropout stand, and the inputs that it needs."""

import pytest
import torch
from torch.nn import functional

from hf_localattn import OaXLNetModel
from hf_localattn.models.oa_attention import query_positions
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.naive import assert_same
from tests.models.tiny import at_tokens, gradients, tiny_config, tiny_model, token_ids

MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
QUERY = torch.zeros(3, 11, dtype=torch.long)  # three, two and no query tokens
QUERY[0, [1, 4, 9]] = 1
QUERY[1, [0, 6]] = 1
HEADS = tuple(FAMILIES["oa-xlnet"].heads)
TOKENS = "token-classification"
INPUTS = {"input_ids": token_ids(3, 11), "attention_mask": MASK}
BATCH = {**INPUTS, "query_mask": QUERY}


def test_the_baseline_is_the_backbone():
    """Section 2.2, under the heads of all families. It needs no query, and reads none."""
    model = tiny_model("oa-xlnet", local_attention="none")
    alone = model.backbone_model(**INPUTS, token_type_ids=torch.zeros_like(MASK)).last_hidden_state
    assert_same([model(**given).last_hidden_state for given in (INPUTS, BATCH)], [alone, alone], 0)
    assert model.config.required_inputs == ()


def test_the_blocks_stand_on_the_backbone_as_printed():
    """Section 4: dropout, block, block, dropout, residual. Each block gathers the queries from its input."""
    model = tiny_model("oa-xlnet")
    output = model(**BATCH, output_hidden_states=True, output_attentions=True)
    states = expected = output.hidden_states[-1]
    positions, real = query_positions(QUERY.bool())
    for block, shown in zip(model.blocks, output.local_attentions, strict=True):
        query = torch.stack([row[place] for row, place in zip(expected, positions, strict=True)])
        expected, weights = block(expected, query, MASK.bool(), real, True)
        assert_same([shown], [weights], tolerance=1e-6)
        assert shown.shape == (3, 2, 11, 3)
    assert_same([output.last_hidden_state], [expected + states], tolerance=1e-6)


@pytest.mark.parametrize("head", [TOKENS, "question-answering"])
def test_dropout_stands_where_the_paper_has_it(head, monkeypatch):
    """Dropout is before and after the blocks, before the last layer, and on the weights of each block."""
    model = tiny_model("oa-xlnet", head, oa_dropout=0.3, classifier_dropout=0.2).train()
    shares = []

    def record(states, p=0.5, training=True, inplace=False):
        shares.append(p)
        return states

    monkeypatch.setattr(functional, "dropout", record)
    model(**BATCH)
    assert [share for share in shares if share] == [0.3, 0.3, 0.3, 0.3, 0.2]


def test_pads_are_never_query_tokens():
    model = tiny_model("oa-xlnet", TOKENS)
    everywhere = {**BATCH, "query_mask": QUERY | (1 - MASK)}
    found, expected = (at_tokens(TOKENS, [model(**inputs).logits], MASK) for inputs in (everywhere, BATCH))
    assert_same(found, expected, tolerance=1e-6)


@pytest.mark.parametrize("head", ["headless", *HEADS])
def test_a_missing_query_is_named(head):
    model = tiny_model("oa-xlnet", head)
    given = token_ids(2, 5)[None] if head == "multiple-choice" else token_ids(2, 5)
    with pytest.raises(ValueError, match="`query_mask` is missing"):
        model(input_ids=given)
    with pytest.raises(ValueError, match=r"`query_mask` is of shape \(2, 4\)"):
        model(input_ids=given, query_mask=torch.ones(*given.shape[:-1], 4))


FINDS_CUES = {0: "O", 1: "SCOPE", 2: "negation:single", 3: "speculation:multi"}


def test_a_batch_without_any_query_is_told_once(caplog):
    ids, cued = token_ids(2, 4), torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0]])
    hidden = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]])  # the only query token is padding

    def told(mask, is_compiled=False, attention_mask=None, **fields):
        model = FAMILIES["oa-xlnet"].heads[TOKENS].from_backbone(tiny_backbone(), **fields)
        run = torch.compile(model, backend="eager") if is_compiled else model
        caplog.clear()
        with torch.no_grad():
            for _ in range(2):
                run(input_ids=ids, query_mask=mask, attention_mask=attention_mask)
        return caplog.text.count("No row of this batch has a query token")

    assert (told(cued), told(0 * cued), told(cued, attention_mask=hidden)) == (0, 1, 1)
    assert (told(0 * cued, id2label=FINDS_CUES), told(0 * cued, local_attention="none")) == (0, 0)
    assert told(0 * cued, is_compiled=True) == 0


def test_rows_without_any_query_train_too():
    """Distributed training needs a gradient for every parameter in any batch, also with all dropouts."""
    model = tiny_model("oa-xlnet", TOKENS, oa_dropout=0.9, classifier_dropout=0.9).train()
    found = gradients(model, TOKENS, **{**BATCH, "query_mask": torch.zeros_like(QUERY)})
    assert all(gradient is not None and gradient.isfinite().all() for gradient in found.values())


def test_new_blocks_start_as_torch_starts_linear_layers():
    """The bound of a layer's initial weights is 1 / sqrt(number of inputs) at any width."""
    for name, parameter in OaXLNetModel(tiny_config("oa-xlnet")).blocks[0].named_parameters():
        if name.endswith("weight") and "norm" not in name:
            bound = parameter.shape[-1] ** -0.5
            assert 0.8 * bound < parameter.abs().max() <= bound, name
