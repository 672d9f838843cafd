"""The choice between a Triton kernel and torch code, that of outlook attention for all; and that kernels compile."""

import importlib
import logging
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from hf_localattn import outlook_attention
from hf_localattn.kernels import choice
from hf_localattn.kernels.outlook_attention import MAX_HEAD_SIZE, MAX_WINDOW


@pytest.fixture
def log(caplog):
    """The records of the choice, which is logged once: forget what earlier tests logged."""
    choice.logger.warning_once.__func__.cache_clear()
    choice.logger.info_once.__func__.cache_clear()
    with caplog.at_level(logging.INFO, logger=choice.logger.name):
        yield caplog


@pytest.fixture
def has_triton(monkeypatch):
    """Triton as it is on a GPU, that is, not interpreted."""
    monkeypatch.setattr(choice, "triton", choice.triton or object())
    monkeypatch.setattr(choice, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def has_gpu(monkeypatch, has_triton):
    """A device that kernels take, as far as the choice between kernel and torch code knows."""
    monkeypatch.setattr(choice, "INTERPRETED", True)


def warnings_of(log, values=(2, 5, 4), scores=(2, 5, 3, 3, 4), dtype=torch.float32, **options):
    """Run torch code twice, and return the messages of warnings. The results are those of the definition."""
    values, scores = torch.randn(values, dtype=dtype), torch.randn(scores, dtype=dtype)
    for _ in range(2):
        mixed, _ = outlook_attention(values, scores, **options)
        expected, _ = outlook_attention(values, scores, return_weights=True, **options)
        torch.testing.assert_close(mixed, expected)
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


@pytest.mark.usefixtures("has_triton")
def test_triton_without_a_gpu_warns_once(log, monkeypatch):
    (message,) = warnings_of(log)
    assert "no CUDA device" in message
    log.clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not warnings_of(log), "tensors on the CPU of a machine with a GPU are no fault"


@pytest.mark.usefixtures("has_triton")
@pytest.mark.parametrize(("capability", "runs", "words"), [((7, 5), False, "needs 8.0"), ((9, 0), True, "runs its")])
def test_gpus_run_the_kernel_if_they_are_new_and_say_so_once(capability, runs, words, log, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    for _ in range(2):
        assert choice.runs_kernel("Outlook attention", torch.device("cuda", 0), (torch.bfloat16,), list) is runs
    (record,) = log.records
    assert words in record.getMessage()


UNSUITABLE = {
    "not torch.float64": {"dtype": torch.float64},
    f"{MAX_HEAD_SIZE + 1} features": {"values": (1, 2, MAX_HEAD_SIZE + 1), "scores": (1, 2, 3, 3, 1)},
    f"window is {MAX_WINDOW + 2}": {"values": (1, 2, 2), "scores": (1, 2, *[MAX_WINDOW + 2] * 2, 1)},
    "joint softmax": {"joint_softmax": True},
}


@pytest.mark.usefixtures("has_gpu")
@pytest.mark.parametrize("reason", UNSUITABLE)
def test_unsuitable_inputs_warn_once(reason, log):
    (message,) = warnings_of(log, **UNSUITABLE[reason])
    assert reason in message


@pytest.mark.usefixtures("has_gpu")
@pytest.mark.parametrize("value", ["0", None])
def test_no_kernel_runs_unasked(value, log, monkeypatch):
    monkeypatch.delenv(choice.SWITCH)
    if value:
        monkeypatch.setenv(choice.SWITCH, value)
    assert not warnings_of(log)
    assert not log.records


def test_kernels_that_are_asked_for_need_triton(log, monkeypatch):
    monkeypatch.setattr(choice, "triton", None)
    (message,) = warnings_of(log)
    assert "triton is not installed" in message


def fails():
    raise RuntimeError("out of registers")


RIGHT = torch.tensor([1.0, -4.0])
COMPARED = {
    "right": (lambda: [("values", RIGHT + 1e-6, RIGHT)], ""),
    "wrong": (lambda: [("values", RIGHT, RIGHT), ("the gradient of scores", RIGHT + 2, RIGHT)], "0.5 in the gradient"),
    "NaN": (lambda: [("values", RIGHT / 0 * 0, RIGHT)], "nan in values"),
    "an error": (fails, "RuntimeError: out of registers"),
}


@pytest.mark.usefixtures("has_gpu")
@pytest.mark.parametrize("result", COMPARED)
def test_a_kernel_runs_after_a_comparison_with_the_torch_code(result, log):
    """One, at its first use on a device with a dtype, with the numbers if it differs."""
    compare, words = COMPARED[result]
    compared = []

    def counted():
        compared.append(result)
        return compare()

    def choose(**changes):
        given = {"device": torch.device("cpu"), "dtypes": (torch.float32,)} | changes
        return choice.runs_kernel("Outlook attention", compare=counted, **given)

    for _ in range(2):
        assert choose() is (not words)
    assert len(compared) == 1
    (record,) = log.records
    assert words in record.getMessage()
    choose(dtypes=(torch.float16,))
    assert len(compared) == 2


@pytest.mark.usefixtures("has_gpu")
def test_a_graph_runs_only_a_kernel_that_was_compared_before(log, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    settings = {"device": torch.device("cpu"), "dtypes": (torch.float32,), "compare": COMPARED["right"][0]}
    assert not choice.runs_kernel("Outlook attention", **settings)
    assert "once before it is compiled" in log.text
    with monkeypatch.context() as eager:
        eager.setattr(torch.compiler, "is_compiling", lambda: False)
        assert choice.runs_kernel("Outlook attention", **settings)
    assert choice.runs_kernel("Outlook attention", **settings)


FLAGS = {"WINDOW": 3, "BLOCK_ROWS": 16, "HAS_MASK": True, "MASK_SOURCES": True}
SIZES = [
    {"SIZE": size, "PADDED_SIZE": padded, "BLOCK_HEADS": heads}
    for size, padded, heads in [(1, 1, 128), (3, 4, 32), (64, 64, 2)]
]
NEAR = {"NEAR": 3, "REACH": 3, "GENERATIONS": 5, "DROPS": True, "BLOCK": 16, "WIDTH": 64, "PRECISION": "ieee"}
TYPES = {
    **dict.fromkeys(("rows", "length", "heads", "width"), "i32"),
    **dict.fromkeys(("scaling", "dropout", "kept_value"), "fp32"),
    **dict.fromkeys(("sums", "products"), "*fp32"),
    **{"mask": "*i1", "segments": "*i32", "generations": "*i32", "reach": "*i64", "seed": "*i64"},
}
OUTLOOK = [("outlook_attention", name, {**FLAGS, **size}) for name in ("_mix", "_mix_backward") for size in SIZES]


def compile_kernels(kernels, dtype, capability):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for module, name, constants in kernels:
        kernel = getattr(importlib.import_module(f"hf_localattn.kernels.{module}"), name)
        types = {one: TYPES.get(one, f"*{dtype}") for one in kernel.arg_names} | dict.fromkeys(constants, "constexpr")
        fixed = {(kernel.arg_names.index(one),): value for one, value in constants.items()}
        compiled = choice.triton.compile(ASTSource(kernel, types, fixed), target=GPUTarget("cuda", capability, 32))
        assert compiled.asm["cubin"], name
        assert compiled.metadata.shared < 48 * 1024, name


@pytest.mark.triton
@pytest.mark.slow(reason="compiles 7 kernels, one of SLA in six seconds")
@pytest.mark.skipif(choice.triton is None, reason="needs triton")
@pytest.mark.parametrize(
    ("dtype", "capability", "sla"),
    [("fp32", 80, "key_kernel"), ("bf16", 80, "forward_kernel"), ("fp16", 90, "query_kernel")],
)
def test_kernels_compile_for_gpus(dtype, capability, sla, tmp_path, monkeypatch):
    """The interpreter may accept them in error. The compiler needs no GPU, and a process of its own."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(compile_kernels, [*OUTLOOK, ("sla_programs", sla, NEAR)], dtype, capability).result()
