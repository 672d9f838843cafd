"""Orthogonal attention and its block against the paper's equations, under any padding, in chunks, with any options."""

import itertools

import pytest
import torch

from hf_localattn.models.configuration_oa_xlnet import OaXLNetConfig
from hf_localattn.models.oa_attention import OrthogonalAttention, OrthogonalAttentionBlock, query_positions
from tests.models.naive import EqualsLoop, LargestTensor, assert_same, pair, randomized, with_gradients
from tests.reference import oa as reference

SIZE, HEADS, INNER = 18, 2, 11  # d_k = 9, whose root is an odd number of its own
CONTEXT = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0]]
).bool()
QUERY = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
INTERACTIONS = ["em", "emb", "c", "ca"]
PLAIN = {interaction: {"interaction": interaction} for interaction in INTERACTIONS}
every_interaction = pytest.mark.parametrize("interaction", INTERACTIONS)


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


CASES = {**PLAIN, **{"-".join(map(str, case.values())): case for one in INTERACTIONS for case in combinations(one)}}


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
    return randomized(OrthogonalAttention(config(**case)), scale=0.3)


def block(**case):
    return randomized(OrthogonalAttentionBlock(config(**case)), scale=0.3)


def states(*shape):
    return torch.randn(*shape, SIZE, dtype=torch.float64, requires_grad=True)


def of_head(layer, number):
    """Return weight and bias of one head of a `HeadwiseLinear`."""
    return layer.weight[number], None if layer.bias is None else layer.bias[number]


def part(layer, number):
    """Return the rows of one head in a Linear over all heads."""
    return layer.weight.chunk(HEADS)[number], layer.bias.chunk(HEADS)[number]


def head_parameters(module, number, case):
    """Return the layers of one head by the reference's names: alpha of keys, alpha of values, and beta."""
    kind, interaction, beta = case["interaction"], module.interaction, module.query_vectors
    names = ("context", "query") if kind in ("em", "emb") else ("context", "filters", "biases")

    def alpha(trunk, last):
        return {**{name: part(getattr(trunk, name), number) for name in names}, "last": of_head(last, number)}

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
        query["attention"] = None if plain else of_head(beta.attention.output, number)
    if kind == "emb":
        query["last"] = of_head(beta.output, number)
    if kind == "ca":
        query |= {"filters": of_head(beta.filters, number), "biases": of_head(beta.biases, number)}
    return key, value, query


class TestAttention(EqualsLoop):
    cases = CASES
    few = INTERACTIONS
    masks = (CONTEXT, QUERY)
    shapes = (((1, 1), (1, 1)), ((2, 7), (2, 1)), ((3, 1), (3, 2)), ((1, 5), (1, 3)))
    scales = (1,)  # a product of features overflows sooner

    def build(self, case):
        return attention(**self.cases[case])

    def inputs(self, case, *shapes):
        return [states(*shape) for shape in shapes]

    def run(self, module, inputs, masks):
        z, weights = module(*inputs, *masks, output_attentions=True)
        plain, nothing = module(*inputs, *masks)
        assert nothing is None
        assert z.dtype is not torch.float64 or torch.equal(plain, z)
        return z, weights

    def loop(self, module, case, rows, reals, **options):
        heads = [head_parameters(module, number, self.cases[case]) for number in range(HEADS)]
        interaction = self.cases[case]["interaction"]
        return reference.orthogonal_attention(*rows, *reals, interaction, heads, pair(module.output), **options)


class TestDiagonal(TestAttention):
    """The formula as the paper prints it, head by head, which needs a query token in each row."""

    cases = PLAIN
    masks = (CONTEXT[:3], QUERY[:3])

    def loop(self, module, case, rows, reals):
        return super().loop(module, case, rows, reals, by_diagonal=True)


class TestBlock(TestAttention):
    cases = PLAIN

    def build(self, case):
        return block(**self.cases[case])

    def loop(self, module, case, rows, reals):
        oa, inner = module.attention, module.self_attention
        heads = [head_parameters(oa, number, self.cases[case]) for number in range(HEADS)]
        layers = {
            "attention": pair(oa.output),
            **{name: pair(getattr(inner, name)) for name in ("query", "key", "value")},
            "mixed": pair(inner.output),
            **{name: pair(getattr(module, name)) for name in ("intermediate", "output")},
            **{name: (*pair(getattr(module, name)), getattr(module, name).eps) for name in NORMS},
        }
        return reference.block(*rows, *reals, case, heads, layers, HEADS)


