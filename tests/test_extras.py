"""Without extras the core works, and everything else names the extra that it needs."""

import json

import pytest

from hf_localattn import extras
from tests.fresh_process import run_fresh
from tests.script_helpers import ROOT
from tests.test_packaging import REQUIREMENTS

MODULES = {"pytorch_optimizer": "pytorch_optimizer", "scikit-learn": "sklearn"}
"""Modules whose name differs from their distribution's after `-` has become `_`."""

EXTRAS = ("train", "parser", "plot", "search", "cluster", "lookahead", "peft", "onnx", "demo")

HIDDEN = [MODULES.get(each.name, each.name) for extra in EXTRAS for each in REQUIREMENTS[extra]]

PROGRAM = """
import contextlib, importlib, io, json, sys
sys.path.insert(0, sys.argv[1])
hidden = json.loads(sys.argv[2])
for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
    del sys.modules[name]
sys.modules.update(dict.fromkeys(hidden))

import hf_localattn
from hf_localattn import exported, hub, inspection, models, registry, resources
from hf_localattn_command import main
from transformers import pipeline

def command(*words):
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()):
        try:
            main(words)
        except SystemExit as ended:
            assert ended.code in (0, 2), told.getvalue()
        return told.getvalue().strip()

told = {"init": command("init", "cool", "tiny", "model", "--task", "question-answering")}
told["answer"] = pipeline("question-answering", "model")(question="Who?", context="Ada wrote it.")["answer"]
told["train"] = command("train", "qa", "--model_name_or_path", "model", "--do_eval", "--output_dir", "out",
                        "--validation_file", "sample:reading/validation.json")
told["parser"] = command("train", "qa", "--family", "sla", "--backbone", "tiny")
told["init sla"] = command("init", "sla", "tiny", "other")
told["init sla without parser"] = command("init", "sla", "tiny", "other", "--config", "local_attention=window")
told["compare"] = command("compare", "one", "other")
told["inspect"] = command("inspect", "model", "Ada wrote it.", "-o", "map.json")
told["inspect file"] = command("inspect", "model", "--file", "texts.csv", "-o", "map.json")
told["plot"] = command("inspect", "model", "Ada", "-o", "map.png")
told["export"] = command("export", "model", "graph")
told["demo"] = command("demo", "model")
for module in ("data", "metrics", "tasks", "training.trainer"):
    try:
        importlib.import_module(f"hf_localattn.{module}")
    except ImportError as error:
        told[module] = str(error)
print("told:", json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core")
    done = run_fresh(PROGRAM, folder, ROOT, json.dumps(HIDDEN))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    return json.loads(line.removeprefix("told: "))


@pytest.mark.parametrize("name", ["init", "init sla without parser", "inspect"])
def test_what_needs_no_extra_works_without_one(name, told):
    assert "error" not in told[name]


def test_a_pipeline_needs_no_extra(told):
    assert told["answer"] in "Ada wrote it."


ALL_OF_TRAIN = "accelerate, datasets, evaluate, lxml, nltk, sacrebleu, scipy, seqeval, sklearn, torchmetrics"
ALL_OF_ONNX = "onnx, onnxruntime, onnxscript"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("train", f"error: Training needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("compare", f"error: `hf-localattn compare` needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        (
            "init sla",
            "error: SLA, syntax-aware local attention needs spacy: run `pip install 'hf_localattn[parser]'`.",
        ),
        ("inspect file", f"error: --file needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("plot", "error: -o map.png needs matplotlib: run `pip install 'hf_localattn[plot]'`."),
        ("export", f"error: `hf-localattn export` needs {ALL_OF_ONNX}: run `pip install 'hf_localattn[onnx]'`."),
        ("data", f"hf_localattn.data needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("metrics", f"hf_localattn.metrics needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("tasks", f"hf_localattn.tasks needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("training.trainer", f"hf_localattn.training needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("demo", "error: `hf-localattn demo` needs gradio: run `pip install 'hf_localattn[demo]'`."),
    ],
)
def test_what_needs_an_extra_names_it(name, message, told):
    assert told[name].splitlines()[-1] == message


def test_extras_are_checked_for_all_that_they_install():
    for extra, modules in extras.EXTRAS.items():
        assert {*modules} == {MODULES.get(each.name, each.name) for each in REQUIREMENTS[extra]}


def test_all_holds_every_extra_of_users():
    (own,) = REQUIREMENTS["all"]
    assert own.extras == set(EXTRAS)
    others = {"", "all", "benchmark", "browser", "dev", "docs", "kernels", "lint", "test"}
    assert set(REQUIREMENTS) - own.extras == others  # a CUDA build of torch brings its own triton
