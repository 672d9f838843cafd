"""The Triton kernel of outlook attention equals the definition, and gives way to it where it cannot run."""

import importlib.util
import logging
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import library

from hf_localattn.models import cool_outlook, cool_outlook_triton, triton_kernels
from hf_localattn.models.cool_outlook import OutlookLayer, outlook_attention
from hf_localattn.models.cool_outlook_triton import MAX_HEAD_SIZE, MAX_WINDOW, outlook
from tests.kernels import DEVICE, needs_kernels

KERNEL = "GeneratedBackwardFor"
"""Beginning of the name of an operator's backward node."""


GPU = torch.device("cuda", 0)


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


def with_gradients(function, values, scores, grad):
    values, scores = values.detach().requires_grad_(), scores.detach().requires_grad_()
    mixed = function(values, scores)
    return mixed, *torch.autograd.grad(mixed, (values, scores), grad.to(mixed.dtype))


def assert_equal_to_definition(values, scores, mask, mask_outside_window, grad, tolerance):
    found = with_gradients(
        lambda v, s: outlook_attention(v, s, mask, mask_outside_window=mask_outside_window)[0], values, scores, grad
    )
    assert type(found[0].grad_fn).__name__.startswith(KERNEL), "the kernel has not run"
    expected = with_gradients(
        lambda v, s: outlook_attention(v, s, mask, mask_outside_window=mask_outside_window, return_weights=True)[0],
        values.double(),
        scores.double(),
        grad,
    )
    for one, other, dtype in zip(found, expected, (scores.dtype, values.dtype, scores.dtype), strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


@needs_kernels
@pytest.mark.triton
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_definition(seed):
    assert_equal_to_definition(*draw(seed), tolerance=2e-5)


@needs_kernels
@pytest.mark.triton
@pytest.mark.slow(reason="200 shapes, run in Python")
@pytest.mark.parametrize("seed", range(4, 204))
def test_equals_the_definition_on_drawn_shapes(seed):
    assert_equal_to_definition(*draw(seed), tolerance=2e-5)


@needs_kernels
@pytest.mark.triton
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
@pytest.mark.parametrize("seed", [300, 301, 302])
def test_sums_of_half_precision_are_float32(seed, dtype, tolerance):
    """The inputs are rounded, the sums are not: only the rounding of the results remains."""
    values, scores, mask, outside, grad = draw(seed)
    values, scores, grad = values.to(dtype), scores.to(dtype), grad.to(dtype)
    assert_equal_to_definition(values, scores, mask, outside, grad, tolerance)


@needs_kernels
@pytest.mark.triton
def test_values_and_scores_may_differ_in_dtype_and_in_strides():
    values, scores, mask, outside, grad = draw(7)
    values = values.transpose(0, 1).contiguous().transpose(0, 1).to(torch.bfloat16)
    scores = scores.transpose(2, 3).contiguous().transpose(2, 3)
    assert_equal_to_definition(values, scores, mask, outside, grad, 2e-2)


@needs_kernels
@pytest.mark.triton
def test_padding_may_hold_anything():
    values, scores = torch.randn(1, 6, 4, device=DEVICE), torch.randn(1, 6, 3, 3, 4, device=DEVICE)
    mask = torch.tensor([[False, True, True, True, False, False]], device=DEVICE)
    grad = torch.randn_like(values)
    expected = with_gradients(lambda v, s: outlook_attention(v, s, mask)[0], values, scores, grad)
    values, scores = (
        states.masked_fill(~mask.view(1, 6, *[1] * (states.dim() - 2)), float("nan")) for states in (values, scores)
    )
    found = with_gradients(lambda v, s: outlook_attention(v, s, mask)[0], values, scores, grad)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@needs_kernels
@pytest.mark.triton
@pytest.mark.parametrize("mask_outside_window", [False, True])
def test_operators_keep_torchs_contract(mask_outside_window):
    values = torch.randn(1, 5, 4, device=DEVICE, requires_grad=True)
    scores = torch.randn(1, 5, 3, 3, 2, device=DEVICE, requires_grad=True)
    mask = torch.tensor([[False, True, True, True, False]], device=DEVICE)
    library.opcheck(outlook, (values, scores, mask, mask_outside_window))
    library.opcheck(
        cool_outlook_triton.outlook_backward, (values.detach(), values.detach(), scores.detach(), None, False)
    )


@needs_kernels
@pytest.mark.triton
@pytest.mark.parametrize("heads", [6, 2])
def test_survives_compilation(heads):
    torch.manual_seed(0)
    layer = OutlookLayer(6, num_heads=heads).to(DEVICE)
    states = torch.randn(2, 5, 6, device=DEVICE)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(layer(states)[0].sum(), list(layer.parameters()))
    found = torch.autograd.grad(compiled(states)[0].sum(), list(layer.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    targets = {node.target for node in torch.export.export(layer.eval(), (states,)).graph.nodes}
    assert not any("outlook" in str(target) for target in targets), "exports have only torch's operators"


@needs_kernels
@pytest.mark.triton
def test_has_second_derivatives():
    values, scores, _, _, grad = draw(2)

    def penalty(**options):
        leaf = values.detach().requires_grad_()
        mixed = outlook_attention(leaf, scores.detach().requires_grad_(), None, **options)[0]
        (first,) = torch.autograd.grad(mixed.square(), leaf, grad, create_graph=True)
        return torch.autograd.grad(first.square().sum(), leaf)[0]

    torch.testing.assert_close(penalty(), penalty(return_weights=True))


@needs_kernels
@pytest.mark.triton
def test_empty_batch():
    mixed, _ = outlook_attention(torch.zeros(0, 5, 4, device=DEVICE), torch.zeros(0, 5, 3, 3, 4, device=DEVICE))
    assert mixed.shape == (0, 5, 4)


@pytest.fixture
def log(caplog):
    """The records of the choice, which is logged once: forget what earlier tests logged."""
    triton_kernels.logger.warning_once.__func__.cache_clear()
    triton_kernels.logger.info_once.__func__.cache_clear()
    with caplog.at_level(logging.INFO, logger=triton_kernels.logger.name):
        yield caplog


def fallback(values, scores, log, **options):
    """Run twice, and return the messages of warnings. The results are those of the definition."""
    for _ in range(2):
        mixed, _ = outlook_attention(values, scores, **options)
        expected, _ = outlook_attention(values, scores, return_weights=True, **options)
        torch.testing.assert_close(mixed, expected)
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


@pytest.fixture
def has_triton(monkeypatch):
    """Triton as it is on a GPU, that is, not interpreted."""
    monkeypatch.setattr(triton_kernels, "triton", triton_kernels.triton or object())
    monkeypatch.setattr(triton_kernels, "INTERPRETED", False)


VALUES, SCORES = torch.randn(2, 5, 4), torch.randn(2, 5, 3, 3, 4)


@pytest.mark.usefixtures("has_triton")
def test_triton_without_a_gpu_warns_once(log, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (message,) = fallback(VALUES, SCORES, log)
    assert "there is no CUDA device" in message


@pytest.mark.usefixtures("has_triton")
def test_tensors_on_the_cpu_of_a_machine_with_a_gpu_are_no_fault(log, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not fallback(VALUES, SCORES, log)


@pytest.mark.usefixtures("has_triton")
def test_old_gpu_warns_once(log, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(
        cool_outlook, "runs_kernel", lambda name, device, *rest: triton_kernels.runs_kernel(name, GPU, *rest)
    )
    (message,) = fallback(VALUES, SCORES, log)
    assert "compute capability of cuda:0 is 7.5, and the kernel needs 8.0" in message


@pytest.mark.usefixtures("has_triton")
def test_new_gpu_runs_the_kernel_and_says_so(log, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert triton_kernels.runs_kernel("Outlook attention", GPU, (torch.bfloat16,))
    assert triton_kernels.runs_kernel("Outlook attention", GPU, (torch.bfloat16,))
    assert [record.getMessage() for record in log.records] == [
        "Outlook attention runs its Triton kernel. HF_LOCALATTN_KERNELS=0 switches it off."
    ]


@pytest.fixture
def new_gpu(monkeypatch, has_triton):
    """A device that kernels take, as far as the choice between kernel and torch code knows."""
    monkeypatch.setattr(triton_kernels, "_device_fault", lambda device: "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("new_gpu")
def test_unsupported_dtype_warns_once(log):
    (message,) = fallback(VALUES.double(), SCORES.double(), log)
    assert "not torch.float64" in message


@pytest.mark.usefixtures("new_gpu")
@pytest.mark.parametrize(
    ("values", "scores", "options", "reason"),
    [
        ((1, 2, MAX_HEAD_SIZE + 1), (1, 2, 3, 3, 1), {}, f"heads have {MAX_HEAD_SIZE + 1} features"),
        ((1, 2, 2), (1, 2, MAX_WINDOW + 2, MAX_WINDOW + 2, 1), {}, f"the window is {MAX_WINDOW + 2}"),
        ((1, 2, 2), (1, 2, 3, 3, 2), {"joint_softmax": True}, "neither a joint softmax nor dropout"),
    ],
)
def test_unsuitable_shapes_and_options_warn_once(log, values, scores, options, reason):
    (message,) = fallback(torch.randn(values), torch.randn(scores), log, **options)
    assert reason in message


@pytest.mark.usefixtures("new_gpu")
def test_kernels_can_be_switched_off(log, monkeypatch):
    monkeypatch.setenv(triton_kernels.SWITCH, "0")
    assert not fallback(VALUES, SCORES, log)
    assert "HF_LOCALATTN_KERNELS is 0" in log.text


def test_without_triton_nothing_is_said_on_a_cpu(log, monkeypatch):
    monkeypatch.setattr(triton_kernels, "triton", None)
    assert not fallback(VALUES, SCORES, log)
    assert not log.records


def test_two_copies_of_the_code_have_operators_of_their_own():
    """The code of a checkpoint is a second copy, which must not replace the operators of the package."""
    path = Path(cool_outlook_triton.__file__)
    name = f"{cool_outlook_triton.__package__}.copy_of_a_checkpoint"
    spec = importlib.util.spec_from_file_location(name, path)
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    assert copy.outlook._qualname != outlook._qualname
    fake = torch.randn(1, 5, 4, device="meta"), torch.randn(1, 5, 3, 3, 4, device="meta"), None, False
    for operator in (outlook, copy.outlook):
        assert operator(*fake).shape == (1, 5, 4)


COMPILATION = """
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from hf_localattn.models import cool_outlook_triton as kernels
for capability in (80, 90):
    for dtype in ("fp32", "bf16", "fp16"):
        for size, padded, heads in ((1, 1, 128), (3, 4, 32), (64, 64, 2)):
            for kernel in (kernels._mix, kernels._mix_backward):
                constants = dict(WINDOW=3, SIZE=size, PADDED_SIZE=padded, BLOCK_ROWS=16, BLOCK_HEADS=heads,
                                 HAS_MASK=True, MASK_SOURCES=True)
                types = dict.fromkeys(kernel.arg_names, f"*{dtype}") | {"mask": "*i1"}
                types |= dict.fromkeys(("rows", "length", "heads"), "i32")
                types |= dict.fromkeys(constants, "constexpr")
                source = ASTSource(kernel, types, {(kernel.arg_names.index(k),): v for k, v in constants.items()})
                binary = triton.compile(source, target=GPUTarget("cuda", capability, 32))
                assert "ptx" in binary.asm
                print(capability, dtype, size, kernel.__name__, len(binary.asm["ptx"]), binary.metadata.shared)
"""


@pytest.mark.triton
@pytest.mark.slow(reason="compiles 36 kernels for two GPUs")
@pytest.mark.skipif(triton_kernels.triton is None, reason="needs triton")
def test_kernels_compile_for_gpus(tmp_path, monkeypatch):
    """The interpreter accepts code that the compiler refuses. The compiler needs no GPU."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    subprocess.run([sys.executable, "-c", COMPILATION], check=True)
