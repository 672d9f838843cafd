"""Orthogonal attention and its block against the paper's equations, and its models: dropout and inputs."""

from itertools import product

import pytest
import torch
from torch.nn import functional

from hf_localattn.families import FAMILIES
from hf_localattn.models.configuration_oa_xlnet import OaXLNetConfig
from hf_localattn.models.fields_oa_xlnet import INTERACTIONS
from hf_localattn.models.oa_attention import OrthogonalAttention, OrthogonalAttentionBlock, add_text
from hf_localattn.resources import tiny_backbone
from tests.models.naive import (
    EqualsLoop,
    LargestTensor,
    assert_same,
    pair,
    random_states,
    randomized,
    saved,
    with_gradients,
)
from tests.models.tiny import at_tokens, gradients, tiny_model, token_ids
from tests.reference import oa as reference

SIZE, HEADS = 18, 2  # d_k = 9, whose root is an odd number of its own
CONTEXT = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0]]
).bool()
QUERIES = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
every_interaction = pytest.mark.parametrize("interaction", INTERACTIONS)


SHARING = ("trunk", "none", "all")
OF_BETA = (
    ("trunk", True, "plain"),
    *((one, *rest) for one in SHARING[1:] for rest in ((False, "plain"), (True, "tanh"))),
)
"""With the defaults, all pairs of values of `kv_sharing`, `share_context_projection` and `query_summary`."""


def combinations(interaction):
    """Yield combinations of options. `conv_num_filters` concerns only alpha; beta's options do not meet it."""
    if interaction in ("emb", "ca"):
        for sharing, shared, summary in OF_BETA:
            yield {"kv_sharing": sharing, "share_context_projection": shared, "query_summary": summary}
    else:
        yield from ({"kv_sharing": sharing} for sharing in SHARING[1:])
    if interaction in ("c", "ca"):
        yield from (
            {"kv_sharing": one, "conv_num_filters": size} for one, size in zip(SHARING, (1, 2, 2), strict=True)
        )


PLAIN = {interaction: {"local_attention": interaction} for interaction in INTERACTIONS}
CASES = PLAIN | {
    "-".join(map(str, (one, *fields.values()))): {"local_attention": one, **fields}
    for one in INTERACTIONS
    for fields in combinations(one)
}


def built(module_class=OrthogonalAttention, **fields):
    backbone = {"model_type": "bert", "hidden_size": SIZE}
    sizes = {"oa_num_heads": HEADS, "oa_intermediate_size": 11, "oa_dropout": 0.0}
    return randomized(module_class(OaXLNetConfig(backbone_config=backbone, **{**sizes, **fields})), scale=0.3)


def states(*shape):
    return random_states(*shape, SIZE)


def of_head(layer, number):
    """Return weight and bias of one head of a `HeadwiseLinear`."""
    return layer.weight[number], None if layer.bias is None else layer.bias[number]


def part(layer, number):
    """Return the rows of one head in a Linear over all heads."""
    return layer.weight.chunk(HEADS)[number], layer.bias.chunk(HEADS)[number]


def head_parameters(module, number, local_attention, kv_sharing="trunk", query_summary="tanh", **case):
    """Return the layers of one head by the reference's names: alpha of keys, alpha of values, and beta."""
    interaction, beta = module.interaction, module.query_vectors
    names = ("context", "query") if local_attention in ("em", "emb") else ("context", "filters", "biases")

    def alpha(trunk, last):
        return {**{name: part(getattr(trunk, name), number) for name in names}, "last": of_head(last, number)}

    key = value = alpha(interaction.trunk, interaction.key)
    if kv_sharing != "all":
        value = alpha(interaction.value_trunk if kv_sharing == "none" else interaction.trunk, interaction.value)
    query = {"query": part(beta.query, number)}
    if local_attention in ("emb", "ca"):
        shared = case.get("share_context_projection", False)
        query["context"] = key["context"] if shared else part(beta.context, number)
        query["attention"] = None if query_summary == "plain" else of_head(beta.attention.output, number)
    if local_attention == "emb":
        query["last"] = of_head(beta.output, number)
    if local_attention == "ca":
        query |= {"filters": of_head(beta.filters, number), "biases": of_head(beta.biases, number)}
    return key, value, query


