"""SLA's Triton kernels: their results are those of the definition, dropout included."""

import random
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import library

from hf_localattn.kernels import choice
from hf_localattn.kernels import sla_attention as kernels
from hf_localattn.kernels.choice import INTERPRETED, SWITCH, constexpr, jit, tl, triton
from hf_localattn.kernels.sla_programs import draw, forward_kernel
from hf_localattn.models import sla_attention
from hf_localattn.models.sla_attention import gated_attention
from hf_localattn.models.sla_masks import limited_rows, syntax_tables, window_tables
from tests.kernels import DEVICE, NEEDS_KERNELS
from tests.models.naive import with_gradients
from tests.models.test_sla_mechanism import batches, build, repeatable, train
from tests.models.tiny import adapted, enable_checkpointing, token_ids

pytestmark = NEEDS_KERNELS

SCALING = 0.6
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Give short texts several blocks, and correct the interpreter: it multiplies the bits of bfloat16 numbers."""
    monkeypatch.setattr(kernels, "block_size", lambda width, dtype: 16)
    if INTERPRETED:
        from triton.runtime.interpreter import InterpreterBuilder

        as_it_is = InterpreterBuilder.create_dot

        def create_dot(self, a, b, *others):
            a, b = (self.cast_impl(one, tl.float32) if one.dtype.scalar == tl.bfloat16 else one for one in (a, b))
            return as_it_is(self, a, b, *others)

        monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)
    with DEVICE if DEVICE.type == "cuda" else nullcontext():
        yield


def drawn(words, dep_heads, seed):
    """Return random tables, real tokens (B, L), states and gates, and a dropout probability."""
    source = random.Random(seed)
    torch.manual_seed(seed)
    (batch, length), heads = words.shape, source.randint(1, 2)
    width, dtype = source.choice([1, 3, 8, 16, 17]), source.choice(list(TOLERANCE))
    tables = window_tables(words, window_size=source.randint(0, 3))
    if source.random() < 0.7:
        options = {"threshold": source.choice([0, 1, 2, 2, 3, 4]), "neighbor_window": source.choice([0, 0, 1, 1, 2])}
        tables = syntax_tables(words, dep_heads, **options, connect_roots=source.random() < 0.3)
    tokens = None
    if source.random() < 0.8:  # pads are a part of the special tokens; an example may have nothing else
        tokens = (words != -1) | (torch.rand(batch, length) < source.choice([0.0, 0.5]))
        tokens = tokens.t().contiguous().t() if source.random() < 0.3 else tokens
    states = [torch.randn(batch, heads, length, width).to(dtype) for _ in range(3)]
    gate = torch.rand(batch, length, 1).masked_fill(torch.rand(batch, length, 1) < 0.1, 0.0).to(dtype)
    inputs = [one.requires_grad_() for one in (*states, gate)]
    return tables, tokens, inputs, source.choice([0.0, 0.0, 0.1, 0.5, 1.0])


@jit
def _export_kernel(seed, kept, local_kept, dropout, kept_value, length, BLOCK: constexpr):
    head, query, key = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    one, other = draw(seed, dropout, kept_value, head, query, key, True)
    place = (head * length + query[:, None]) * length + key[None, :]
    there = (query < length)[:, None] & (key < length)[None, :]
    tl.store(kept + place, one, mask=there)
    tl.store(local_kept + place, other, mask=there)


def exported(seed, dropout, batch, heads, length):
    """Return the factors (B, heads, L, L) with which the kernels multiply both softmaxes."""
    kept, local_kept = torch.empty(2, batch, heads, length, length)
    value = 1 / (1 - dropout) if dropout < 1 else 0.0
    block = max(16, triton.next_power_of_2(length))
    _export_kernel[(batch * heads,)](seed, kept, local_kept, dropout, value, length, BLOCK=block)
    return kept, local_kept


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_first_use_compares_and_a_wrong_kernel_is_not_used(dtype, monkeypatch, caplog):
    words = torch.tensor([[-1, 0, 0, 1, 2, 2, -1], [-1, 0, 1, 2, 3, 4, -1]], device=DEVICE)
    heads = torch.tensor([[-1, 3, 3, 3, 3, 3, -1], [-1, 2, 2, 2, 3, 4, -1]], device=DEVICE)
    for tables in (window_tables(words), syntax_tables(words, heads)):
        choice._DIFFERENCES.clear()
        assert kernels.runs(DEVICE, dtype, 8, tables)
        assert [*choice._DIFFERENCES.values()] == [""]
    choice._DIFFERENCES.clear()
    monkeypatch.setattr(
        kernels, "attend", lambda *inputs, scaling: gated_attention(*inputs[:4], None, None, scaling=1)[0]
    )
    with caplog.at_level("WARNING", logger=choice.logger.name):
        assert not kernels.runs(DEVICE, dtype, 8, tables)
    assert "in the gradient of queries" in caplog.text


DRAWN = pytest.mark.slow(reason="200 drawn shapes, about half a second each")


@pytest.mark.parametrize("examples", [6, pytest.param(200, marks=DRAWN)])
def test_equals_the_definition(examples, monkeypatch):
    @settings(repeatable, max_examples=examples)
    @given(batches, st.integers(0, 2**20))
    def compare(batch, seed):
        tables, tokens, inputs, dropout = drawn(*(one.to(DEVICE) for one in batch), seed)
        batch, heads, length, _ = inputs[0].shape
        padded = tables.without_padding(tokens)
        torch.manual_seed(seed)
        found = with_gradients(lambda *one: kernels.attend(*one, padded, scaling=SCALING, dropout=dropout), inputs)
        with monkeypatch.context() as patch:
            if dropout:
                torch.manual_seed(seed)
                draws = exported(torch.randint(2**62, (1,)), dropout, batch, heads, length)
                patch.setattr(sla_attention, "_two_draws", lambda scores, dropout: [one.double() for one in draws])
            mask = None if tokens is None else tokens[:, None, None].expand(-1, -1, length, -1)
            local_mask = limited_rows(tables.rows, tokens)(slice(None)).unsqueeze(1)
            options = {"scaling": SCALING, "dropout": dropout, "training": True}
            doubled = [one.detach().double().requires_grad_() for one in inputs]
            expected = with_gradients(lambda *one: gated_attention(*one, mask, local_mask, **options)[0], doubled)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype is inputs[0].dtype
            allowed = TOLERANCE[one.dtype] * max(1.0, float(other.detach().abs().max()))
            torch.testing.assert_close(one.double(), other, rtol=0, atol=allowed)

    compare()


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_is_drawn_for_each_weight_and_attention(dropout):
    kept, local_kept = exported(torch.tensor([3]), dropout, 2, 3, 37)
    same, _ = exported(torch.tensor([3]), dropout, 2, 3, 37)
    other, _ = exported(torch.tensor([4 + 2**40]), dropout, 2, 3, 37)
    assert torch.equal(kept, same)
    shares = [(one > 0).double() for one in (kept, local_kept, other)]
    limit = 5 * (dropout * (1 - dropout) / kept.numel()) ** 0.5
    for share in shares:
        assert abs(share.mean() - (1 - dropout)) < limit
    for one, two in [(0, 1), (0, 2), (1, 2)]:
        assert abs(((shares[one] - 1 + dropout) * (shares[two] - 1 + dropout)).mean()) < limit
    first = shares[0].flatten(0, 1)
    for moved in (first.roll(1, 0), first.roll(1, 1), first.roll(1, 2), first.transpose(1, 2)):
        assert (moved != first).double().mean() > dropout * (1 - dropout)
    assert kept.unique().tolist() == [0.0, pytest.approx(1 / (1 - dropout))]


def test_operators_are_registered_as_torch_needs_them():
    words = torch.tensor([[-1, 0, 1, 1, 2, -1]])
    places = syntax_tables(words, torch.tensor([[-1, 2, 2, 2, 2, -1]]), threshold=1)
    states = [torch.randn(1, 6, 1, 4, requires_grad=True) for _ in range(3)]
    given = [*states, torch.rand(1, 6, requires_grad=True), *places, torch.tensor([5]), 0.5, 0.1]
    library.opcheck(kernels.gated, tuple(given))
    with torch.no_grad():
        output, sums = kernels.gated(*given)
    given = [
        torch.randn_like(output),
        *(one.detach() if isinstance(one, torch.Tensor) else one for one in given),
        sums,
    ]
    library.opcheck(kernels.gated_backward, tuple(given), test_utils=("test_schema", "test_faketensor"))


MASK = torch.ones(2, 13, dtype=torch.long, device=DEVICE)
MASK[0, 9:] = 0
MASK[1, :3] = 0


@pytest.fixture
def inputs():
    return {"input_ids": token_ids(2, 13), "attention_mask": MASK}


@pytest.fixture
def runs(monkeypatch):
    """Dropout probabilities of the forward passes that ran in the kernel."""
    found, launch = [], kernels._launch

    def counted(kernel, *arguments):
        if kernel is forward_kernel:
            found.append(arguments[-1])
        launch(kernel, *arguments)

    monkeypatch.setattr(kernels, "_launch", counted)
    monkeypatch.setattr(kernels, "_compare", lambda *given: [])  # it would count
    return found


def assert_close(found, expected, rtol=1e-4, atol=1e-4, least=1.0):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=rtol, atol=atol * max(least, float(other.abs().max())))


@pytest.mark.parametrize("fields", [{}, {"local_attention": "window", "sla_layers": [1]}], ids=str)
def test_a_model_equals_the_one_that_runs_torch_code(fields, inputs, runs, monkeypatch):
    model = build(**fields).float()
    found = train(model, inputs)
    layers = len(model.config.sla_layer_indices)
    assert len(runs) == layers
    with torch.autocast(DEVICE.type, torch.bfloat16):
        half = train(model, inputs)
    monkeypatch.setenv(SWITCH, "0")
    assert_close(found, expected := train(model, inputs))
    assert_close(half, expected, 0.05, 0.05, 0.05)
    assert len(runs) == 2 * layers


def test_gradient_checkpointing_repeats_the_dropout(inputs, runs):
    model = build(dropout=0.3).float()
    expected = train(model, inputs)
    enable_checkpointing(model, {"use_reentrant": False})
    assert_close(train(model, inputs), expected)
    assert set(runs) == {0.3}


def test_compiled_models_run_the_kernel(inputs, runs):
    model = build().float()
    expected = train(model, inputs)
    torch.compiler.reset()
    found = train(torch.compile(model, fullgraph=True, backend="aot_eager"), inputs)
    assert_close(found[:1], expected[:1])
    assert len(runs) == 2 * len(model.config.sla_layer_indices)


@pytest.mark.parametrize(
    ("fields", "dtype", "options"),
    [
        ({}, torch.float64, {}),
        ({"syntax_threshold": 11}, torch.float32, {}),
        ({"neighbor_window": 5, "syntax_threshold": 3}, torch.float32, {}),
        ({}, torch.float32, {"output_attentions": True}),
    ],
    ids=str,
)
def test_what_kernels_cannot_do_runs_torch_code(fields, dtype, options, inputs, runs, monkeypatch):
    model = build(implementation="eager", **fields).to(dtype)
    given = adapted(model, **inputs, **options)
    found = model(**given)
    assert not runs
    assert (found.local_attentions is None) is not options.get("output_attentions", False)
    monkeypatch.setenv(SWITCH, "0")
    assert torch.equal(found.last_hidden_state, model(**given).last_hidden_state)
