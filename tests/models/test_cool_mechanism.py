"""COOL's layers against the paper's equations, VOLO's unfold and fold, and torch's; its baselines against theirs."""

from functools import partial

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

from benchmarks.cool import unfold_and_fold
from hf_localattn import CoolConfig, outlook_attention, outlook_attention_matrix
from hf_localattn.models.cool_convolution import ConvolutionBlock, adaptive_pool
from hf_localattn.models.cool_local_encoder import LAYERS
from tests.models.naive import MASK, EqualsLoop, assert_same, pair, randomized, with_gradients
from tests.reference import cool as reference
from tests.reference import cool_baselines as baselines

SIZE = 6
HEADS = {"dynamic_conv": 2, "visual_outlook": 1, "rgcn": 1, "gat": 2, "hgt": 3}
GRAPHS = ("rgcn", "gat", "hgt")
every_layer = pytest.mark.parametrize("kind", HEADS)
CONTIGUOUS = MASK[:4]


def config(heads=1, **fields):
    backbone = {"model_type": "bert", "hidden_size": SIZE, "num_attention_heads": heads}
    return CoolConfig(backbone_config=backbone, **fields)


def states(*shape):
    return torch.randn(*shape, SIZE, dtype=torch.float64, requires_grad=True)


def layer_of(kind, window=None):
    sizes = {} if window is None else {"graph_window" if kind in GRAPHS else "outlook_kernel_size": window}
    return randomized(LAYERS[kind](config(HEADS[kind], local_attention=kind, **sizes)))


def block_of(pooling="max", alignment="adaptive", kernels=(3, 4, 5)):
    fields = {"conv_pooling": pooling, "conv_alignment": alignment, "conv_kernel_sizes": kernels, "conv_filters": 3}
    return randomized(ConvolutionBlock(config(**fields)))


# --- outlook attention


class Outlook(nn.Module):
    """Outlook attention as a module without parameters, whose scores are a part of its input."""

    def __init__(self, window=3, heads=SIZE, **options):
        super().__init__()
        self.window, self.heads, self.options = window, heads, options

    def forward(self, values, scores, mask=None, **options):
        scores = scores.unflatten(-1, (self.window, self.window, self.heads))
        return outlook_attention(values, scores, mask, **self.options, **options)


OPTIONS = [
    *({"heads": heads} for heads in (6, 2, 1)),
    *({"window": window} for window in (1, 5)),
    *({"joint_softmax": True, "heads": heads} for heads in (6, 2)),
    *({"mask_outside_window": True, "heads": heads} for heads in (6, 2)),
    {"joint_softmax": True, "mask_outside_window": True},
]


class TestOutlook(EqualsLoop):
    cases = tuple(map(str, OPTIONS))
    shapes = (((1, 1),), ((2, 2),), ((1, 9),))

    def build(self, case):
        return Outlook(**OPTIONS[self.cases.index(case)])

    def inputs(self, case, shape):
        module = self.build(case)
        scores = torch.randn(*shape, module.window**2 * module.heads, dtype=torch.float64) * 2
        return [states(*shape), scores.requires_grad_()]

    def run(self, module, inputs, masks):
        mixed, nothing = module(*inputs, *masks)
        assert nothing is None
        with_weights, weights = module(*inputs, *masks, return_weights=True)
        tolerance = 1e-2 if mixed.dtype.itemsize < 4 else 1e-5 if mixed.dtype.itemsize < 8 else 1e-12
        assert_same([with_weights], [mixed], tolerance * max(1, float(mixed.detach().abs().max())))
        real = torch.ones(mixed.shape[:2], dtype=torch.bool) if masks[0] is None else masks[0]
        sums = weights.sum((3, 4)) if module.options.get("joint_softmax") else weights.sum(3)
        torch.testing.assert_close(sums[real], torch.ones_like(sums[real]), rtol=0.02, atol=0.02)
        assert not weights[~real].any()
        return mixed

    def loop(self, module, case, rows, reals):
        values, scores = rows
        scores = scores.unflatten(-1, (module.window, module.window, module.heads))
        return reference.outlook_attention(values, scores, *reals, **module.options)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 7)),
    window=st.sampled_from([1, 3, 5]),
    seed=st.integers(0, 99),
)
def test_equals_unfold_and_fold(shape, window, seed):
    generator = torch.Generator().manual_seed(seed)
    sizes = shape, (*shape[:2], window, window, shape[2])
    inputs = [torch.randn(size, dtype=torch.float64, generator=generator, requires_grad=True) for size in sizes]
    fast = with_gradients(lambda *tensors: outlook_attention(*tensors)[0], inputs)
    assert_same(fast, with_gradients(unfold_and_fold, inputs))