NORMS = ("attention_norm", "output_norm")


@every_interaction
@pytest.mark.parametrize("padded", [False, True], ids=["alone", "padded"])
def test_one_query_token_gives_its_values_and_beta_learns_nothing(interaction, padded):
    """The softmax over one token is the constant 1, so Z = W_D concat(V)."""
    module, context = attention(interaction=interaction), states(2, 7)
    query = states(2, 3 if padded else 1)
    mask = torch.tensor([[False, True, False]] * 2) if padded else None
    alpha, _ = reference.INTERACTIONS[interaction]
    values = [head_parameters(module, number, {"interaction": interaction})[1] for number in range(HEADS)]
    expected = [
        [module.output.weight @ torch.cat([alpha(one, row, **value) for value in values]) for one in rows]
        for rows, row in zip(context, query[:, 1 if padded else 0], strict=True)
    ]
    z, _ = module(context, query, query_mask=mask)
    assert_same([z], [torch.stack([torch.stack(rows) for rows in expected])])
    z.square().sum().backward()
    assert all(not parameter.grad.any() for parameter in module.query_vectors.parameters())
    assert all(not parameter.grad.any() for parameter in module.interaction.key.parameters())
    assert module.interaction.value.weight.grad.any()


@pytest.mark.parametrize("case", [*CASES][::3])
@pytest.mark.parametrize("chunk_size", [1, 3, 7, 100])
def test_chunks_equal_the_whole(case, chunk_size):
    whole, chunked = block(**CASES[case]), block(chunk_size=chunk_size, **CASES[case])
    chunked.load_state_dict(whole.state_dict())
    inputs = [states(*mask.shape) for mask in (CONTEXT, QUERY)]
    found = [
        with_gradients(lambda *given, one=one: one(*given, CONTEXT, QUERY, True), inputs, one.parameters())
        for one in (chunked, whole)
    ]
    assert_same(*found)


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_dropout(chunk_size):
    """It falls on the weights that are applied, not shown, is the same in backward, and keeps the expectation."""
    module, inputs = attention(dropout=0.3, chunk_size=chunk_size), [states(1, 5), states(1, 3)]
    expected, weights = module(*inputs, output_attentions=True)
    module.train()
    assert torch.equal(module(*inputs, output_attentions=True)[1], weights)

    def seeded(*tensors):
        torch.manual_seed(0)
        return module(*tensors)[0]

    assert torch.autograd.gradcheck(seeded, inputs, fast_mode=True)
    with torch.no_grad():
        many, _ = module(*(one.expand(6000, -1, -1) for one in inputs))
    assert (many - expected).abs().max() > 0.1
    torch.testing.assert_close(many.mean(0, keepdim=True), expected.detach(), rtol=0.06, atol=0.06)


def memory_of_a_step(module, length, queries):
    """Return the number of elements in the largest tensor of a training step, and in all saved for backward."""
    waiting = {}

    def keep(tensor):
        waiting[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() / 8
        return tensor

    context, query = states(1, length), states(1, queries)
    with LargestTensor() as mode:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            z, _ = module(context, query)
        z.square().sum().backward()
    return mode.largest, sum(waiting.values())


@pytest.mark.parametrize("chunk_size", [None, 4])
@every_interaction
def test_memory_is_linear_in_the_queries(interaction, chunk_size):
    """No tensor has size (M, N, N), and with chunks none has (M, N, D). The maps of queries have (d_k, N, D)."""
    module, length, queries = attention(interaction=interaction, chunk_size=chunk_size), 40, 60
    largest, waiting = memory_of_a_step(module, length, queries)
    assert largest <= max(chunk_size or length, SIZE // HEADS) * queries * SIZE
    assert largest < length * queries * queries / 3
    assert memory_of_a_step(module, length, 2 * queries)[1] <= 2 * waiting
    assert chunk_size is None or waiting < length * queries * SIZE


@pytest.mark.parametrize(
    ("interaction", "parameters"), [("em", 6_006_528), ("emb", 6_745_344), ("c", 6_080_352), ("ca", 6_825_408)]
)
def test_a_block_over_xlnet_base_has_the_parameters_in_the_docs(interaction, parameters):
    with torch.device("meta"):
        of_base_size = OaXLNetConfig(backbone_config={"model_type": "bert"}, local_attention=interaction)
        block = OrthogonalAttentionBlock(of_base_size)
    assert sum(parameter.numel() for parameter in block.parameters()) == parameters


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
