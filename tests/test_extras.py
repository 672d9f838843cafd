"""Without extras the core works, and everything else names the extra that it needs."""

import json

import pytest

from hf_localattn.extras import TRAIN
from tests.fresh_process import run_fresh
from tests.script_helpers import ROOT
from tests.test_packaging import REQUIREMENTS

MODULES = {"pytorch_optimizer": "pytorch_optimizer", "scikit-learn": "sklearn"}
"""Modules whose name differs from their distribution's after `-` has become `_`."""

EXTRAS = ("train", "plot", "search", "cluster", "lookahead", "peft", "onnx", "demo")

HIDDEN = [MODULES.get(each.name, each.name) for extra in EXTRAS for each in REQUIREMENTS[extra]]

PROGRAM = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
hidden = json.loads(sys.argv[2])
for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
    del sys.modules[name]
sys.modules.update(dict.fromkeys(hidden))

import hf_localattn
from hf_localattn import data, hub, inspection, models, registry, resources, tasks
from hf_localattn.data.folds import Fold, split_rows
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.squad_scores import answer_scores
from hf_localattn_command import main
from transformers import pipeline

def command(*words):
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()):
        try:
            main(words)
        except SystemExit as ended:
            assert ended.code in (0, 2), told.getvalue()
        return told.getvalue().strip()

def call(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except ImportError as error:
        return str(error)

files = resources.reading_comprehension()
rows = data.load_squad(files["validation"])
told = {"init": command("init", "cool", "tiny", "model", "--task", "question-answering")}
told["answer"] = pipeline("question-answering", "model")(question="Who?", context="Ada wrote it.")["answer"]
told["train --help"] = command("train", "qa", "--help")
told["train"] = command("train", "qa", "--model_name_or_path", "model", "--do_eval", "--output_dir", "out",
                        "--validation_file", str(files["validation"]))
told["compare"] = command("compare", "one", "other")
told["plot"] = command("inspect", "model", "Ada", "-o", "map.png")
told["export"] = command("export", "model", "graph")
told["demo"] = command("demo", "model")
told["metric"] = call(load_metric, "entities")
told["folds"] = call(split_rows, rows, Fold(1, 5, 0), ("test",))
told["score"] = call(answer_scores, "Ada", "Ada")
print("told:", json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core")
    done = run_fresh(PROGRAM, folder, ROOT, json.dumps(HIDDEN))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    return json.loads(line.removeprefix("told: "))


@pytest.mark.parametrize("name", ["init", "train --help"])
def test_what_needs_no_extra_works_without_one(name, told):
    assert "error" not in told[name]


def test_a_pipeline_needs_no_extra(told):
    assert told["answer"] in "Ada wrote it."


ALL_OF_TRAIN = "lxml, nltk, sacrebleu, scipy, seqeval, sklearn, torchmetrics"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("train", f"error: The script needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("compare", f"error: `hf-localattn compare` needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("plot", "error: -o map.png needs matplotlib: run `pip install 'hf_localattn[plot]'`."),
        ("export", "error: hf-localattn export needs onnx: run `pip install 'hf_localattn[onnx]'`."),
        ("demo", "error: `hf-localattn demo` needs gradio: run `pip install 'hf_localattn[demo]'`."),
        ("metric", f"The metric 'entities' needs {ALL_OF_TRAIN}: run `pip install 'hf_localattn[train]'`."),
        ("folds", "--num_folds needs sklearn: run `pip install 'hf_localattn[train]'`."),
        ("score", "A score of answers needs torchmetrics: run `pip install 'hf_localattn[train]'`."),
    ],
)
def test_what_needs_an_extra_names_it(name, message, told):
    assert told[name].splitlines()[-1] == message


def test_train_is_checked_for_all_that_it_installs():
    assert set(TRAIN) == {MODULES.get(each.name, each.name) for each in REQUIREMENTS["train"]}


def test_all_holds_every_extra_of_users():
    (own,) = REQUIREMENTS["all"]
    assert own.extras == set(EXTRAS)
    assert set(REQUIREMENTS) - own.extras == {
        "",
        "all",
        "browser",
        "dev",
        "docs",
        "kernels",  # a CUDA build of torch brings its own
        "lint",
        "test",
    }
