"""Attention by blocks of rows: the results of whole rows, in memory that grows with the length."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hf_localattn import SlaBertConfig, SlaBertModel
from hf_localattn.models import sla_row_blocks
from hf_localattn.models.sla_attention import gated_attention
from hf_localattn.models.sla_masks import syntax_tables, window_tables
from tests.models.test_sla_attention import SCALING, assert_same, loop, masks, outputs_and_gradients, random_inputs
from tests.models.test_sla_masks import syntax_mask, window_mask
from tests.models.tiny import COMMON, adapted, enable_checkpointing, tiny_model, token_ids

LENGTH = 23
ROWS = 5
MASK = torch.ones(3, LENGTH, dtype=torch.long)
MASK[1, 13:] = 0
MASK[2, :6] = 0


@pytest.fixture
def model_inputs():
    return {"input_ids": token_ids(3, LENGTH), "attention_mask": MASK}


def build(dropout=0.0, implementation="sdpa", **fields):
    model = tiny_model("sla-bert", **fields).double().train()
    model.set_attn_implementation(implementation)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return model


def states_and_gradients(model, inputs, rows, monkeypatch):
    """Return the states of real tokens and all gradients, with blocks of the given number of rows."""
    monkeypatch.setattr(sla_row_blocks, "ROWS", rows)
    torch.manual_seed(1)
    given = adapted(model, **inputs)
    states = model(**given).last_hidden_state[given["attention_mask"].bool()]
    (states * torch.linspace(-1, 2, states.numel(), dtype=states.dtype).view_as(states)).sum().backward()
    found = [states.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]
    model.zero_grad()
    return found


@pytest.mark.parametrize("sizes", [(2, 3, LENGTH, 3), (1, 2, 11, 5), (3, 1, 6, 4)], ids=str)
@pytest.mark.parametrize("kind", ["local", "both"])
def test_equals_the_loop(kind, sizes, monkeypatch):
    monkeypatch.setattr(sla_row_blocks, "ROWS", ROWS)
    batch, _, length, _ = sizes
    inputs, (mask, local_mask) = random_inputs(*sizes), masks(kind, batch, length)

    def blocks(*states):
        return sla_row_blocks.attend_by_blocks(
            lambda *block: gated_attention(*block, scaling=SCALING)[0],
            *states,
            mask,
            lambda rows: local_mask[:, 0, rows],
        )

    expected = outputs_and_gradients(lambda *states: loop(*states, mask, local_mask)[0], inputs)
    assert_same(outputs_and_gradients(blocks, inputs), expected)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["syntax", "window"])
def test_a_model_equals_whole_rows_with_the_same_dropout(kind, implementation, dropout, model_inputs, monkeypatch):
    model = build(dropout, implementation, local_attention=kind)
    found = states_and_gradients(model, model_inputs, ROWS, monkeypatch)
    assert_same(found, states_and_gradients(model, model_inputs, LENGTH, monkeypatch))


def test_layers_without_local_attention_and_batches_without_padding(model_inputs, monkeypatch):
    model = build(implementation="eager", sla_layers=[1], connect_roots=True)
    for inputs in (model_inputs, model_inputs | {"attention_mask": torch.ones_like(MASK)}):
        found = states_and_gradients(model, inputs, ROWS, monkeypatch)
        assert_same(found, states_and_gradients(model, inputs, LENGTH, monkeypatch))


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_nothing(reentrant, model_inputs, monkeypatch):
    model = build(dropout=0.3)
    expected = states_and_gradients(model, model_inputs, ROWS, monkeypatch)
    enable_checkpointing(model, {"use_reentrant": reentrant})
    assert_same(states_and_gradients(model, model_inputs, ROWS, monkeypatch), expected)


def test_autocast_equals_whole_rows(model_inputs, monkeypatch):
    model = build(dropout=0.3).float()
    with torch.autocast("cpu", torch.bfloat16):
        found = states_and_gradients(model, model_inputs, ROWS, monkeypatch)
        expected = states_and_gradients(model, model_inputs, LENGTH, monkeypatch)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05 * max(0.02, float(other.abs().max())))


@pytest.mark.parametrize("how", ["compile", "export", "func"])
def test_traced_and_transformed_models_use_whole_rows(how, model_inputs, monkeypatch):
    model = build(local_attention="window").eval()
    given = adapted(model, **model_inputs)
    monkeypatch.setattr(sla_row_blocks, "ROWS", ROWS)
    expected = model(**given).last_hidden_state
    if how == "compile":
        torch.compiler.reset()
        found = torch.compile(model, fullgraph=True, backend="eager")(**given).last_hidden_state
    elif how == "export":
        found = torch.export.export(model, (), given, strict=False).module()(**given).last_hidden_state
    else:
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
        found, _ = torch.func.vjp(
            lambda parameters: torch.func.functional_call(model, parameters, (), given).last_hidden_state, parameters
        )
    assert_same([found[MASK.bool()]], [expected[MASK.bool()]])


def test_attentions_that_are_asked_for_are_whole(model_inputs, monkeypatch):
    monkeypatch.setattr(sla_row_blocks, "ROWS", ROWS)
    model = build(implementation="eager")
    output = model(**adapted(model, **model_inputs), output_attentions=True)
    for weights in (*output.attentions, *output.local_attentions):
        assert weights.shape == (3, 2, LENGTH, LENGTH)


class LargestTensor(TorchDispatchMode):
    """Record the number of elements of the largest storage that operations return."""

    largest = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_as_large_as_a_mask(training, implementation, monkeypatch):
    """Neither weights nor a mask of all pairs of 400 tokens, forward or backward."""
    length, sizes = 400, {**COMMON, "hidden_size": 8, "intermediate_size": 8, "max_position_embeddings": 400}
    model = SlaBertModel(SlaBertConfig(backbone_config={"model_type": "bert", **sizes})).train(training)
    model.set_attn_implementation(implementation)
    mask = torch.ones(1, length, dtype=torch.long)
    mask[:, -99:] = 0
    given = adapted(model, input_ids=token_ids(1, length), attention_mask=mask)
    largest = {}
    for rows in (16, length):
        monkeypatch.setattr(sla_row_blocks, "ROWS", rows)
        with LargestTensor() as mode, torch.set_grad_enabled(training):
            states = model(**given).last_hidden_state
            if training:
                states.sum().backward()
        largest[rows] = mode.largest
    assert largest[16] < length * length / 4 < length * length <= largest[length]


@pytest.mark.parametrize("connect_roots", [False, True])
def test_rows_of_masks_are_those_of_the_whole(connect_roots):
    model = tiny_model("sla-bert")
    given = adapted(model, input_ids=token_ids(3, LENGTH), attention_mask=MASK)
    structure = given["word_index"], given["dep_heads"]
    settings = {"threshold": 2, "neighbor_window": 2, "connect_roots": connect_roots}
    for whole, rows in (
        (syntax_mask(*structure, **settings), syntax_tables(*structure, **settings).rows),
        (window_mask(structure[0]), window_tables(structure[0]).rows),
    ):
        assert not whole.all()
        for start in range(0, LENGTH, ROWS):
            part = slice(start, start + ROWS)
            assert torch.equal(rows(part), whole[:, part])