def random_windows(batch=2, length=5, features=6):
    sizes = (batch, length, features), (batch, length, 3, 3, features)
    return [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]


def test_gradients_have_gradients_and_transforms_see_through():
    function = lambda *tensors: outlook_attention(*tensors, torch.tensor([[1, 1, 0]]))[0]  # noqa: E731
    small = random_windows(1, 3, 2)
    assert torch.autograd.gradcheck(function, small)
    assert torch.autograd.gradgradcheck(function, small)
    values, scores = (tensor.detach() for tensor in random_windows())
    per_example = torch.func.vmap(torch.func.grad(lambda v, s: outlook_attention(v[None], s[None])[0].square().sum()))
    whole = torch.func.grad(lambda v: outlook_attention(v, scores)[0].square().sum())(values)
    torch.testing.assert_close(per_example(values, scores), whole)


def test_dropout_keeps_the_expectation():
    values, scores = (tensor.detach() for tensor in random_windows(length=3, features=2))
    mean = torch.stack([outlook_attention(values, scores, dropout=0.3)[0] for _ in range(2000)]).mean(0)
    torch.testing.assert_close(mean, outlook_attention(values, scores)[0], rtol=0.12, atol=0.12)


def test_the_matrix_is_the_map_that_the_attention_applies():
    """With the same value in every feature, applying the matrix equals applying the attention and averaging."""
    values, scores = (tensor.detach() for tensor in random_windows())
    values = values[..., :1].expand_as(values)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    mixed, weights = outlook_attention(values, scores, mask, return_weights=True)
    matrix = outlook_attention_matrix(weights, mask)
    torch.testing.assert_close((matrix @ values[..., :1])[..., 0], mixed.mean(-1))
    assert not matrix[1, :, 2:].any()
    with pytest.raises(ValueError, match="outlook"):
        outlook_attention_matrix(weights[0])


# --- the convolutional block

VARIANTS = {
    f"{pooling} {alignment} {kernels}": (pooling, alignment, kernels)
    for pooling in ("max", "avg")
    for alignment in ("adaptive", "same")
    for kernels in ((3, 4, 5), (1, 2))
}


class OnTokens(EqualsLoop):
    """Layers whose reference reads one example without padding. Only weights have to be 0 at padding."""

    masks = (CONTIGUOUS,)
    shapes = (((1, 1),), ((1, 2),), ((2, 5),), ((1, 8),))

    def inputs(self, case, shape):
        return [states(*shape)]

    def run(self, module, inputs, masks):
        (mask,) = masks
        output, *weights = self.outputs(module, inputs[0], mask)
        return [output if mask is None else output.masked_fill(~mask.unsqueeze(-1), 0), *weights]

    def loop(self, module, case, rows, reals):
        there = torch.tensor(reals[0])
        found = [one for one in self.on_tokens(module, case, rows[0][there]) if one is not None]
        return [one.new_zeros(len(there), *one.shape[1:]).index_put((there.nonzero()[:, 0],), one) for one in found]


class TestConvolution(OnTokens):
    cases = VARIANTS

    def build(self, case):
        return block_of(*VARIANTS[case])

    def outputs(self, module, inputs, mask):
        return [module(inputs, mask)]

    def on_tokens(self, module, case, row):
        return [reference.convolution_block(row, list(map(pair, module.convolutions)), *VARIANTS[case][:2])]


def test_equals_the_papers_two_dimensional_convolution():
    """The paper has kernels of k x (H + 4) over an image of L x H with padding 2."""
    block, image = block_of(kernels=(4,)), nn.Conv2d(1, 3, (4, SIZE + 4), padding=2).double()
    with torch.no_grad():
        image.weight[:, 0, :, 2:-2] = block.convolutions[0].weight.transpose(1, 2)
        image.bias.copy_(block.convolutions[0].bias)
    inputs = states(2, 7)
    pooled = nn.functional.adaptive_max_pool1d(image(inputs[:, None])[..., 0].relu(), 7).transpose(1, 2)
    assert_same([block(inputs)], [pooled])


