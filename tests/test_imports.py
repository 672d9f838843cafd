"""What an import brings along, told by processes of their own."""

import json
import os
import re
import subprocess
import sys

import pytest

import hf_localattn
from hf_localattn.extras import EXTRAS
from hf_localattn.files import atomic_write
from tests.fresh_process import bare_python
from tests.script_helpers import ROOT

SLOW = ("torch", "transformers", "datasets", "evaluate", "spacy", "sklearn", "matplotlib", "pandas", "huggingface_hub")
SLOW += ("torchmetrics",)


def loaded_by(python, program, *arguments, afterwards=""):
    """Return those of `SLOW` that a program has imported before it goes on with what comes afterwards."""
    told = f"\nimport json, sys\nprint('loaded:', json.dumps([name for name in {SLOW} if sys.modules.get(name)]))\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*python, "-c", program + told + afterwards, *arguments]
    done = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (loaded,) = [line.removeprefix("loaded: ") for line in lines if line.startswith("loaded: ")]
    return json.loads(loaded), lines


COMMANDS = ("init", "train", "card", "push", "verify", "export", "inspect", "compare", "negation", "demo")
ANSWERS = f"""
import sys
from hf_localattn_command import main

def answer(*words):
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    assert not [name for name in {SLOW} if sys.modules.get(name)], words
    return code

helps = [f"{{name}} --help" for name in {COMMANDS}]
for words in ("--help", "--version", "train qg --help", *helps):
    assert answer(*words.split()) == 0, words
WRONG = ("--family colo", "--famly sla", "--train_file nowhere.csv", "nowhere.json")
for words in ("init col tiny x", "train q", *(f"train qa {{options}}" for options in WRONG)):
    assert answer(*words.split()) == 2, words
"""
# As the main program, since importing `hf_localattn` otherwise registers the families.
SCRIPT = """
import contextlib, runpy, sys
sys.argv = ["run_glue.py", "--do_train", "--family=colo", "--backbone", "tiny"]
with contextlib.suppress(SystemExit):
    runpy.run_path("run_glue.py", run_name="__main__")
"""


WITHOUT_TORCH = (
    ANSWERS.partition("helps =")[0]
    + f"""
sys.modules.update(dict.fromkeys({sorted({*EXTRAS["train"]} - {"scipy"})}))  # not installed
assert answer("verify", "model") == answer("compare", "a-*", "b-*") == 0
for words in ("verify nix", "card nix", "compare nix a-*", "inspect x y -o x.gif", "inspect ./x y -o x.json"):
    assert answer(*words.split()) == 2, words
assert main(("card", "model")) == 0
"""
)


def test_verify_compare_and_card_need_no_torch_and_scipy_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    atomic_write("model/config.json", '{"model_type": "sam-roberta"}')
    for name, seed, score in (("a", 1, 2.0), ("a", 2, 4.0), ("b", 1, 1.0), ("b", 2, 2.0)):
        atomic_write(f"{name}-{seed}/all_results.json", json.dumps({"eval_f1": score}))
        atomic_write(f"{name}-{seed}/run.json", json.dumps({"seed": seed}))
    assert loaded_by([sys.executable], WITHOUT_TORCH)[0] == ["huggingface_hub"]  # which checks cards


@pytest.mark.parametrize("program", [ANSWERS, SCRIPT], ids=["command", "script"])
def test_help_and_a_misspelt_name_wait_for_no_library(program):
    assert not loaded_by([sys.executable], program)[0]


def test_a_library_below_its_floor_is_named_before_it_is_imported(tmp_path):
    """A stand-in for an old transformers, which must not be imported."""
    (tmp_path / "transformers.py").write_text("raise SystemExit('imported')")
    (tmp_path / "transformers-5.17.0.dist-info").mkdir()
    (tmp_path / "transformers-5.17.0.dist-info" / "METADATA").write_text("Name: transformers\nVersion: 5.17.0\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-c", "import hf_localattn, transformers"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert re.search("ImportError: .*transformers>=5.*transformers 5.17.0", done.stderr.splitlines()[-1])


AUDIT = """
import sys

def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise AssertionError(f"{event}{arguments}")
    if event == "import" and arguments[0].partition(".")[0] in ("torch", "transformers"):
        raise ModuleNotFoundError(arguments[0])  # as where it is not installed: spaCy imports torch if it can

sys.addaudithook(audit)
"""
NEGATION = {
    "finder": """
from hf_localattn.negation import decide, finder
found = finder(convention="notes")("No fever.")
assert decide("No fever.", 3, 8, found).negated
""",
    "command": """
from hf_localattn_command import main
assert main(["negation", "No fever."]) == 0
""",
    "component": """
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("hf_localattn_negation")
assert nlp("No fever.")[1:2]._.negated
""",
}


@pytest.mark.parametrize("program", NEGATION.values(), ids=NEGATION)
def test_negation_needs_neither_torch_nor_transformers_nor_a_network(program):
    pytest.importorskip("onnxruntime")
    assert not {"torch", "transformers", "huggingface_hub"} & {*loaded_by([sys.executable], AUDIT + program)[0]}
    if "spacy" not in program:
        assert not loaded_by([sys.executable], program)[0]


FIRST = ("hf_localattn.models.forward_inputs", "hf_localattn.bundled", "hf_localattn.data")


@pytest.mark.parametrize("module", FIRST)
def test_families_are_registered_whatever_is_imported_first(module):
    program = f"""
import {module}
from transformers import CONFIG_MAPPING
assert "cool" in CONFIG_MAPPING
"""
    loaded_by(bare_python(), program)


def test_importing_the_package_registers_and_brings_only_what_models_need():
    """Then, in the same process, its subpackages and the command."""
    program = """
import hf_localattn
from transformers import CONFIG_MAPPING, AutoModelForQuestionAnswering, AutoTokenizer
for family in hf_localattn.families.FAMILIES.values():
    assert CONFIG_MAPPING[family.config.model_type] is family.config
assert hf_localattn.CoolConfig in AutoModelForQuestionAnswering._model_mapping
"""
    programs = """
import runpy
for name in ("data", "families", "hub", "inspection", "models", "resources", "tasks"):
    assert getattr(hf_localattn, name).__name__ == f"hf_localattn.{name}"
runpy.run_module("hf_localattn", run_name="__main__", alter_sys=True)
"""
    loaded, lines = loaded_by(bare_python(), program, "--version", afterwards=programs)
    assert set(loaded) <= {"torch", "transformers", "huggingface_hub", "sklearn", "pandas"}
    assert lines[-1] == f"hf-localattn {hf_localattn.__version__}"
