"""COOL's baselines against the equations of their papers, and properties that all layers must have."""

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from hf_localattn import CoolConfig
from hf_localattn.models.cool_local_encoder import LAYERS
from tests.reference import cool_baselines as reference

SIZE = 6
HEADS = {"dynamic_conv": 2, "visual_outlook": 1, "rgcn": 1, "gat": 2, "hgt": 3}
WINDOWS = [(kind, window) for kind in HEADS for window in ((3, 5) if kind.endswith(("conv", "outlook")) else (1, 2))]
every_layer = pytest.mark.parametrize("kind", HEADS)


def make_layer(kind, window=None):
    """Build a layer with random, asymmetric values in all parameters."""
    torch.manual_seed(0)
    backbone = {"model_type": "bert", "hidden_size": SIZE, "num_attention_heads": HEADS[kind]}
    graph = kind in ("rgcn", "gat", "hgt")
    sizes = {} if window is None else {"graph_window" if graph else "outlook_kernel_size": window}
    layer = LAYERS[kind](CoolConfig(backbone_config=backbone, local_attention=kind, **sizes)).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5 + 0.1)
    return layer


def make_inputs(length, dtype=torch.float64):
    """Return states, and a mask with rows without padding, with padding on the right, and on the left."""
    states = torch.randn(3, length, SIZE, dtype=dtype, requires_grad=True)
    mask = torch.ones(3, length, dtype=torch.bool)
    pads = length // 2
    mask[1, length - pads :] = False
    mask[2, :pads] = False
    return states, mask


def pair(layer):
    return layer.weight, layer.bias


def loop(kind, layer, states):
    """Return the reference implementation of a layer, for one example without padding."""
    match kind:
        case "dynamic_conv":
            layers = (pair(layer.gate), pair(layer.kernel), pair(layer.output))
            return reference.dynamic_convolution(states, *layers, layer.window, layer.num_heads)
        case "visual_outlook":
            scores = [pair(score) for score in layer.attention_scores]
            layers = (pair(layer.value), scores, pair(layer.projection), pair(layer.feed_forward))
            return reference.visual_outlook(states, *layers, layer.window)
        case "rgcn":
            return reference.relational_graph(states, pair(layer.own), pair(layer.neighbour), layer.window)
        case "gat":
            vectors = (layer.target_vector, layer.source_vector, layer.bias)
            return reference.graph_attention(states, pair(layer.value), *vectors, layer.window)
        case "hgt":
            layers = (pair(layer.query), pair(layer.key), pair(layer.value))
            matrices = (layer.attention, layer.message, layer.prior)
            return reference.heterogeneous_graph(states, *layers, *matrices, pair(layer.output), layer.window)


def with_gradients(layer, states, output):
    """Return the output, and the gradients of a weighted sum of it for the states and all parameters."""
    direction = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    gradients = torch.autograd.grad(
        (output * direction).sum(), [states, *layer.parameters()], allow_unused=True, materialize_grads=True
    )
    return output, *gradients


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 5, 7])
@pytest.mark.parametrize(("kind", "window"), WINDOWS)
def test_equals_the_loop_whatever_the_padding(kind, window, length):
    """The reference gets each example separately and without padding."""
    layer = make_layer(kind, window)
    states, mask = make_inputs(length)
    output, weights = layer(states, mask, output_attentions=True)
    rows = [loop(kind, layer, row[real]) for row, real in zip(states, mask, strict=True)]
    expected, expected_weights = zip(*rows, strict=True)
    assert_same(with_gradients(layer, states, output[mask]), with_gradients(layer, states, torch.cat(expected)))
    if weights is None:
        assert expected_weights == (None, None, None)
    else:
        torch.testing.assert_close(weights[mask], torch.cat(expected_weights), rtol=1e-12, atol=1e-12)
        assert not weights[~mask].any()
    assert layer(states, mask)[1] is None
    unmasked, open_mask = layer(states)[0], layer(states, torch.ones_like(mask))[0]
    assert_same(with_gradients(layer, states, unmasked), with_gradients(layer, states, open_mask))


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_of_pads_are_finite(kind, dtype):
    layer = make_layer(kind).to(dtype)
    states, mask = make_inputs(5, dtype=dtype)
    mask[0] = False
    output, _ = layer(states * 20, mask)
    assert output.dtype == dtype
    assert all(t.isfinite().all() for t in with_gradients(layer, states, output))


@every_layer
def test_is_exported_as_one_graph(kind):
    """A strict export begins with the compiler's graph."""
    torch.compiler.reset()
    layer = make_layer(kind)
    states, mask = make_inputs(5)
    expected = layer(states, mask)[0]
    traced = torch.export.export(layer, (states.detach(), mask), strict=True).module()(states, mask)[0]
    for one, other in zip((traced, *grad(traced, states)), (expected, *grad(expected, states)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def grad(output, states):
    return torch.autograd.grad(output.square().sum(), states)


@every_layer
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(kind, use_reentrant):
    layer = make_layer(kind).train()
    states, mask = make_inputs(5)
    expected = with_gradients(layer, states, layer(states, mask)[0])
    layer.gradient_checkpointing = True
    layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=use_reentrant)
    output = layer(states, mask)[0]
    layer.zero_grad()
    (output * torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)).sum().backward()
    assert_same([output, states.grad, *(parameter.grad for parameter in layer.parameters())], expected)


def test_visual_outlook_keeps_no_scores():
    """Tensors saved for backward take a few times the memory of the states, not K**4 = 81 times."""
    saved = {}

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor  # held, or another tensor could take its address
        return tensor

    layer = make_layer("visual_outlook")
    states, mask = make_inputs(65)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(states, mask)
    assert sum(tensor.untyped_storage().nbytes() for tensor in saved.values()) < 10 * states.nbytes


@pytest.mark.parametrize("kind", ["gat", "hgt"])
def test_initialize_fills_what_the_meta_device_left_empty(kind, poisoned_memory):
    with torch.device("meta"):
        layer = make_layer(kind)
    layer.to_empty(device="cpu")
    own = [parameter for name, parameter in layer.named_parameters() if "." not in name]
    with torch.no_grad():
        own[0].fill_(7.0)
    own[0]._is_hf_initialized = True  # what transformers says of a loaded weight
    layer.initialize()
    assert all(parameter.isfinite().all() for parameter in own)
    assert (own[0] == 7.0).all()
