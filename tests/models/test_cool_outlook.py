"""The outlook operation and layer against the paper's equations, and against VOLO's unfold / fold formulation."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from benchmarks.cool import unfold_and_fold
from hf_localattn.models.cool_outlook import OutlookLayer, outlook_attention, outlook_attention_matrix
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


def loop(values, scores, mask, **options):
    real = torch.ones(values.shape[:2]) if mask is None else mask
    return torch.stack(
        [
            reference.outlook_attention(v, s, r.bool().tolist(), **options)
            for v, s, r in zip(values, scores, real, strict=True)
        ]
    )


def outputs_and_gradients(function, *inputs):
    output = function(*inputs)
    weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    return output, *torch.autograd.grad((output * weights).sum(), inputs)


def assert_same(actual, expected, tolerance=1e-12):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("heads", [6, 2, 1])
def test_equals_the_loop(options, mask, heads):
    mask = None if mask is None else torch.tensor(mask)
    inputs = random_inputs(heads=heads)
    fast = outputs_and_gradients(lambda v, s: outlook_attention(v, s, mask, **options)[0], *inputs)
    slow = outputs_and_gradients(lambda v, s: loop(v, s, mask, **options), *inputs)
    assert_same(fast, slow)


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_equals_the_loop_at_every_window_and_length(window, length):
    inputs = random_inputs(length=length, features=3, window=window, heads=3)
    fast = outputs_and_gradients(lambda v, s: outlook_attention(v, s)[0], *inputs)
    assert_same(fast, outputs_and_gradients(lambda v, s: loop(v, s, None), *inputs))


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

    banded = outputs_and_gradients(lambda v, s: outlook_attention(v, s)[0], *inputs)
    assert_same(banded, outputs_and_gradients(unfold_and_fold, *inputs))


def test_asking_for_weights_changes_nothing():
    inputs = random_inputs()
    mask = torch.tensor(MASKS["right"])
    plain = outputs_and_gradients(lambda v, s: outlook_attention(v, s, mask)[0], *inputs)
    shown = outputs_and_gradients(lambda v, s: outlook_attention(v, s, mask, return_weights=True)[0], *inputs)
    assert_same(plain, shown)
    _, weights = outlook_attention(*inputs, mask, return_weights=True)
    sums = weights.sum(3)
    assert torch.allclose(sums[mask.bool()], torch.ones_like(sums[mask.bool()]))
    assert not weights[~mask.bool()].any()


def test_gradcheck():
    mask = torch.tensor(MASKS["hole"])
    assert torch.autograd.gradcheck(lambda v, s: outlook_attention(v, s, mask)[0], random_inputs())


def test_the_gradient_has_a_gradient():
    mask = torch.tensor([[1, 1, 0]])
    inputs = random_inputs(batch=1, length=3, features=2, heads=2)
    assert torch.autograd.gradgradcheck(lambda v, s: outlook_attention(v, s, mask)[0], inputs)


def test_functional_transforms_see_through_it():
    values, scores = (tensor.detach() for tensor in random_inputs())
    per_example = torch.func.vmap(torch.func.grad(lambda v, s: outlook_attention(v[None], s[None])[0].square().sum()))
    whole = torch.func.grad(lambda v: outlook_attention(v, scores)[0].square().sum())(values)
    torch.testing.assert_close(per_example(values, scores), whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_finite_at_extreme_scores(dtype):
    values, scores = (t.detach().to(dtype) for t in random_inputs())
    scores = (scores * 1e4).clamp(torch.finfo(dtype).min, torch.finfo(dtype).max)
    mask = torch.tensor(MASKS["empty row"])
    for options in OPTIONS.values():
        mixed, _ = outlook_attention(values, scores, mask, **options)
        assert mixed.dtype == dtype
        assert mixed.isfinite().all()


def test_reads_no_uninitialized_memory(poisoned_memory):
    values, scores = random_inputs()
    mixed, *gradients = outputs_and_gradients(lambda v, s: outlook_attention(v, s)[0], values, scores)
    assert all(t.isfinite().all() for t in (mixed, *gradients))


def test_dropout_keeps_the_expectation():
    values, scores = (t.detach() for t in random_inputs(length=3, features=2, heads=2))
    torch.manual_seed(0)
    mean = torch.stack([outlook_attention(values, scores, dropout=0.3)[0] for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, outlook_attention(values, scores)[0], rtol=0.1, atol=0.1)


def test_matrix_is_the_map_that_the_attention_applies():
    """With the same value in every feature, applying the matrix equals applying the attention and averaging."""
    values, scores = random_inputs(length=7)
    values = values.detach()[..., :1].expand_as(values)
    mixed, weights = outlook_attention(values, scores, return_weights=True)
    matrix = outlook_attention_matrix(weights)
    torch.testing.assert_close((matrix @ values[..., :1])[..., 0], mixed.mean(-1))


def test_matrix_shows_nothing_that_a_pad_says():
    values, scores = random_inputs(length=5)
    mask = torch.tensor(MASKS["right"])
    _, weights = outlook_attention(values, scores, mask, return_weights=True)
    matrix = outlook_attention_matrix(weights, mask)
    assert not matrix[1, :, 2:].any()
    torch.testing.assert_close(matrix[0], outlook_attention_matrix(weights)[0])


@pytest.mark.parametrize(
    "options",
    [{}, {"num_heads": 3}, {"num_ffn_layers": 3}, {"layer_norm": True}, {"bias": False, "window": 5}],
    ids=str,
)
def test_layer_equals_the_equations(options):
    torch.manual_seed(0)
    layer = OutlookLayer(6, **options).double()
    states = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor(MASKS["left"])
    norms = (layer.attention_norm, layer.feed_forward_norm)

    def naive(states):
        rows = []
        for row, real in zip(states, mask, strict=True):
            rows.append(
                reference.outlook_layer(
                    row,
                    real.bool().tolist(),
                    (layer.value.weight, layer.value.bias),
                    (layer.attention_scores.weight, layer.attention_scores.bias),
                    [(linear.weight, linear.bias) for linear in layer.feed_forward],
                    layer.window,
                    layer.num_heads,
                    norms,
                )
            )
        return torch.stack(rows)

    parameters = list(layer.parameters())
    fast = outputs_and_gradients(lambda *inputs: layer(inputs[0], mask)[0], states, *parameters)
    assert_same(fast, outputs_and_gradients(lambda *inputs: naive(inputs[0]), states, *parameters))


def test_score_projection_has_the_papers_size():
    layer = OutlookLayer(300)
    assert sum(p.numel() for p in layer.attention_scores.parameters()) == 812_700
