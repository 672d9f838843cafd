"""The Triton kernel of outlook attention: its results are those of the definition."""

import random

import pytest
import torch
from torch import library

from hf_localattn import CoolConfig, outlook_attention
from hf_localattn.kernels import choice
from hf_localattn.kernels import outlook_attention as kernels
from hf_localattn.kernels.outlook_attention import attend, attend_backward
from hf_localattn.models.cool_local_encoder import OutlookLayer
from tests.kernels import DEVICE, NEEDS_KERNELS

pytestmark = NEEDS_KERNELS


def draw(seed):
    """(values, scores, mask, mask_outside_window, gradient) of a drawn shape: odd lengths, pads on both sides."""
    choose = random.Random(seed)
    window, heads = choose.choice([1, 3, 3, 3, 3, 5]), choose.choice([1, 2, 3, 7, 12, 16])
    size = choose.choice([1, 1, 1, 2, 3, 5])
    batch, length = choose.randint(1, 3), choose.choice([1, 2, 3, 5, 9, 17, 33])
    mask = None
    if choose.random() < 0.7:
        mask = torch.ones(batch, length, dtype=torch.bool, device=DEVICE)
        for row in mask:
            row[: choose.randint(0, length // 2)] = False
            row[length - choose.randint(0, length // 2) :] = False
    torch.manual_seed(seed)
    values = torch.randn(batch, length, heads * size, device=DEVICE)
    scores = torch.randn(batch, length, window, window, heads, device=DEVICE) * choose.choice([0.1, 1.0, 20.0])
    return values, scores, mask, choose.random() < 0.5, torch.randn_like(values)


def differentiated(values, scores, grad, mask=None, **options):
    values, scores = values.detach().requires_grad_(), scores.detach().requires_grad_()
    mixed = outlook_attention(values, scores, mask, **options)[0]
    return mixed, *torch.autograd.grad(mixed, (values, scores), grad.to(mixed.dtype))


def assert_equal_to_definition(values, scores, mask, outside, grad, tolerance):
    options = {"mask_outside_window": outside}
    found = differentiated(values, scores, grad, mask, **options)
    assert type(found[0].grad_fn).__name__.startswith("GeneratedBackwardFor"), "the kernel has not run"
    expected = differentiated(values.double(), scores.double(), grad, mask, **options, return_weights=True)
    for one, other, dtype in zip(found, expected, (scores.dtype, values.dtype, scores.dtype), strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


DRAWN = pytest.mark.slow(reason="200 shapes, run in Python")


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=DRAWN) for seed in range(6, 204))])
def test_equals_the_definition(seed):
    """Half precision is that of inputs and results, not that of sums: only the rounding of the results remains."""
    dtype, tolerance = [(torch.float32, 2e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)][seed % 3]
    values, scores, mask, outside, grad = draw(seed)
    assert_equal_to_definition(values.to(dtype), scores.to(dtype), mask, outside, grad.to(dtype), tolerance)


def test_values_and_scores_may_differ_in_dtype_and_in_strides():
    values, scores, mask, outside, grad = draw(7)
    values = values.transpose(0, 1).contiguous().transpose(0, 1).to(torch.bfloat16)
    scores = scores.transpose(2, 3).contiguous().transpose(2, 3)
    assert_equal_to_definition(values, scores, mask, outside, grad, 2e-2)
    assert outlook_attention(values[:0], scores[:0])[0].shape == values[:0].shape


@pytest.mark.parametrize("dtype", choice.TOLERANCES, ids=str)
def test_the_first_use_compares_and_a_wrong_kernel_is_not_used(dtype, monkeypatch, caplog):
    values, scores, mask, _, grad = draw(3)
    values, scores = values.to(dtype), scores.to(dtype)
    found = differentiated(values, scores, grad, mask)
    assert type(found[0].grad_fn).__name__.startswith("GeneratedBackwardFor"), "the kernel has not run"
    assert [*choice._DIFFERENCES.values()] == [""]
    choice._DIFFERENCES.clear()
    monkeypatch.setattr(kernels, "attend", lambda values, scores, *_: (values + scores.sum()) * 1.5)
    with caplog.at_level("WARNING", logger=choice.logger.name):
        wrong = differentiated(values, scores, grad, mask)
    assert not type(wrong[0].grad_fn).__name__.startswith("GeneratedBackwardFor")
    assert "in values and" in caplog.text
    assert "the gradient of scores of the largest number" in caplog.text


def test_padding_may_hold_anything():
    values, scores = torch.randn(1, 6, 4, device=DEVICE), torch.randn(1, 6, 3, 3, 4, device=DEVICE)
    mask = torch.tensor([[False, True, True, True, False, False]], device=DEVICE)
    grad = torch.randn_like(values)
    expected = differentiated(values, scores, grad, mask)
    values, scores = (
        states.masked_fill(~mask.view(1, 6, *[1] * (states.dim() - 2)), float("nan")) for states in (values, scores)
    )
    for one, other in zip(differentiated(values, scores, grad, mask), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("mask_outside_window", [False, True])
def test_operators_keep_torchs_contract(mask_outside_window):
    values = torch.randn(1, 5, 4, device=DEVICE, requires_grad=True)
    scores = torch.randn(1, 5, 3, 3, 2, device=DEVICE, requires_grad=True)
    mask = torch.tensor([[False, True, True, True, False]], device=DEVICE)
    library.opcheck(attend, (values, scores, mask, mask_outside_window))
    library.opcheck(attend_backward, (values.detach(), values.detach(), scores.detach(), None, False))


@pytest.mark.parametrize("heads", [6, 2])
def test_survives_compilation_and_leaves_exports(heads):
    torch.manual_seed(0)
    backbone = {"model_type": "bert", "hidden_size": 6, "num_attention_heads": 1}
    layer = OutlookLayer(CoolConfig(backbone_config=backbone, use_conv=False, outlook_num_heads=heads)).to(DEVICE)
    states = torch.randn(2, 5, 6, device=DEVICE)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(layer(states)[0].sum(), list(layer.parameters()))
    found = torch.autograd.grad(compiled(states)[0].sum(), list(layer.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    targets = {node.target for node in torch.export.export(layer.eval(), (states,)).graph.nodes}
    assert not any("outlook" in str(target) for target in targets), "exports have only torch's operators"


def test_has_second_derivatives():
    values, scores, _, _, grad = draw(2)

    def penalty(**options):
        leaf = values.detach().requires_grad_()
        mixed = outlook_attention(leaf, scores.detach().requires_grad_(), None, **options)[0]
        (first,) = torch.autograd.grad(mixed.square(), leaf, grad, create_graph=True)
        return torch.autograd.grad(first.square().sum(), leaf)[0]

    torch.testing.assert_close(penalty(), penalty(return_weights=True))
