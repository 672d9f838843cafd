"""COOL's baselines against the equations of their papers, and properties that all layers must have."""

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from hf_localattn.models import cool_baselines
from hf_localattn.models.cool_baselines import (
    DynamicConvolutionLayer,
    GraphAttentionLayer,
    HeterogeneousGraphLayer,
    RelationalGraphLayer,
    VisualOutlookLayer,
)
from tests.reference import cool_baselines as reference

SIZE = 6
LAYERS = {
    "dynamic convolution": partial(DynamicConvolutionLayer, SIZE, num_heads=2),
    "visual outlook": VisualOutlookLayer,
    "relational graph": partial(RelationalGraphLayer, SIZE),
    "graph attention": partial(GraphAttentionLayer, SIZE, num_heads=2),
    "heterogeneous graph": partial(HeterogeneousGraphLayer, SIZE, num_heads=3),
}
WINDOWS = [(name, window) for name in LAYERS for window in ((1, 2) if "graph" in name else (3, 5))]
every_layer = pytest.mark.parametrize("build", LAYERS.values(), ids=LAYERS)


def make_layer(build, **options):
    """Build a layer with random, asymmetric values in all parameters."""
    torch.manual_seed(0)
    layer = build(**options).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5 + 0.1)
    return layer


def make_inputs(length, batch=3, dtype=torch.float64):
    """Return states, and a mask with rows without padding, with padding on the right, and on the left."""
    states = torch.randn(batch, length, SIZE, dtype=dtype, requires_grad=True)
    mask = torch.ones(batch, length, dtype=torch.bool)
    pads = length // 2
    mask[1, length - pads :] = False
    mask[2, :pads] = False
    return states, mask


def pair(layer):
    return layer.weight, layer.bias


def loop(layer, states):
    """Return the reference implementation of a layer, for one example without padding."""
    match layer:
        case DynamicConvolutionLayer():
            layers = (pair(layer.gate), pair(layer.kernel), pair(layer.output))
            return reference.dynamic_convolution(states, *layers, layer.window, layer.num_heads)
        case VisualOutlookLayer():
            scores = [pair(score) for score in layer.attention_scores]
            layers = (pair(layer.value), scores, pair(layer.projection), pair(layer.feed_forward))
            return reference.visual_outlook(states, *layers, layer.window)
        case RelationalGraphLayer():
            return reference.relational_graph(states, pair(layer.own), pair(layer.neighbour), layer.window)
        case GraphAttentionLayer():
            vectors = (layer.target_vector, layer.source_vector, layer.bias)
            return reference.graph_attention(states, pair(layer.value), *vectors, layer.window)
        case HeterogeneousGraphLayer():
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
@pytest.mark.parametrize(("name", "window"), WINDOWS)
def test_equals_the_loop_whatever_the_padding(name, window, length):
    """The reference gets each example separately and without padding."""
    layer = make_layer(LAYERS[name], window=window)
    states, mask = make_inputs(length)
    output, weights = layer(states, mask, output_attentions=True)
    expected, expected_weights = zip(
        *(loop(layer, row[real]) for row, real in zip(states, mask, strict=True)), strict=True
    )
    assert_same(with_gradients(layer, states, output[mask]), with_gradients(layer, states, torch.cat(expected)))
    if weights is None:
        assert expected_weights == (None, None, None)
    else:
        torch.testing.assert_close(weights[mask], torch.cat(expected_weights), rtol=1e-12, atol=1e-12)
        assert not weights[~mask].any()
    assert layer(states, mask)[1] is None


@every_layer
def test_no_mask_means_all_real(build):
    layer = make_layer(build)
    states, mask = make_inputs(5)
    plain = with_gradients(layer, states, layer(states)[0])
    assert_same(plain, with_gradients(layer, states, layer(states, torch.ones_like(mask))[0]))


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_of_pads_are_finite(build, dtype):
    torch.manual_seed(0)
    layer = build().to(dtype)
    states, mask = make_inputs(5, dtype=dtype)
    mask[0] = False
    output, _ = layer(states * 20, mask)
    assert output.dtype == dtype
    assert all(t.isfinite().all() for t in with_gradients(layer, states, output))


@every_layer
def test_every_parameter_gets_a_gradient(build):
    """Parameters get the same values as in a layer that is built alone."""
    layer = build()
    layer(*make_inputs(5, dtype=torch.float32))[0].square().sum().backward()
    assert [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.any()] == []


@every_layer
def test_compiles_as_one_graph_and_is_exported(build):
    """A strict export begins with the compiler's graph."""
    torch.compiler.reset()
    layer = make_layer(build)
    states, mask = make_inputs(5)
    expected = layer(states, mask)[0]
    traced = torch.export.export(layer, (states.detach(), mask), strict=True).module()(states, mask)[0]
    assert_same([traced], [expected])
    assert_same(
        torch.autograd.grad(traced.square().sum(), states), torch.autograd.grad(expected.square().sum(), states)
    )


@every_layer
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(build, use_reentrant):
    layer = make_layer(build).train()
    states, mask = make_inputs(5)
    expected = layer(states, mask)[0]
    expected.square().sum().backward()
    gradients = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    layer.gradient_checkpointing = True
    layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=use_reentrant)
    output = layer(states, mask)[0]
    output.square().sum().backward()
    assert_same([output, *(parameter.grad for parameter in layer.parameters())], [expected, *gradients])


def test_visual_outlook_keeps_no_scores(monkeypatch):
    """Tensors saved for backward take a few times the memory of the states, not K**4 = 81 times."""

    def saved_bytes():
        saved = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage  # held, or another tensor could take its address
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = layer(states, mask)[0]
        return output, sum(storage.nbytes() for storage in saved.values())

    layer = make_layer(VisualOutlookLayer)
    states, mask = make_inputs(65)
    again, with_recomputing = saved_bytes()
    monkeypatch.setattr(cool_baselines, "checkpoint", lambda function, *inputs, **_: function(*inputs))
    plain, without = saved_bytes()
    assert_same(with_gradients(layer, states, again), with_gradients(layer, states, plain))
    size = states.untyped_storage().nbytes()
    assert with_recomputing < 10 * size
    assert without > 81 * size


@pytest.mark.parametrize("build", [LAYERS["graph attention"], LAYERS["heterogeneous graph"]])
def test_initialize_fills_what_the_meta_device_left_empty(build, poisoned_memory):
    with torch.device("meta"):
        layer = build()
    layer.to_empty(device="cpu")
    own = [parameter for name, parameter in layer.named_parameters() if "." not in name]
    kept = own[0]
    with torch.no_grad():
        kept.fill_(7.0)
    kept._is_hf_initialized = True  # what transformers says of a loaded weight
    layer.initialize()
    assert all(parameter.isfinite().all() for parameter in own)
    assert (kept == 7.0).all()


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (VisualOutlookLayer, {"window": 4}, "`window` is 4; .* use 3 or 5"),
        (LAYERS["dynamic convolution"], {"window": 0}, "`window` is 0; .* use 3"),
        (LAYERS["relational graph"], {"window": 0}, "`window` is 0; .* at least 1"),
        *(
            (LAYERS[name], {"num_heads": heads}, f"`num_heads` is {heads}; .* divide the size 6")
            for name in ("dynamic convolution", "graph attention", "heterogeneous graph")
            for heads in (0, 4)
        ),
    ],
)
def test_impossible_arguments_are_refused(build, options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)
