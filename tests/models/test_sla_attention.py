"""Compare the mixture of local and global attention, its gate and LISA's loss with the equations and transformers."""

from types import SimpleNamespace

import pytest
import torch
from transformers.models.bert.modeling_bert import eager_attention_forward

from hf_localattn.models.sla_attention import LocalGate, gated_attention
from hf_localattn.models.sla_baselines import parent_loss
from tests.reference import sla as reference

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 5, 3
SCALING = 0.6
DRAW = {"scaling": 1.0, "training": True}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def random_inputs(batch=BATCH, heads=HEADS, length=LENGTH, width=WIDTH, dtype=torch.float64):
    """Return random query, key, value and gate."""
    states = [torch.randn(batch, heads, length, width, dtype=torch.float64) for _ in range(3)]
    gate = torch.rand(batch, length, 1, dtype=torch.float64)
    return [tensor.to(dtype).requires_grad_() for tensor in (*states, gate)]


def additive(allowed, dtype=torch.float64):
    """Convert (B, L, L), True where the query may attend to the key, to a mask that is added to the scores."""
    return torch.zeros_like(allowed, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)[:, None]


def masks(kind, batch=BATCH, length=LENGTH, dtype=torch.float64):
    """Return a global mask, and a local mask that includes it, as in a model."""
    real = torch.ones(batch, length, length, dtype=torch.bool)
    real[-1, :, (length + 1) // 2 :] = False
    near = torch.rand(batch, length, length) < 0.5
    near |= torch.eye(length, dtype=torch.bool)
    blocked = near.clone()
    blocked[:, 0] = False
    return {
        "none": (None, None),
        "padding": (additive(real, dtype), additive(real, dtype)),
        "local": (None, additive(near, dtype)),
        "both": (additive(real, dtype), additive(near & real, dtype)),
        "any numbers": tuple(torch.randn(2, batch, 1, length, length, dtype=dtype)),
        "a row without local keys": (additive(real, dtype), additive(blocked & real, dtype)),
        "a row without keys": (additive(blocked, dtype), additive(blocked, dtype)),
    }[kind]


KINDS = ["none", "padding", "local", "both", "any numbers", "a row without local keys", "a row without keys"]
OPEN = ["none", "padding", "a row without keys"]


def plain(query, key, value, mask, training=False, dropout=0.0):
    """Compute attention like an encoder of transformers."""
    stub = SimpleNamespace(training=training)
    return eager_attention_forward(stub, query, key, value, mask, scaling=SCALING, dropout=dropout)


def loop(query, key, value, gate, mask, local_mask):
    rows = []
    for number, states in enumerate(zip(query, key, value, gate[..., 0], strict=True)):
        both = [None if one is None else one[number, 0] for one in (mask, local_mask)]
        rows.append(reference.gated_attention(*states, *both, SCALING))
    return [torch.stack(part) for part in zip(*rows, strict=True)]


def outputs_and_gradients(function, inputs):
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    total = sum((part * torch.linspace(-1, 2, part.numel(), dtype=part.dtype).view_as(part)).sum() for part in outputs)
    return [*outputs, *torch.autograd.grad(total, inputs)]


def assert_same(actual, expected, tolerance=1e-12):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_loop(kind):
    inputs, both = random_inputs(), masks(kind)
    fast = outputs_and_gradients(lambda *states: gated_attention(*states, *both, scaling=SCALING), inputs)
    assert_same(fast, outputs_and_gradients(lambda *states: loop(*states, *both), inputs))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 2, 7, 5), (3, 1, 2, 4)], ids=str)
def test_equals_the_loop_at_odd_sizes(sizes):
    batch, _, length, _ = sizes
    inputs, both = random_inputs(*sizes), masks("both", batch, length)
    fast = outputs_and_gradients(lambda *states: gated_attention(*states, *both, scaling=SCALING), inputs)
    assert_same(fast, outputs_and_gradients(lambda *states: loop(*states, *both), inputs))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_gate_is_the_stock_attention_to_the_bit(kind, dtype):
    query, key, value, gate = (tensor.detach() for tensor in random_inputs(length=17, dtype=dtype))
    mask, local_mask = masks(kind, length=17, dtype=dtype)
    output, weights, _ = gated_attention(query, key, value, torch.zeros_like(gate), mask, local_mask, scaling=SCALING)
    expected, expected_weights = plain(query, key, value, mask)
    assert output.dtype == dtype
    assert torch.equal(output, expected)
    assert torch.equal(weights, expected_weights)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", OPEN)