@pytest.mark.parametrize("pooling", ["max", "avg"])
@pytest.mark.parametrize("extra", [0, 1, 2, 3, 4])
def test_pooling_equals_torchs(pooling, extra):
    torchs = {"max": nn.functional.adaptive_max_pool1d, "avg": nn.functional.adaptive_avg_pool1d}[pooling]
    for length in (1, 2, 3, 6, 11):
        features = torch.randn(2, length + extra, 3, dtype=torch.float64)
        expected = torchs(features.transpose(1, 2), length).transpose(1, 2)
        torch.testing.assert_close(adaptive_pool(features, None, pooling, length), expected)


def test_training_compiles_at_most_two_graphs_for_all_lengths():
    """One for the first length, and one for all others, as a bare backbone has."""
    torch.compiler.reset()
    block, counter = block_of().train(), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(block, backend=counter)
    for batch, length in [(2, 9), (3, 12), (4, 7), (2, 16), (5, 11)]:
        compiled(states(batch, length), torch.ones(batch, length)).sum().backward()
    assert counter.frame_count <= 2


# --- the baselines

WINDOWS = {f"{kind} {window}": (kind, window) for kind in HEADS for window in ((1, 2) if kind in GRAPHS else (3, 5))}


class TestBaselines(OnTokens):
    cases = WINDOWS

    def build(self, case):
        return layer_of(*WINDOWS[case])

    def outputs(self, module, inputs, mask):
        assert module(inputs, mask)[1] is None
        return [one for one in module(inputs, mask, output_attentions=True) if one is not None]

    def on_tokens(self, layer, case, row):
        match WINDOWS[case][0]:
            case "dynamic_conv":
                layers = (pair(layer.gate), pair(layer.kernel), pair(layer.output))
                return baselines.dynamic_convolution(row, *layers, layer.window, layer.num_heads)
            case "visual_outlook":
                scores = [pair(score) for score in layer.attention_scores]
                layers = (pair(layer.value), scores, pair(layer.projection), pair(layer.feed_forward))
                return baselines.visual_outlook(row, *layers, layer.window)
            case "rgcn":
                return baselines.relational_graph(row, pair(layer.own), pair(layer.neighbour), layer.window)
            case "gat":
                vectors = (layer.target_vector, layer.source_vector, layer.bias)
                return baselines.graph_attention(row, pair(layer.value), *vectors, layer.window)
            case "hgt":
                layers = (pair(layer.query), pair(layer.key), pair(layer.value))
                matrices = (layer.attention, layer.message, layer.prior)
                return baselines.heterogeneous_graph(row, *layers, *matrices, pair(layer.output), layer.window)


@every_layer
def test_is_exported_as_one_graph(kind):
    """A strict export begins with the compiler's graph."""
    torch.compiler.reset()
    layer, inputs = layer_of(kind), states(4, 7)
    traced = torch.export.export(layer, (inputs.detach(), CONTIGUOUS), strict=True).module()
    found, expected = (
        with_gradients(lambda one, run=run: run(one, CONTIGUOUS)[0], [inputs]) for run in (traced, layer)
    )
    assert_same(found, expected)


@every_layer
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(kind, use_reentrant):
    layer, inputs = layer_of(kind).train(), states(4, 7)
    found = []
    for checkpoints in (False, True):
        layer.gradient_checkpointing = checkpoints
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=use_reentrant)
        layer.zero_grad()
        inputs.grad = None
        output = layer(inputs, CONTIGUOUS)[0]
        (output * torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)).sum().backward()
        found.append([output, inputs.grad, *(parameter.grad for parameter in layer.parameters())])
    assert_same(*found)


def test_visual_outlook_keeps_no_scores():
    """Tensors saved for backward take a few times the memory of the states, not K**4 = 81 times."""
    saved, inputs = {}, states(3, 65)

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor  # held, or another tensor could take its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer_of("visual_outlook")(inputs, torch.ones(3, 65, dtype=torch.bool))
    assert sum(tensor.untyped_storage().nbytes() for tensor in saved.values()) < 10 * inputs.nbytes


@pytest.mark.parametrize("kind", ["gat", "hgt"])
def test_initialize_fills_what_the_meta_device_left_empty(kind, poisoned_memory):
    with torch.device("meta"):
        layer = LAYERS[kind](config(HEADS[kind], local_attention=kind))
    layer.to_empty(device="cpu")
    own = [parameter for name, parameter in layer.named_parameters() if "." not in name]
    with torch.no_grad():
        own[0].fill_(7.0)
    own[0]._is_hf_initialized = True  # what transformers says of a loaded weight
    layer.initialize()
    assert all(parameter.isfinite().all() for parameter in own)
    assert (own[0] == 7.0).all()
