"""Orthogonal attention and its block against the paper's equations, under any padding, chunks and batch."""

import itertools
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hf_localattn.models.configuration_oa_xlnet import OaXLNetConfig
from hf_localattn.models.oa_attention import (
    OrthogonalAttention,
    OrthogonalAttentionBlock,
    query_positions,
)
from tests.reference import oa as reference

SIZE, HEADS, INNER = 18, 2, 11  # d_k = 9, whose root is an odd number of its own
CONTEXT_MASK = [[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0]]
QUERY_MASK = [[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
INTERACTIONS = ["em", "emb", "c", "ca"]


def combinations(interaction):
    """Combinations of options. `conv_num_filters` concerns only alpha and is not combined with beta's options."""
    bidirectional, convolutional = interaction in ("emb", "ca"), interaction in ("c", "ca")
    for kv_sharing in ("trunk", "none", "all"):
        for shared, dot, filters in itertools.product([False, True], ["tanh", "plain"], [None, 1, 2]):
            of_beta, of_alpha = shared or dot != "tanh", filters is not None
            if (of_beta and of_alpha) or (of_beta and not bidirectional) or (of_alpha and not convolutional):
                continue
            yield {
                "interaction": interaction,
                "kv_sharing": kv_sharing,
                "share_context_projection": shared,
                "query_summary": dot,
                "conv_num_filters": filters,
            }


CASES = [case for interaction in INTERACTIONS for case in combinations(interaction)]


def identifier(case):
    return "-".join(str(value) for value in case.values())


def randomized(module, scale=0.3):
    """Fill all parameters with asymmetric values, including those that are initialized with zeros or ones."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, scale)
    return module


def config(interaction="emb", dropout=0.0, chunk_size=None, **case):
    return OaXLNetConfig(
        backbone_config={"model_type": "bert", "hidden_size": SIZE},
        oa_num_heads=HEADS,
        oa_intermediate_size=INNER,
        local_attention=interaction,
        oa_dropout=dropout,
        oa_chunk_size=chunk_size,
        **case,
    )


def attention(**case):
    return randomized(OrthogonalAttention(config(**case)).double()).eval()


def block(**case):
    return randomized(OrthogonalAttentionBlock(config(**case)).double()).eval()


def states(*shape, dtype=torch.float64):
    return torch.randn(*shape, SIZE, dtype=torch.float64).to(dtype).requires_grad_()


def ragged_batch(dtype=torch.float64):
    """Return context, query and masks, with padding anywhere and an example without query tokens."""
    masks = torch.tensor(CONTEXT_MASK, dtype=torch.bool), torch.tensor(QUERY_MASK, dtype=torch.bool)
    return [states(*mask.shape, dtype=dtype) for mask in masks], masks


def pair(layer, number=None):
    """Return weight and bias of a layer, or of one head of a `HeadwiseLinear`."""
    weight, bias = layer.weight, layer.bias
    return (weight, bias) if number is None else (weight[number], None if bias is None else bias[number])


def part(layer, number):
    """Return the rows of one head in a Linear over all heads."""
    return layer.weight.chunk(HEADS)[number], layer.bias.chunk(HEADS)[number]


def head_parameters(module, number, case):
    """Return the layers of one head by the reference's names: alpha of keys, alpha of values, and beta."""
    kind, interaction, beta = case["interaction"], module.interaction, module.query_vectors
    names = ("context", "query") if kind in ("em", "emb") else ("context", "filters", "biases")

    def alpha(trunk, last):
        return {**{name: part(getattr(trunk, name), number) for name in names}, "last": pair(last, number)}

    key = alpha(interaction.trunk, interaction.key)
    kv_sharing = case.get("kv_sharing", "trunk")
    if kv_sharing == "all":
        value = key
    else:
        value = alpha(interaction.value_trunk if kv_sharing == "none" else interaction.trunk, interaction.value)
    query = {"query": part(beta.query, number)}
    if kind in ("emb", "ca"):
        shared = case.get("share_context_projection", False)
        query["context"] = key["context"] if shared else part(beta.context, number)
        plain = case.get("query_summary", "tanh") == "plain"
        query["attention"] = None if plain else pair(beta.attention.output, number)
    if kind == "emb":
        query["last"] = pair(beta.output, number)
    if kind == "ca":
        query |= {"filters": pair(beta.filters, number), "biases": pair(beta.biases, number)}
    return key, value, query


def loop(module, case, context, query, context_mask, query_mask, **options):
    heads = [head_parameters(module, number, case) for number in range(HEADS)]
    rows = []
    for one, other, *real in zip(context, query, context_mask.tolist(), query_mask.tolist(), strict=True):
        rows.append(
            reference.orthogonal_attention(
                one, other, *real, case["interaction"], heads, pair(module.output), **options
            )
        )
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def block_loop(module, case, context, query, context_mask, query_mask):
    oa, inner = module.attention, module.self_attention
    heads = [head_parameters(oa, number, case) for number in range(HEADS)]
    layers = {
        "attention": pair(oa.output),
        **{name: pair(getattr(inner, name)) for name in ("query", "key", "value")},
        "mixed": pair(inner.output),
        **{name: pair(getattr(module, name)) for name in ("intermediate", "output")},
        **{name: (*pair(norm), norm.eps) for name in NORMS for norm in [getattr(module, name)]},
    }
    rows = []
    for one, other, *real in zip(context, query, context_mask.tolist(), query_mask.tolist(), strict=True):
        rows.append(reference.block(one, other, *real, case["interaction"], heads, layers, HEADS))
    return [torch.stack(column) for column in zip(*rows, strict=True)]


NORMS = ("attention_norm", "output_norm")


def with_gradients(function, inputs, module):
    """Return outputs and gradients of inputs and all parameters. A parameter without a gradient is an error."""
    outputs = function(*inputs)
    total = sum((one * torch.linspace(-1, 2, one.numel(), dtype=one.dtype).view_as(one)).sum() for one in outputs)
    return [*outputs, *torch.autograd.grad(total, [*inputs, *module.parameters()])]


def assert_same(actual, expected, tolerance=1e-12):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_equals_the_loop(case):
    module = attention(**case)
    inputs, masks = ragged_batch()
    slow = with_gradients(lambda *tensors: loop(module, case, *tensors, *masks), inputs, module)
    # Dead units would hide the layers behind them.
    assert all(gradient.any() for gradient in slow[2:])
    assert_same(with_gradients(lambda *tensors: module(*tensors, *masks, True), inputs, module), slow)


@pytest.mark.parametrize("case", [{"interaction": interaction} for interaction in INTERACTIONS], ids=identifier)
@pytest.mark.parametrize(("batch", "length", "queries"), [(1, 1, 1), (2, 7, 1), (3, 1, 2), (1, 5, 3)])
def test_equals_the_loop_without_masks_at_odd_sizes(case, batch, length, queries):
    module, inputs = attention(**case), [states(batch, length), states(batch, queries)]
    masks = [torch.ones(tensor.shape[:2], dtype=torch.bool) for tensor in inputs]
    slow = with_gradients(lambda *tensors: loop(module, case, *tensors, *masks), inputs, module)
    assert_same(with_gradients(lambda *tensors: module(*tensors, output_attentions=True), inputs, module), slow)


@pytest.mark.parametrize("case", [{"interaction": interaction} for interaction in INTERACTIONS], ids=identifier)
def test_equals_the_diagonal_formula(case):
    module, inputs = attention(**case), [states(2, 5), states(2, 3)]
    masks = [torch.ones(tensor.shape[:2], dtype=torch.bool) for tensor in inputs]
    diagonal = with_gradients(lambda *tensors: loop(module, case, *tensors, *masks, by_diagonal=True), inputs, module)
    assert_same(with_gradients(lambda *tensors: module(*tensors, *masks, True), inputs, module), diagonal)


@pytest.mark.parametrize("case", [{"interaction": interaction} for interaction in INTERACTIONS], ids=identifier)
def test_block_equals_the_loop(case):
    module = block(**case)
    inputs, masks = ragged_batch()
    slow = with_gradients(lambda *tensors: block_loop(module, case, *tensors, *masks), inputs, module)
    assert_same(with_gradients(lambda *tensors: module(*tensors, *masks, True), inputs, module), slow)


@pytest.mark.parametrize("interaction", INTERACTIONS)
@pytest.mark.parametrize("padded", [False, True], ids=["alone", "padded"])
def test_one_query_token_gives_its_values_and_beta_learns_nothing(interaction, padded):
    """The softmax over one token is the constant 1, so Z = W_D concat(V)."""
    module, context = attention(interaction=interaction), states(2, 7)
    query = states(2, 3 if padded else 1)
    mask = torch.tensor([[False, True, False]] * 2) if padded else None
    alpha, _ = reference.INTERACTIONS[interaction]
    values = [head_parameters(module, number, {"interaction": interaction})[1] for number in range(HEADS)]
    asked = query[:, 1 if padded else 0]
    expected = [
        [module.output.weight @ torch.cat([alpha(one, row, **value) for value in values]) for one in rows]
        for rows, row in zip(context, asked, strict=True)
    ]
    z, _ = module(context, query, query_mask=mask)
    assert_same([z], [torch.stack([torch.stack(rows) for rows in expected])])
    z.square().sum().backward()
    assert all(not parameter.grad.any() for parameter in module.query_vectors.parameters())
    assert all(not parameter.grad.any() for parameter in module.interaction.key.parameters())
    assert module.interaction.value.weight.grad.any()


@pytest.mark.parametrize("case", CASES[::3], ids=identifier)
@pytest.mark.parametrize("chunk_size", [1, 3, 7, 100])
def test_chunks_equal_the_whole(case, chunk_size):
    whole, chunked = block(**case), block(chunk_size=chunk_size, **case)
    chunked.load_state_dict(whole.state_dict())
    inputs, masks = ragged_batch()
    expected = with_gradients(lambda *tensors: whole(*tensors, *masks, True), inputs, whole)
    assert_same(with_gradients(lambda *tensors: chunked(*tensors, *masks, True), inputs, chunked), expected)


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_dropout_is_the_same_when_a_chunk_is_computed_again(chunk_size):
    """`gradcheck` would fail if backward used other dropout noise than forward."""
    module = attention(dropout=0.4, chunk_size=chunk_size).train()

    def seeded(*tensors):
        torch.manual_seed(0)
        return module(*tensors)[0]

    inputs = [states(1, 5), states(1, 3)]
    assert torch.autograd.gradcheck(seeded, inputs, fast_mode=True)
    assert not torch.equal(seeded(*inputs), module.eval()(*inputs)[0])


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_weights_are_shown_before_dropout(chunk_size):
    module, inputs = attention(dropout=0.5, chunk_size=chunk_size), [states(2, 5), states(2, 3)]
    _, expected = module(*inputs, output_attentions=True)
    _, weights = module.train()(*inputs, output_attentions=True)
    assert torch.equal(weights, expected)


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_dropout_keeps_the_expectation(chunk_size):
    module = attention(dropout=0.3, chunk_size=chunk_size)
    context, query = states(1, 3).detach(), states(1, 4).detach()
    expected, _ = module(context, query)
    module.train()
    with torch.no_grad():
        many, _ = module(context.expand(6000, -1, -1), query.expand(6000, -1, -1))
    assert (many - expected).abs().max() > 0.1
    torch.testing.assert_close(many.mean(0, keepdim=True), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("case", [{"interaction": interaction} for interaction in INTERACTIONS], ids=identifier)
@pytest.mark.parametrize("build", [attention, block])
def test_pads_change_nothing(build, case):
    module, context, query = build(**case), states(1, 4), states(1, 2)
    alone, weights = module(context, query, output_attentions=True)
    garbage = [torch.randn(2, length, SIZE, dtype=torch.float64) * 5 for length in (9, 5)]
    context_mask, query_mask = torch.zeros(2, 9, dtype=torch.bool), torch.zeros(2, 5, dtype=torch.bool)
    context_mask[0, 3:7] = query_mask[0, [1, 3]] = True
    context_mask[1], query_mask[1] = True, True
    for padded, mask, real in zip(garbage, (context_mask, query_mask), (context, query), strict=True):
        padded[0, mask[0]] = real.detach()[0]
        padded.requires_grad_()
    z, padded_weights = module(*garbage, context_mask, query_mask, True)
    assert_same([z[0, 3:7]], [alone[0]])
    assert_same([padded_weights[0][:, 3:7][..., [1, 3]]], [weights[0]])
    assert not padded_weights[0][..., ~query_mask[0]].any()
    for gradient, mask in zip(
        torch.autograd.grad(z[0, 3:7].square().sum(), garbage), (context_mask, query_mask), strict=True
    ):
        assert gradient[0, mask[0]].any()
        assert not gradient[0, ~mask[0]].any()
        assert not gradient[1].any()


@pytest.mark.parametrize("chunk_size", [None, 3])
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_an_example_without_a_query_gives_zero_and_its_layers_still_run(interaction, chunk_size):
    module, context, query = attention(interaction=interaction, chunk_size=chunk_size), states(2, 7), states(2, 3)
    z, weights = module(context, query, query_mask=torch.zeros(2, 3, dtype=torch.bool), output_attentions=True)
    assert torch.equal(z, torch.zeros_like(z))
    assert torch.equal(weights, torch.zeros_like(weights))
    z.sum().backward()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in module.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("masked", [(), (0,), (1,), (0, 1)], ids=["ragged", "no context", "no query", "nothing"])
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_always_finite(interaction, masked, dtype):
    module = block(interaction=interaction).to(dtype)
    inputs, masks = ragged_batch(dtype)
    masks = [torch.zeros_like(mask) if number in masked else mask for number, mask in enumerate(masks)]
    outputs = module(*inputs, *masks, True)
    for output in outputs:
        assert output.dtype == dtype
        assert output.isfinite().all()
    sum(output.float().square().sum() for output in outputs).backward()
    for tensor in (*inputs, *module.parameters()):
        assert tensor.grad.isfinite().all()


def test_reads_no_uninitialized_memory(poisoned_memory):
    module = block()
    inputs, masks = ragged_batch()
    results = with_gradients(lambda *tensors: module(*tensors, *masks, True), inputs, module)
    assert all(result.isfinite().all() for result in results)


@pytest.mark.parametrize("build", [attention, block])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_asking_for_weights_changes_nothing(build, chunk_size):
    module = build(chunk_size=chunk_size)
    inputs, masks = ragged_batch()
    plain, nothing = module(*inputs, *masks)
    shown, weights = module(*inputs, *masks, output_attentions=True)
    assert nothing is None
    assert torch.equal(plain, shown)
    assert weights.shape == (4, HEADS, 7, 4)
    has_query = masks[1].any(1).double()
    torch.testing.assert_close(weights.sum(-1), has_query[:, None, None].expand(4, HEADS, 7))


class Largest(TorchDispatchMode):
    """Record the size in bytes of the largest tensor in forward and backward."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.bytes = max([self.bytes, *sizes])
        return result


def memory_of_a_step(module, length, queries):
    """Return the number of elements in the largest tensor of a training step, and in all saved for backward."""
    waiting = {}

    def keep(tensor):
        waiting[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    context, query = states(1, length), states(1, queries)
    with Largest() as largest:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            z, _ = module(context, query)
        z.square().sum().backward()
    return largest.bytes / 8, sum(waiting.values()) / 8


@pytest.mark.parametrize("chunk_size", [None, 4])
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_memory_is_linear_in_the_queries(interaction, chunk_size):
    """No tensor has size (M, N, N), and with chunks none has (M, N, D). The maps of queries have (d_k, N, D)."""
    module, length, queries = attention(interaction=interaction, chunk_size=chunk_size), 40, 60
    at_a_time = max(chunk_size or length, SIZE // HEADS)
    largest, waiting = memory_of_a_step(module, length, queries)
    assert largest <= at_a_time * queries * SIZE
    assert largest < length * queries * queries / 3
    _, twice = memory_of_a_step(module, length, 2 * queries)
    assert twice <= 2 * waiting
    if chunk_size is not None:
        assert waiting < length * queries * SIZE


def expected_count(size, heads, interaction, kv_sharing="trunk", shared=False, query_summary="tanh", filters=None):
    """Return the number of parameters of the attention, from the paper's equations."""
    wide, width = size * size + size, size // heads
    root = math.isqrt(width)
    filters = filters or root
    if interaction in ("em", "emb"):
        trunk, features = 2 * wide, width
    else:
        trunk, features = wide + (size + 1) * heads * filters * (root + 1), filters * root
    count = trunk * (2 if kv_sharing == "none" else 1)
    count += heads * (features + 1) * width * (1 if kv_sharing == "all" else 2)
    count += wide + size * size
    if interaction in ("emb", "ca"):
        count += 0 if shared else wide
        count += heads * 2 * width * width if query_summary == "tanh" else 0
        count += heads * (width + 1) * (width if interaction == "emb" else width + root)
    return count


def count_of(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_has_the_parameters_of_the_equations(case):
    assert count_of(attention(**case)) == expected_count(SIZE, HEADS, *case.values())


@pytest.mark.parametrize(
    ("interaction", "parameters"), [("em", 6_006_528), ("emb", 6_745_344), ("c", 6_080_352), ("ca", 6_825_408)]
)
def test_a_block_over_xlnet_base_has_the_parameters_in_the_docs(interaction, parameters):
    with torch.device("meta"):
        of_base_size = OaXLNetConfig(backbone_config={"model_type": "bert"}, local_attention=interaction)
        count = count_of(OrthogonalAttentionBlock(of_base_size))
    around = 4 * 768 * 768 + 3 * 768 + 2 * 768 * 768 + 768 + 2 * 2 * 768
    assert count == parameters
    assert count == expected_count(768, 12, interaction) + around


@pytest.mark.parametrize("rows", [[[0, 1, 0, 1, 1], [1, 0, 0, 0, 0]], [[0, 0, 1, 0, 0]], [[0, 0, 0], [0, 0, 0]]])
def test_query_positions_are_those_of_the_text(rows):
    expected = [[place for place, there in enumerate(row) if there] for row in rows]
    most = max(1, *map(len, expected), 0)
    positions, mask = query_positions(torch.tensor(rows).bool())
    assert positions.shape == mask.shape == (len(rows), most)
    assert [row[real].tolist() for row, real in zip(positions, mask, strict=True)] == expected
    # Padding comes after the query tokens, with valid positions.
    assert mask.tolist() == [[number < len(row) for number in range(most)] for row in expected]
    assert 0 <= positions.min() <= positions.max() < len(rows[0])
