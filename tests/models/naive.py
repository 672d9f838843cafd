"""A mechanism is its equations: outputs and every gradient equal those of a naive float64 loop over single examples.

`EqualsLoop` has the tests. A mechanism derives a class from it and fills in what it is, in about fifty lines.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MASK = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [0, 0, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 1, 1, 0],
        [0, 1, 0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
).bool()
"""No padding; padding on the left, on the right, on both sides and in between; one token; nothing but padding."""

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def randomized(module, scale=0.6):
    """Fill all parameters with asymmetric values, also those that start as zeros or ones, in float64."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, scale)
    return module


def random_states(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def pair(layer):
    return layer.weight, layer.bias


def pairs(layers):
    return [pair(layer) for layer in layers]


def listed(outputs):
    """Return the tensors of an output."""
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [one for one in outputs if one is not None]


def with_gradients(function, inputs, parameters=()):
    """Return the outputs of a function, and the gradients of a weighted sum of them for inputs and parameters."""
    outputs = listed(function(*inputs))
    total = sum((one * torch.linspace(-1, 2, one.numel(), dtype=one.dtype).view_as(one)).sum() for one in outputs)
    given = [*inputs, *parameters]
    return [*outputs, *torch.autograd.grad(total, given, allow_unused=True, materialize_grads=True)]


def assert_same(actual, expected, tolerance=1e-12):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


class LargestTensor(TorchDispatchMode):
    """Record the number of elements of the largest storage that operations return, forward and backward."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self.largest = max(self.largest, one.untyped_storage().nbytes() // one.element_size())
        return result


def saved(function):
    """Return the bytes of all tensors that a function saves for backward."""
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor  # held, or another tensor could take its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


class EqualsLoop:
    """Tests of a mechanism. `case` is a name in `cases`. Each sequence that the mechanism reads has a mask."""

    cases = ()
    few = ()
    """Cases that stand for all in the tests without masks and of other types; by default all."""
    masks = (MASK,)
    shapes = (((1, 1),), ((2, 2),), ((3, 5),))
    """Batch and length of each input in the tests without masks."""
    scales = (1, 30)
    """Sizes of inputs in the test that all is finite."""

    def pytest_generate_tests(self, metafunc):
        cases = self.cases if "every" in metafunc.function.__name__ else self.few or self.cases
        for name, values in (("case", cases), ("shape", self.shapes), ("scale", self.scales)):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, values, ids=str)

    def build(self, case):
        """Return the module, with random parameters in float64."""
        raise NotImplementedError

    def inputs(self, case, *shapes):
        """Return random inputs of these batches and lengths, which require gradients."""
        raise NotImplementedError

    def run(self, module, inputs, masks):
        """Return the outputs of a batch; the masks may be None."""
        return module(*inputs, *masks)

    def loop(self, module, case, rows, reals):
        """Return what the reference says of one example, from lists of booleans that say which rows are tokens."""
        raise NotImplementedError

    def compare(self, case, shapes, masks):
        """Compare outputs and gradients, and return those of the loop and its parameters."""
        module, inputs = self.build(case), self.inputs(case, *shapes)
        parameters = [*module.parameters()]
        whole = [torch.ones(shape, dtype=torch.bool) for shape in shapes]
        reals = [mask.tolist() for mask in masks or whole]

        def loops(*given):
            found = [
                listed(self.loop(module, case, one[: len(inputs)], one[len(inputs) :]))
                for one in zip(*given, *reals, strict=True)
            ]
            return [torch.stack(column) for column in zip(*found, strict=True)]

        slow = with_gradients(loops, inputs, parameters)
        fast = with_gradients(
            lambda *given: self.run(module, given, masks or [None] * len(shapes)), inputs, parameters
        )
        assert_same(fast, slow)
        return slow[len(slow) - len(parameters) :]

    @pytest.mark.usefixtures("poisoned_memory")
    def test_equals_the_loop_under_every_mask(self, case):
        # Dead units would hide the layers behind them.
        assert all(gradient.any() for gradient in self.compare(case, [mask.shape for mask in self.masks], self.masks))

    def test_equals_the_loop_without_masks(self, case, shape):
        self.compare(case, shape, None)

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_always_finite(self, case, dtype, scale):
        module = self.build(case).to(dtype)
        inputs = [one.detach() * scale for one in self.inputs(case, *(mask.shape for mask in self.masks))]
        inputs = [one.to(dtype).requires_grad_() for one in inputs]
        for masks in (self.masks, [torch.zeros_like(mask) for mask in self.masks]):
            found = with_gradients(
                lambda *given, masks=masks: self.run(module, given, masks), inputs, module.parameters()
            )
            assert all(one.isfinite().all() and one.dtype == dtype for one in found)
