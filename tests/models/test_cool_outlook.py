"""Outlook attention against the paper's equations, and against VOLO's unfold / fold formulation."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from benchmarks.cool import unfold_and_fold
from hf_localattn import outlook_attention, outlook_attention_matrix
from tests.reference import cool as reference

OPTIONS = {
    "plain": {},
    "joint softmax": {"joint_softmax": True},
    "mask outside": {"mask_outside_window": True},
    "both": {"joint_softmax": True, "mask_outside_window": True},
}
MASKS = {
    "none": None,
    "right": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]],
    "left": [[0, 0, 0, 1, 1], [1, 1, 1, 1, 1]],
    "hole": [[1, 0, 1, 1, 0], [0, 1, 1, 0, 1]],
    "empty row": [[0, 0, 0, 0, 0], [1, 1, 1, 1, 0]],
}


def random_inputs(batch=2, length=5, features=6, window=3, heads=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, length, features, dtype=torch.float64, generator=generator)
    scores = torch.randn(batch, length, window, window, heads, dtype=torch.float64, generator=generator) * 2
    return values.requires_grad_(), scores.requires_grad_()


def loop(values, scores, mask=None, **options):
    real = torch.ones(values.shape[:2]) if mask is None else mask
    rows = zip(values, scores, real, strict=True)
    return torch.stack([reference.outlook_attention(v, s, r.bool().tolist(), **options) for v, s, r in rows])


def assert_same(function, other, *inputs):
    """Compare outputs and all gradients of two functions."""
    for one, two in zip(*(with_gradients(each, *inputs) for each in (function, other)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def with_gradients(function, *inputs):
    output = function(*inputs)
    weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    return output, *torch.autograd.grad((output * weights).sum(), inputs)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("heads", [6, 2, 1])
def test_equals_the_loop(options, mask, heads):
    mask = None if mask is None else torch.tensor(mask)
    inputs = random_inputs(heads=heads)
    assert_same(
        lambda *states: outlook_attention(*states, mask, **options)[0],
        lambda *states: loop(*states, mask, **options),
        *inputs,
    )
    with_weights, weights = outlook_attention(*inputs, mask, **options, return_weights=True)
    torch.testing.assert_close(with_weights, outlook_attention(*inputs, mask, **options)[0])
    real = torch.ones(2, 5, dtype=torch.bool) if mask is None else mask.bool()
    sums = weights.sum((3, 4)) if options.get("joint_softmax") else weights.sum(3)
    torch.testing.assert_close(sums[real], torch.ones_like(sums[real]))
    assert not weights[~real].any()


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_equals_the_loop_at_every_window_and_length(window, length):
    inputs = random_inputs(length=length, features=3, window=window, heads=3)
    assert_same(lambda *states: outlook_attention(*states)[0], loop, *inputs)


@settings(max_examples=25, deadline=None)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 9),
    features=st.integers(1, 7),
    window=st.sampled_from([1, 3, 5]),
    seed=st.integers(0, 99),
)
def test_equals_unfold_and_fold(batch, length, features, window, seed):
    inputs = random_inputs(batch, length, features, window, features, seed)
    assert_same(lambda *states: outlook_attention(*states)[0], unfold_and_fold, *inputs)


def test_the_gradient_has_a_gradient():
    inputs = random_inputs(batch=1, length=3, features=2, heads=2)
    function = lambda *states: outlook_attention(*states, torch.tensor([[1, 1, 0]]))[0]  # noqa: E731
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_functional_transforms_see_through_it():
    values, scores = (tensor.detach() for tensor in random_inputs())
    per_example = torch.func.vmap(torch.func.grad(lambda v, s: outlook_attention(v[None], s[None])[0].square().sum()))
    whole = torch.func.grad(lambda v: outlook_attention(v, scores)[0].square().sum())(values)
    torch.testing.assert_close(per_example(values, scores), whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_half_precision_stays_finite_at_extreme_scores(dtype, options):
    values, scores = (t.detach().to(dtype) for t in random_inputs())
    scores = (scores * 1e4).clamp(torch.finfo(dtype).min, torch.finfo(dtype).max)
    mixed, _ = outlook_attention(values, scores, torch.tensor(MASKS["empty row"]), **options)
    assert mixed.dtype == dtype
    assert mixed.isfinite().all()


def test_reads_no_uninitialized_memory(poisoned_memory):
    found = with_gradients(lambda *states: outlook_attention(*states)[0], *random_inputs())
    assert all(tensor.isfinite().all() for tensor in found)


def test_dropout_keeps_the_expectation():
    values, scores = (t.detach() for t in random_inputs(length=3, features=2, heads=2))
    torch.manual_seed(0)
    mean = torch.stack([outlook_attention(values, scores, dropout=0.3)[0] for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, outlook_attention(values, scores)[0], rtol=0.1, atol=0.1)


def test_matrix_is_the_map_that_the_attention_applies():
    """With the same value in every feature, applying the matrix equals applying the attention and averaging."""
    values, scores = random_inputs()
    values = values.detach()[..., :1].expand_as(values)
    mask = torch.tensor(MASKS["right"])
    mixed, weights = outlook_attention(values, scores, mask, return_weights=True)
    matrix = outlook_attention_matrix(weights, mask)
    torch.testing.assert_close((matrix @ values[..., :1])[..., 0], mixed.mean(-1))
    assert not matrix[1, :, 2:].any()
    with pytest.raises(ValueError, match="outlook"):
        outlook_attention_matrix(weights[0])