def test_an_open_local_mask_is_the_stock_attention_to_the_bit_for_any_gate(kind, dtype):
    query, key, value, gate = (tensor.detach() for tensor in random_inputs(length=17, dtype=dtype))
    mask, local_mask = masks(kind, length=17, dtype=dtype)
    output, weights, local_weights = gated_attention(query, key, value, gate, mask, local_mask, scaling=SCALING)
    expected, expected_weights = plain(query, key, value, mask)
    assert torch.equal(output, expected)
    assert torch.equal(weights, expected_weights)
    assert torch.equal(local_weights, expected_weights)


def test_an_open_gate_is_local_attention():
    query, key, value, gate = (tensor.detach() for tensor in random_inputs())
    mask, local_mask = masks("both")
    output, weights, local_weights = gated_attention(
        query, key, value, torch.ones_like(gate), mask, local_mask, scaling=SCALING
    )
    assert torch.equal(weights, local_weights)
    assert_same([output], [plain(query, key, value, local_mask)[0]])
    assert not weights[(local_mask < 0).expand_as(weights)].any()


def test_a_gate_by_hand():
    """With equal scores and one local key of three: 1/3 for each globally, 1 for it locally, mixed half and half."""
    query = torch.zeros(1, 1, 3, 2)
    value = torch.tensor([[[[6.0, 0.0], [0.0, 6.0], [0.0, 0.0]]]])
    near = additive(torch.eye(3, dtype=torch.bool)[None], torch.float32)
    gate = torch.tensor([[[0.5], [0.0], [1.0]]])
    output, weights, local_weights = gated_attention(query, query, value, gate, None, near, scaling=1.0)
    expected = torch.tensor([[4 / 6, 1 / 6, 1 / 6], [2 / 6, 2 / 6, 2 / 6], [0, 0, 1]])
    torch.testing.assert_close(weights[0, 0], expected)
    torch.testing.assert_close(output[0, :, 0], torch.tensor([[4.0, 1.0], [2.0, 2.0], [0.0, 0.0]]))
    assert torch.equal(local_weights[0, 0], torch.eye(3))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_sum_to_one(kind):
    _, weights, local_weights = gated_attention(*random_inputs(), *masks(kind), scaling=SCALING)
    for part in (weights, local_weights):
        torch.testing.assert_close(part.sum(-1), torch.ones_like(part[..., 0]))


