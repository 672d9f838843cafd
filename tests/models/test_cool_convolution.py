"""The convolutional block against the paper's equations and torch's layers, and under padding."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from hf_localattn import CoolConfig
from hf_localattn.models.cool_convolution import ConvolutionBlock, adaptive_pool
from tests.reference import cool as reference

VARIANTS = [(pooling, alignment) for pooling in ("max", "avg") for alignment in ("adaptive", "same")]
BACKBONE = {"model_type": "bert", "hidden_size": 4, "num_attention_heads": 1}


def make_block(pooling="max", alignment="adaptive", kernels=(3, 4, 5)):
    torch.manual_seed(0)
    fields = {"conv_pooling": pooling, "conv_alignment": alignment, "conv_kernel_sizes": kernels, "conv_filters": 3}
    return ConvolutionBlock(CoolConfig(backbone_config=BACKBONE, **fields)).double()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("kernels", [(3, 4, 5), (1, 2)], ids=str)
def test_equals_the_loop(variant, length, kernels):
    block = make_block(*variant, kernels)
    states = torch.randn(1, length, 4, dtype=torch.float64, requires_grad=True)
    inputs = [states, *block.parameters()]
    fast = block(states)
    weights = [(convolution.weight, convolution.bias) for convolution in block.convolutions]
    slow = reference.convolution_block(states[0], weights, *variant)[None]
    direction = torch.randn_like(fast)
    found, expected = ([one, *torch.autograd.grad((one * direction).sum(), inputs)] for one in (fast, slow))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_equals_the_papers_two_dimensional_convolution():
    """The paper has kernels of k x (H + 4) over an image of L x H with padding 2."""
    block = make_block(kernels=(4,))
    image = nn.Conv2d(1, 3, (4, 4 + 4), padding=2).double()
    with torch.no_grad():
        image.weight[:, 0, :, 2:-2] = block.convolutions[0].weight.transpose(1, 2)
        image.bias.copy_(block.convolutions[0].bias)
    states = torch.randn(2, 7, 4, dtype=torch.float64)
    filtered = image(states[:, None])[..., 0].relu()
    pooled = nn.functional.adaptive_max_pool1d(filtered, 7).transpose(1, 2)
    torch.testing.assert_close(block(states), pooled, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pooling", ["max", "avg"])
@pytest.mark.parametrize("extra", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("length", [1, 2, 3, 6, 11])
def test_pooling_equals_torchs(pooling, extra, length):
    features = torch.randn(2, length + extra, 3, dtype=torch.float64)
    torchs = {"max": nn.functional.adaptive_max_pool1d, "avg": nn.functional.adaptive_avg_pool1d}[pooling]
    expected = torchs(features.transpose(1, 2), length).transpose(1, 2)
    torch.testing.assert_close(adaptive_pool(features, None, pooling, length), expected)


@settings(max_examples=30, deadline=None)
@given(
    tokens=st.integers(0, 7),
    left=st.integers(0, 4),
    right=st.integers(1, 4),
    variant=st.sampled_from(VARIANTS),
    seed=st.integers(0, 99),
)
def test_padding_moves_nothing(tokens, left, right, variant, seed):
    block = make_block(*variant)
    generator = torch.Generator().manual_seed(seed)
    padded = torch.randn(1, left + tokens + right, 4, dtype=torch.float64, generator=generator)
    mask = torch.zeros(1, left + tokens + right, dtype=torch.long)
    mask[:, left : left + tokens] = 1
    output = block(padded, mask)
    assert output.isfinite().all()
    if tokens:
        alone = block(padded[:, left : left + tokens])
        torch.testing.assert_close(output[:, left : left + tokens], alone, rtol=1e-12, atol=1e-12)


def test_training_compiles_at_most_two_graphs_for_all_lengths():
    """One for the first length, and one for all others, as a bare backbone has."""
    torch.compiler.reset()
    block, counter = make_block().train(), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(block, backend=counter)
    for batch, length in [(2, 9), (3, 12), (4, 7), (2, 16), (5, 11)]:
        compiled(torch.randn(batch, length, 4, dtype=torch.float64), torch.ones(batch, length)).sum().backward()
    assert counter.frame_count <= 2
