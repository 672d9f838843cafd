"""The benchmark machinery: it measures right, and its result files can be read. Speed itself is never tested."""

import json
from functools import partial

import pytest
import torch

from benchmarks import __main__ as runner
from benchmarks import gpu
from benchmarks.measure import measure, peak_bytes
from benchmarks.registry import CASES, Case
from hf_localattn import outlook_attention

CPU = torch.device("cpu")


def allocate(floats):
    kept = torch.empty(floats)
    scratch = torch.empty(2 * floats)
    del scratch
    return kept.add_(1)


def test_peak_counts_what_is_held_at_once():
    assert peak_bytes(lambda: allocate(1000), CPU) == pytest.approx(3 * 4000, rel=0.05)


def test_ratios_are_to_the_first_variant():
    variants = {"peer": partial(allocate, 1000), "double": partial(allocate, 2000)}
    results = measure(variants, CPU, repeats=2)
    assert results["peer"]["time_ratio"] == results["peer"]["memory_ratio"] == 1.0
    assert results["double"]["memory_ratio"] == pytest.approx(2.0, rel=0.05)
    assert all(len(result["seconds"]) == 2 for result in results.values())


def test_results_are_written_with_their_environment(tmp_path):
    case = Case("mini", "a mini case", lambda device: {"peer": partial(allocate, 10)}, time_targets={"peer": 1.0})
    result = runner.run(case, CPU, repeats=1)
    assert "mini: a mini case" in runner.report(case, result)
    runner.write(result, tmp_path / "results" / "mini.json")
    read = json.loads((tmp_path / "results" / "mini.json").read_text())
    assert {"torch", "transformers", "device", "threads", "date"} <= read["environment"].keys()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["mini.json"]


def test_no_speed_is_reported_of_variants_that_differ():
    def differ(device):
        raise AssertionError("not equal")

    case = Case("mini", "a mini case", lambda device: pytest.fail("measured"), check=differ)
    with pytest.raises(AssertionError, match="not equal"):
        runner.run(case, CPU, repeats=1)


def test_a_bound_is_reported_with_the_share_that_is_reached():
    variants = {"peer": partial(allocate, 10)}
    case = Case("mini", "a mini case", lambda device: variants, bounds=lambda device: {"sums": 1e-9, "memory": 1e-10})
    result = runner.run(case, CPU, repeats=1)
    measured = result["variants"]["peer"]
    assert measured["share_of_bound"] == pytest.approx(1e-9 / min(measured["seconds"]), abs=1e-3)
    assert "at least 0.0000 seconds for sums" in runner.report(case, result)


@pytest.mark.parametrize("name", ["outlook-300", "outlook-768"])
def test_formulations_of_the_outlook_are_equal(name):
    CASES[name].check(CPU)


def test_an_unknown_case_lists_those_there_are(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "cool-stepp"])
    with pytest.raises(SystemExit):
        runner.main()
    assert "unknown case cool-stepp: choose from cool-step, outlook-300" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(runner.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_committed_results_belong_to_a_case(path):
    result = json.loads(path.read_text())
    case = CASES[result["case"]]
    assert path.name.startswith(f"{case.name}--")
    assert case.time_targets.keys() | case.memory_targets.keys() <= result["variants"].keys()
    assert next(iter(result["variants"].values()))["time_ratio"] == 1.0


def run_main(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--device", "cpu", "--repeats", "1", "--threads", "1", *arguments])
    runner.main()


def test_cases_for_a_gpu_can_be_tried_on_a_cpu(monkeypatch, capsys, tmp_path):
    kinds = ("outlook-float32", "sla-attention-bfloat16", "bilstm", "step-roberta-9-bfloat16", "pipeline")
    names = [f"gpu-{kind}" for kind in kinds]
    monkeypatch.setattr(torch, "compile", lambda function: function)  # takes longer than all the rest
    run_main(monkeypatch, *names, "--tiny", "--output", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}--cpu-1-threads.json" for name in names}
    step = json.loads((tmp_path / "gpu-step-roberta-9-bfloat16--cpu-1-threads.json").read_text())
    assert list(step["variants"]) == ["backbone", "cool", "cool without conv", "sla", "oa", "sam"]
    assert "not measured" not in capsys.readouterr().out


def test_all_cases_for_a_gpu_have_a_check_if_kernels_take_part():
    cases = gpu.cases(gpu.FULL)
    assert len(cases) == 2 * 2 + 1 + 2 * 3 * 2 + 1
    assert [name for name, case in cases.items() if case.check is None] == ["gpu-bilstm"]


def test_wrong_results_have_no_speed(monkeypatch, capsys, tmp_path):
    class Wrong(torch.autograd.Function):
        """A kernel with a wrong gradient."""

        @staticmethod
        def forward(ctx, values, scores):
            ctx.scores = scores
            return outlook_attention(values, scores, return_weights=True)[0]

        @staticmethod
        def backward(ctx, gradient):
            return gradient, torch.zeros_like(ctx.scores)

    def wrong(values, scores, mask=None, **options):
        if options:
            return outlook_attention(values, scores, mask, **options)
        return Wrong.apply(values, scores), None

    gpu.check_outlook.cache_clear()
    monkeypatch.setattr(gpu, "outlook_attention", wrong)
    with pytest.raises(SystemExit, match="wrong results: gpu-outlook-float32"):
        run_main(monkeypatch, "gpu-outlook-float32", "gpu-bilstm", "--tiny", "--output", str(tmp_path))
    printed = capsys.readouterr().out
    assert "gpu-outlook-float32: not measured, because the results are wrong" in printed
    assert "seconds" not in printed.partition("gpu-bilstm")[0]
    assert [path.name for path in tmp_path.iterdir()] == ["gpu-bilstm--cpu-1-threads.json"]