@pytest.mark.parametrize("extreme", [1, 30], ids=["usual scores", "scores beyond the mask's reach"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_stays_finite(dtype, kind, extreme):
    query, key, value, gate = random_inputs(dtype=dtype)
    # Every score is negative, so adding it to the lowest number overflows.
    inputs = [query.detach().abs() * extreme, -key.detach().abs() * extreme, value.detach(), gate.detach()]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    both = masks(kind, dtype=dtype)
    results = outputs_and_gradients(lambda *states: gated_attention(*states, *both, scaling=SCALING)[0], inputs)
    assert all(result.isfinite().all() for result in results)
    assert all(result.dtype == dtype for result in results)


def test_dropout_is_drawn_for_each_attention_separately():
    """If both attentions are equal, a weight survives in none, one or both halves of the mixture."""
    drop, copies = 0.4, 400
    states = [tensor.detach()[:1].expand(copies, -1, -1, -1) for tensor in random_inputs(width=LENGTH)[:3]]
    gate = torch.full((copies, LENGTH, 1), 0.5, dtype=torch.float64)
    _, whole, _ = gated_attention(*states, gate, None, None, scaling=SCALING)
    output, weights, _ = gated_attention(*states, gate, None, None, scaling=SCALING, dropout=drop, training=True)
    halves = (weights / whole) * (1 - drop) * 2
    torch.testing.assert_close(halves, halves.round())
    shares = torch.bincount(halves.round().long().flatten(), minlength=3) / halves.numel()
    torch.testing.assert_close(
        shares, torch.tensor([drop**2, 2 * drop * (1 - drop), (1 - drop) ** 2]), rtol=0, atol=0.02
    )
    assert_same([output], [(weights @ states[2]).transpose(1, 2)])


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_both_attentions_are_dropped_independently_of_each_other(dropout):
    """The draws share random numbers, but all four outcomes are as frequent as with two draws."""
    torch.manual_seed(0)
    states = torch.zeros(1, 1, 700, 4)
    _, _, local = gated_attention(states, states, states, torch.ones(1, 700, 1), None, **DRAW, dropout=dropout)
    torch.manual_seed(0)
    _, everywhere, _ = gated_attention(states, states, states, torch.zeros(1, 700, 1), None, **DRAW, dropout=dropout)
    kept, local_kept = everywhere > 0, local > 0
    keep = 1 - dropout
    for both, expected in (
        (kept & local_kept, keep * keep),
        (kept & ~local_kept, keep * dropout),
        (~kept & local_kept, dropout * keep),
        (~kept & ~local_kept, dropout * dropout),
    ):
        torch.testing.assert_close(both.double().mean().item(), expected, rtol=0, atol=0.004)  # six deviations
    torch.testing.assert_close(local.max(), torch.tensor(1 / 700 / keep))


@pytest.mark.parametrize("gate", [0.0, 1.0])
def test_dropout_falls_on_either_attention_and_keeps_the_expectation(gate):
    copies = 4000
    states = [tensor.detach()[:1].expand(copies, -1, -1, -1) for tensor in random_inputs()[:3]]
    _, local_mask = masks("local", batch=1)
    gates = torch.full((copies, LENGTH, 1), gate, dtype=torch.float64)
    expected, _, _ = gated_attention(*states, gates, None, local_mask, scaling=SCALING)
    dropped, _, _ = gated_attention(*states, gates, None, local_mask, scaling=SCALING, dropout=0.3, training=True)
    assert not torch.allclose(dropped, expected)
    torch.testing.assert_close(dropped.mean(0), expected[0], rtol=0.1, atol=0.1)


def test_dropout_is_off_in_evaluation():
    inputs, both = random_inputs(), masks("both")
    expected = gated_attention(*inputs, *both, scaling=SCALING)
    assert_same(gated_attention(*inputs, *both, scaling=SCALING, dropout=0.5), expected, tolerance=0)
    assert_same(gated_attention(*inputs, *both, scaling=SCALING, training=True), expected, tolerance=0)


def test_reads_no_uninitialized_memory(poisoned_memory):
    inputs, both = random_inputs(), masks("both")
    results = outputs_and_gradients(lambda *states: gated_attention(*states, *both, scaling=SCALING), inputs)
    assert all(result.isfinite().all() for result in results)


def test_gate_equals_equation_5():
    gate = LocalGate(WIDTH).double()
    (weight, bias) = parameters = list(gate.parameters())
    assert [tuple(parameter.shape) for parameter in parameters] == [(1, WIDTH), (1,)]
    torch.nn.init.normal_(weight)
    torch.nn.init.normal_(bias)
    states = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    inputs = [states, *parameters]
    fast = outputs_and_gradients(lambda states, *_: gate(states).sigmoid(), inputs)
    slow = outputs_and_gradients(
        lambda states, *layer: torch.stack([reference.gate(row, *layer) for row in states])[..., None], inputs
    )
    assert_same(fast, slow)


@pytest.mark.parametrize("padded", [False, True])
def test_parent_loss_equals_the_loop(padded):
    """[CLS] 0 1 1 2 [SEP], and [CLS] 0 [SEP] with padding or with words without heads."""
    query, key = (tensor.detach()[:, 0].requires_grad_() for tensor in random_inputs(length=6)[:2])
    heads = [[-1, 2, 2, 2, 1, -1], [-1, 1, -1, -1, -1, -1]]
    real = [[True] * 6, [True] * 3 + [False] * 3] if padded else None
    mask = torch.tensor(real) if padded else None

    def fast(query, key):
        return parent_loss(query, key, mask, torch.tensor(heads), scaling=SCALING)

    def slow(query, key):
        return reference.lisa_loss([query @ key.mT * SCALING], heads, real)

    assert_same(outputs_and_gradients(fast, (query, key)), outputs_and_gradients(slow, (query, key)))


def test_parent_loss_by_hand():
    """With equal scores, the loss is log 4 for four keys, or log 3 if one of them is padding."""
    query = torch.zeros(2, 4, 2)
    parents = torch.tensor([[-1, 1, 1, -1], [-1, 1, -1, -1]])
    loss = parent_loss(query, query, None, parents, scaling=1.0)
    torch.testing.assert_close(loss, torch.tensor(4.0).log())
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    loss = parent_loss(query, query, mask, parents, scaling=1.0)
    torch.testing.assert_close(loss, (2 * torch.tensor(4.0).log() + torch.tensor(3.0).log()) / 3)


def test_parent_loss_without_words_is_zero():
    inputs = [tensor.detach()[:, 0].requires_grad_() for tensor in random_inputs()[:2]]
    nothing = torch.full((BATCH, LENGTH), -1)
    loss, *gradients = outputs_and_gradients(
        lambda query, key: parent_loss(query, key, None, nothing, scaling=SCALING), inputs
    )
    assert loss == 0
    assert not any(gradient.any() for gradient in gradients)


def test_all_can_be_dropped():
    states = torch.randn(1, 1, 5, 4)
    output, weights, _ = gated_attention(states, states, states, torch.rand(1, 5, 1), None, **DRAW, dropout=1.0)
    assert not output.any()
    assert not weights.any()
