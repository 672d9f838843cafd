"""SLA's Triton kernels: their results are those of the definition, dropout included."""

import os
import random
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch import library

from hf_localattn.kernels import sla_attention as kernels
from hf_localattn.kernels.choice import INTERPRETED, SWITCH, constexpr, jit, tl, triton
from hf_localattn.kernels.sla_programs import draw, forward_kernel
from hf_localattn.models import sla_attention
from hf_localattn.models.sla_attention import gated_attention
from hf_localattn.models.sla_masks import limited_rows, syntax_tables, window_tables
from tests.kernels import DEVICE, NEEDS_KERNELS
from tests.models.test_sla_masks import batched, structure
from tests.models.tiny import adapted, enable_checkpointing, tiny_model, token_ids

pytestmark = NEEDS_KERNELS

BLOCK = 16
SCALING = 0.6
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Give short texts several blocks, and correct the interpreter: it multiplies the bits of bfloat16 numbers."""
    monkeypatch.setattr(kernels, "block_size", lambda width, dtype: BLOCK)
    if INTERPRETED:
        from triton.runtime.interpreter import InterpreterBuilder

        as_it_is = InterpreterBuilder.create_dot

        def create_dot(self, a, b, *others):
            a, b = (self.cast_impl(one, tl.float32) if one.dtype.scalar == tl.bfloat16 else one for one in (a, b))
            return as_it_is(self, a, b, *others)

        monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)
    with DEVICE if DEVICE.type == "cuda" else nullcontext():
        yield


def random_text(source, length):
    """Return one or two random forests of at most `length` tokens between special tokens."""
    word_index, head_word, words = [-1] * source.randint(0, 1), {}, 0
    for _ in range(source.randint(1, 2)):
        numbers = range(words, words + source.randint(1, max(1, length // 3)))
        order = source.sample(numbers, len(numbers))
        head_word |= {word: source.choice(order[: place + 1]) for place, word in enumerate(order)}
        word_index += [word for word in numbers for _ in range(source.choice([0, 1, 1, 1, 2, 3]))] + [-1]
        words = numbers.stop + source.randint(0, 1)
    return structure(word_index[:length], head_word)


def drawn(seed):
    """Return random tables, real tokens (B, L), states and gates, and a dropout probability."""
    source = random.Random(seed)
    torch.manual_seed(seed)
    batch, heads, length = source.randint(1, 2), source.randint(1, 2), source.choice([1, 2, 7, 15, 16, 17, 23, 31, 33])
    width, dtype = source.choice([1, 3, 8, 16, 17]), source.choice(list(TOLERANCE))
    words, dep_heads = batched(
        [random_text(source, source.randint(1, length)) for _ in range(batch)],
        source.choice(["left", "right"]),
        length,
    )
    opened = (words >= 0) & (torch.rand(batch, length) < source.choice([0.0, 0.3]))  # punctuation that all attend to
    coded = torch.where(opened, -2 - words, words)
    if source.random() < 0.7:
        tables = syntax_tables(
            coded,
            dep_heads,
            threshold=source.choice([0, 1, 2, 2, 3, 4]),
            neighbor_window=source.choice([0, 0, 1, 1, 2]),
            connect_roots=source.random() < 0.3,
        )
    else:
        tables = window_tables(coded, window_size=source.randint(0, 3))
    tokens = None
    if source.random() < 0.8:  # pads are a part of the special tokens; an example may have nothing else
        tokens = (words >= 0) | (torch.rand(batch, length) < source.choice([0.0, 0.5]))
        tokens = tokens.t().contiguous().t() if source.random() < 0.3 else tokens
    states = [torch.randn(batch, heads, length, width).to(dtype) for _ in range(3)]
    gate = torch.rand(batch, length, 1).masked_fill(torch.rand(batch, length, 1) < 0.1, 0.0).to(dtype)
    dropout = source.choice([0.0, 0.0, 0.1, 0.5, 1.0])
    return tables, tokens, [*states, gate], dropout


@jit
def _export_kernel(
    seed,
    kept,
    local_kept,
    dropout,
    kept_value,
    length,
    BLOCK: constexpr,
):
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


def results(function, inputs):
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    output = function(*inputs)
    weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    return [output, *torch.autograd.grad(output, inputs, weights)]


DRAWN = pytest.mark.slow(reason="200 drawn shapes, about half a second each")


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=DRAWN) for seed in range(6, 200))])
def test_equals_the_definition(seed, monkeypatch):
    tables, tokens, inputs, dropout = drawn(seed)
    batch, heads, length, _ = inputs[0].shape
    torch.manual_seed(seed)
    found = results(
        lambda *states: kernels.attend(*states, tables.without_padding(tokens), scaling=SCALING, dropout=dropout),
        inputs,
    )
    if dropout:
        torch.manual_seed(seed)
        draws = exported(torch.randint(2**62, (1,)), dropout, batch, heads, length)
        monkeypatch.setattr(sla_attention, "_two_draws", lambda scores, dropout: [one.double() for one in draws])
    mask = None if tokens is None else tokens[:, None, None].expand(-1, -1, length, -1)
    local_mask = limited_rows(tables.rows, tokens)(slice(None)).unsqueeze(1)
    settings = {"scaling": SCALING, "dropout": dropout, "training": True}
    expected = results(
        lambda *states: gated_attention(*states, mask, local_mask, **settings)[0], [one.double() for one in inputs]
    )
    assert len(found) == len(expected) == 5
    for one, other in zip(found, expected, strict=True):
        assert one.dtype is inputs[0].dtype
        allowed = TOLERANCE[one.dtype] * max(1.0, float(other.detach().abs().max()))
        torch.testing.assert_close(one.double(), other, rtol=0, atol=allowed)


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
    assert set(kept.unique().tolist()) == {0.0, kept.max().item()}
    assert kept.max().item() == pytest.approx(1 / (1 - dropout))


def test_operators_are_registered_as_torch_needs_them():
    words = torch.tensor([[-1, 0, 1, 1, 2, -1]])
    segments, generations, reach, near = syntax_tables(words, torch.tensor([[-1, 2, 2, 2, 2, -1]]), threshold=1)
    states = [torch.randn(1, 6, 1, 4, requires_grad=True) for _ in range(3)]
    given = [*states, torch.rand(1, 6, requires_grad=True), segments, generations, reach, near]
    given += [torch.tensor([5]), 0.5, 0.1]
    library.opcheck(kernels.gated, tuple(given))
    with torch.no_grad():
        output, sums = kernels.gated(*given)
    library.opcheck(
        kernels.gated_backward,
        (torch.randn_like(output), *(one.detach() if isinstance(one, torch.Tensor) else one for one in given), sums),
        test_utils=("test_schema", "test_faketensor"),
    )


LENGTH = 13
MASK = torch.ones(2, LENGTH, dtype=torch.long)
MASK[0, 9:] = 0
MASK[1, :3] = 0


@pytest.fixture
def runs(monkeypatch):
    """Dropout probabilities of the forward passes that ran in the kernel."""
    found, launch = [], kernels._launch

    def counted(kernel, *arguments):
        if kernel is forward_kernel:
            found.append(arguments[-1])
        launch(kernel, *arguments)

    monkeypatch.setattr(kernels, "_launch", counted)
    return found


def build(dropout=0.0, **fields):
    model = tiny_model("sla-bert", **fields).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return model


def trained(model):
    """Return states of real tokens and all gradients."""
    torch.manual_seed(1)
    given = adapted(model, input_ids=token_ids(2, LENGTH), attention_mask=MASK.to(DEVICE))
    states = model(**given).last_hidden_state[MASK.bool().to(DEVICE)]
    (states * torch.linspace(-1, 2, states.numel(), dtype=states.dtype).view_as(states)).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    return [states.detach(), *gradients]


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * max(1.0, float(other.abs().max())))


@pytest.mark.parametrize("fields", [{}, {"local_attention": "window", "sla_layers": [1]}], ids=str)
def test_a_model_equals_the_one_that_runs_torch_code(fields, runs, monkeypatch):
    model = build(**fields)
    found = trained(model)
    assert len(runs) == len(model.config.sla_layer_indices)
    monkeypatch.setenv(SWITCH, "0")
    expected = trained(model)
    assert len(runs) == len(model.config.sla_layer_indices)
    assert_close(found, expected)


def test_gradient_checkpointing_repeats_the_dropout(runs):
    model = build(dropout=0.3)
    expected = trained(model)
    enable_checkpointing(model, {"use_reentrant": False})
    assert_close(trained(model), expected)
    assert set(runs) == {0.3}


def test_compiled_and_autocast_models_run_the_kernel(runs):
    model = build()
    expected = trained(model)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    given = adapted(model, input_ids=token_ids(2, LENGTH), attention_mask=MASK.to(DEVICE))
    states = compiled(**given).last_hidden_state[MASK.bool().to(DEVICE)]
    assert_close([states], expected[:1])
    states.sum().backward()
    model.zero_grad()
    with torch.autocast(DEVICE.type, torch.bfloat16):
        found = trained(model)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.05, atol=0.05 * max(0.05, float(other.abs().max())))
    assert len(runs) == 3 * len(model.config.sla_layer_indices)


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
def test_what_kernels_cannot_do_runs_torch_code(fields, dtype, options, runs, monkeypatch):
    model = build(**fields).to(dtype)
    model.set_attn_implementation("eager")
    given = adapted(model, input_ids=token_ids(2, LENGTH), attention_mask=MASK.to(DEVICE), **options)
    found = model(**given)
    assert not runs
    assert (found.local_attentions is None) is not options.get("output_attentions", False)
    monkeypatch.setenv(SWITCH, "0")
    assert torch.equal(found.last_hidden_state, model(**given).last_hidden_state)


COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from hf_localattn.kernels import sla_programs

name, dtype, capability = sys.argv[1:]
kernel = getattr(sla_programs, name)
constants = {"NEAR": 3, "REACH": 3, "GENERATIONS": 5, "DROPS": True, "BLOCK": 16, "WIDTH": 64, "PRECISION": "ieee"}
types = dict.fromkeys(constants, "constexpr")
types |= {"segments": "*i32", "generations": "*i32", "reach": "*i64", "seed": "*i64"}
types |= {"sums": "*fp32", "products": "*fp32", "scaling": "fp32", "dropout": "fp32", "kept_value": "fp32"}
types |= {"length": "i32", "heads": "i32", "width": "i32"}
source = ASTSource(kernel, {name: types.get(name, f"*{dtype}") for name in kernel.arg_names}, constexprs=constants)
compiled = triton.compile(source, target=GPUTarget("cuda", int(capability), 32))
assert compiled.asm["cubin"]
assert compiled.metadata.shared < 48 * 1024
"""


@pytest.mark.slow(reason="compiles a kernel for a GPU, six seconds each")
@pytest.mark.parametrize(
    ("kernel", "dtype", "capability"),
    [("forward_kernel", "bf16", 80), ("query_kernel", "fp16", 90), ("key_kernel", "fp32", 80)],
)
def test_compiles_for_gpus_where_none_is(kernel, dtype, capability, tmp_path):
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", COMPILE, kernel, dtype, str(capability)], env=environment, check=True)