class TestAttention(EqualsLoop):
    cases = CASES
    few = tuple(INTERACTIONS)
    masks = (CONTEXT, QUERIES)
    shapes = (((1, 1), (1, 1)), ((2, 7), (2, 1)), ((3, 1), (3, 2)), ((1, 5), (1, 3)))
    scales = (1,)  # a product of features overflows sooner

    def build(self, case):
        return built(**self.cases[case])

    def inputs(self, case, *shapes):
        return [states(*shape) for shape in shapes]

    def run(self, module, inputs, masks):
        z, weights = module(*inputs, *masks, output_attentions=True)
        plain, nothing = module(*inputs, *masks)
        assert nothing is None
        assert z.dtype is not torch.float64 or torch.equal(plain, z)
        return z, weights

    def loop(self, module, case, rows, reals):
        fields = self.cases[case]
        heads = [head_parameters(module, number, **fields) for number in range(HEADS)]
        return reference.orthogonal_attention(*rows, *reals, fields["local_attention"], heads, pair(module.output))


class TestBlock(TestAttention):
    cases = PLAIN

    def build(self, case):
        return built(OrthogonalAttentionBlock, **self.cases[case])

    def loop(self, module, case, rows, reals):
        oa, inner = module.attention, module.self_attention
        heads = [head_parameters(oa, number, case) for number in range(HEADS)]
        norms = {name: getattr(module, name) for name in ("attention_norm", "output_norm")}
        layers = {
            "attention": pair(oa.output),
            **{name: pair(getattr(inner, name)) for name in ("query", "key", "value")},
            "mixed": pair(inner.output),
            **{name: pair(getattr(module, name)) for name in ("intermediate", "output")},
            **{name: (*pair(norm), norm.eps) for name, norm in norms.items()},
        }
        return reference.block(*rows, *reals, case, heads, layers, HEADS)


class TestTextInQuery(TestBlock):
    """The mean of the text is one more query token, except where the query is empty."""

    cases = {name: PLAIN[name] for name in ("em", "ca")}  # noqa: RUF012 (as of the base class)
    few = ("ca",)

    def run(self, module, inputs, masks):
        context, query = inputs
        context_mask, query_mask = masks
        if query_mask is None:
            query_mask = torch.ones(query.shape[:2], dtype=torch.bool)
        query, query_mask = add_text(query, query_mask, context, context_mask)
        return module(context, query, context_mask, query_mask, True)

    def loop(self, module, case, rows, reals):
        (context, query), (real_context, real_query) = rows, reals
        tokens = [row for row, real in zip(context, real_context, strict=True) if real]
        text = sum(tokens) / len(tokens)
        rows = context, torch.stack([*query, text])
        return super().loop(module, case, rows, (real_context, [*real_query, any(real_query)]))


@pytest.mark.parametrize("interaction", INTERACTIONS)
@pytest.mark.parametrize("trains", [False, True])
def test_a_query_of_one_token_trains_beta_only_with_the_text(interaction, trains):
    module, context = built(local_attention=interaction), states(2, 5)
    query, mask = context[:, 1:2], torch.ones(2, 1, dtype=torch.bool)
    if trains:
        query, mask = add_text(query, mask, context, None)
    module(context, query, None, mask)[0].square().sum().backward()
    found = [parameter.grad for parameter in module.query_vectors.parameters()]
    assert all(gradient.abs().max() > 1e-9 if trains else gradient.abs().max() < 1e-12 for gradient in found)


@pytest.mark.parametrize(
    ("case", "chunk_size"), [*product(PLAIN, (1, 3, 7, 100)), *((case, 3) for case in CASES if case not in PLAIN)]
)
def test_chunks_equal_the_whole(case, chunk_size):
    whole, chunked = (
        built(OrthogonalAttentionBlock, oa_chunk_size=size, **CASES[case]) for size in (None, chunk_size)
    )
    chunked.load_state_dict(whole.state_dict())
    inputs = [states(*mask.shape) for mask in (CONTEXT, QUERIES)]
    found = [
        with_gradients(lambda *given, one=one: one(*given, CONTEXT, QUERIES, True), inputs, one.parameters())
        for one in (chunked, whole)
    ]
    assert_same(*found)


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_dropout(chunk_size):
    """It falls on the weights that are applied, not shown, is the same in backward, and keeps the expectation."""
    module, inputs = built(oa_dropout=0.3, oa_chunk_size=chunk_size), [states(1, 5), states(1, 3)]
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


@pytest.mark.parametrize("chunk_size", [None, 4])
@every_interaction
def test_memory_is_linear_in_the_queries(interaction, chunk_size):
    """No tensor has size (M, N, N), and with chunks none has (M, N, D). The maps of queries have (d_k, N, D)."""
    module, length, queries = built(local_attention=interaction, oa_chunk_size=chunk_size), 40, 60
    waiting = [
        saved(lambda count=count: module(states(1, length), states(1, count))) / 8 for count in (queries, 2 * queries)
    ]
    with LargestTensor() as mode:
        module(states(1, length), states(1, queries))[0].square().sum().backward()
    assert mode.largest <= max(chunk_size or length, SIZE // HEADS) * queries * SIZE
    assert mode.largest < length * queries * queries / 3
    assert waiting[1] <= 2 * waiting[0]
    assert chunk_size is None or waiting[0] < length * queries * SIZE


# --- models


MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
QUERY = torch.zeros(3, 11, dtype=torch.long)  # three, two and no query tokens
QUERY[0, [1, 4, 9]] = 1
QUERY[1, [0, 6]] = 1
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
    for number, (real, asked) in enumerate(zip(MASK.bool(), QUERY.bool(), strict=True)):
        states = expected = output.hidden_states[-1][number, real][None]
        count = max(1, int(asked.sum()))  # without query tokens, the first token is masked
        for block, shown in zip(model.blocks, output.local_attentions, strict=True):
            query = expected[:, asked[real]] if asked.any() else expected[:, :1]
            expected, weights = block(expected, query, None, asked.any().expand(1, count), True)
            assert_same([shown[number, :, real, :count]], [weights[0]], tolerance=1e-6)
            assert shown.shape == (3, 2, 11, 3)
            assert not shown[number, :, :, count:].any()
        assert_same([output.last_hidden_state[number, real]], [(expected + states)[0]], tolerance=1e-6)


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


FINDS_CUES = {0: "O", 1: "SCOPE", 2: "negation:single", 3: "speculation:multi"}


def test_a_batch_without_any_query_is_told_once(caplog, monkeypatch):
    ids, cued = token_ids(2, 4), torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0]])
    hidden = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]])  # the only query token is padding

    def told(mask, attention_mask=None, **fields):
        run = FAMILIES["oa-xlnet"].heads[TOKENS].from_backbone(tiny_backbone(), **fields)
        caplog.clear()
        with torch.no_grad():
            for _ in range(2):
                run(input_ids=ids, query_mask=mask, attention_mask=attention_mask)
        return caplog.text.count("No row of this batch has a query token")

    assert (told(cued), told(0 * cued), told(cued, attention_mask=hidden)) == (0, 1, 1)
    assert (told(0 * cued, id2label=FINDS_CUES), told(0 * cued, local_attention="none")) == (0, 0)
    monkeypatch.setattr("hf_localattn.models.modeling_oa_xlnet.is_compiling", lambda: True)
    assert told(0 * cued) == 0


def test_rows_without_any_query_train_too():
    """Distributed training needs a gradient for every parameter in any batch, also with all dropouts."""
    model = tiny_model("oa-xlnet", TOKENS, oa_dropout=0.9, classifier_dropout=0.9).train()
    found = gradients(model, TOKENS, **{**BATCH, "query_mask": torch.zeros_like(QUERY)})
    assert all(gradient is not None and gradient.isfinite().all() for gradient in found.values())
