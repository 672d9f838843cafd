"""What is installed is what was developed: wheel, requirements, extras. The files of the repository are in order."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import hf_localattn
from hf_localattn.extras import EXTRAS
from hf_localattn.models.configuration_local_attention import VERSION
from hf_localattn.names import family_notes
from hf_localattn.registry import FAMILIES
from tests.fresh_process import run_fresh

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hf_localattn"
MODULES = ("hf_localattn_command.py", "hf_localattn_spacy.py")


SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
TEXTS = {"": SETUP["options"]["install_requires"], **SETUP["options.extras_require"]}
REQUIREMENTS = {name: [Requirement(line) for line in text.split("\n") if line.strip()] for name, text in TEXTS.items()}
"""The requirements of the package (under the empty name) and of each extra."""

PINS = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] not in ("", "#")]
TESTED = {canonicalize_name(name): Version(version) for name, version in PINS}
EXTERNAL = [
    pytest.param(requirement, id=f"{extra or 'package'}-{requirement.name}")
    for extra, requirements in REQUIREMENTS.items()
    for requirement in requirements
    if requirement.name != "hf_localattn"
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy: a build folder left in the checkout could lend it files that are gone."""
    source = tmp_path_factory.mktemp("source")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", *MODULES):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    # As pip does it, which takes five seconds to come to it.
    build = "from setuptools.build_meta import __legacy__; __legacy__.build_wheel('dist')"
    subprocess.run([sys.executable, "-P", "-c", build], check=True, capture_output=True, cwd=source)
    return zipfile.ZipFile(next(source.glob("dist/*.whl")))


def test_the_wheel_has_the_package_with_its_license_and_command_and_nothing_else(wheel):
    info = f"hf_localattn-{hf_localattn.__version__}.dist-info"
    packed = {name for name in wheel.namelist() if not name.startswith(info)}
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert packed == {*MODULES, *(path.relative_to(ROOT).as_posix() for path in files)}
    assert "hf_localattn/py.typed" in packed
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert "hf-localattn = hf_localattn_command:main" in wheel.read(f"{info}/entry_points.txt").decode()


COMMANDS = """
import sys
sys.path.insert(0, "installed")
from hf_localattn_command import main
import hf_localattn

assert "installed" in hf_localattn.__file__
main(["init", "cool", "tiny", "model", "--config", "use_conv=false"])
main(["card", "model", "--license", "mit"])
"""


def test_the_commands_work_from_the_wheel_alone(wheel, tmp_path):
    wheel.extractall(tmp_path / "installed")
    done = run_fresh(COMMANDS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"model.safetensors", "modeling_cool.py", "tokenizer.json"} <= {*os.listdir(tmp_path / "model")}
    assert "license: mit" in (tmp_path / "model" / "README.md").read_text()


def test_version_is_written_once():
    assert SETUP["metadata"]["version"] == "attr: hf_localattn.__version__"
    assert "version" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.")[0]
    assert str(Version(hf_localattn.__version__)) == hf_localattn.__version__ == VERSION


@pytest.mark.parametrize("requirement", EXTERNAL)
def test_requirement_is_a_floor_below_the_tested_version(requirement):
    (specifier,) = requirement.specifier
    assert specifier.operator == ">=", f"{requirement}: floors, no caps"
    tested = TESTED.get(canonicalize_name(requirement.name))
    if requirement.name == "triton":
        assert tested is None, "each CUDA build of torch has its own triton, which a constraint would replace"
        return
    assert tested is not None, f"constraints.txt has no {requirement.name}: run `make constraints`"
    assert Version(specifier.version) <= tested


def test_extras_name_each_other_rightly():
    own = {
        extra for group in REQUIREMENTS.values() for one in group if one.name == "hf_localattn" for extra in one.extras
    }
    (every,) = REQUIREMENTS["all"]
    others = {"", "all", "benchmark", "browser", "dev", "docs", "kernels", "lint", "test"}
    assert own <= {*REQUIREMENTS} == every.extras | others  # a CUDA build of torch brings its own triton
    assert every.extras == {*EXTRAS, "peft"}
    for extra, modules in EXTRAS.items():
        assert {*modules} == {IMPORTED.get(one.name, one.name) for one in REQUIREMENTS[extra]}


def test_what_is_imported_is_required():
    """Every third-party module imported by the package, even inside a function, is a requirement or in an extra."""
    imported = {
        (node.names[0].name if isinstance(node, ast.Import) else node.module).split(".")[0]
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.level == 0 and node.module)
    }
    brought = {IMPORTED.get(parameter.values[0].name, parameter.values[0].name) for parameter in EXTERNAL}
    brought |= {canonicalize_name(name).replace("-", "_") for name in brought}
    own = {"hf_localattn", "hf_localattn_command"}
    assert not imported - brought - sys.stdlib_module_names - own, "no requirement of setup.cfg brings them"


IMPORTED = {"scikit-learn": "sklearn", "pyyaml": "yaml"}
"""Modules whose name differs from their distribution's."""

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

def result(words):
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()):
        try:
            if words.startswith("import "):
                importlib.import_module(words.removeprefix("import "))
            else:
                main(words.split())
        except ImportError as error:
            return str(error)
        except SystemExit as ended:
            assert ended.code in (0, 2), told.getvalue()
        return told.getvalue().strip()

told = {words: result(words) for words in json.loads(sys.argv[3])}
told["answer"] = pipeline("question-answering", "model")(question="Who?", context="Ada wrote it.")["answer"]
print("told:", json.dumps(told))
"""

WORK = [
    "init cool tiny model --task question-answering",
    "init sla tiny other --config local_attention=window",
    "inspect model Ada -o map.json",
]
NEED = {
    "train qa --model_name_or_path model --do_train --output_dir out": ("Training", "train"),
    "compare one other": ("`hf-localattn compare`", "train"),
    "init sla tiny another": ("SLA", "parser"),
    "inspect model --file texts.csv -o map.json": ("--file", "train"),
    "inspect model Ada -o map.png": ("-o map.png", "plot"),
    "export model graph": ("`hf-localattn export`", "onnx"),
    "demo model": ("`hf-localattn demo`", "demo"),
    "import hf_localattn.data": ("hf_localattn.data", "train"),
    "import hf_localattn.metrics": ("hf_localattn.metrics", "train"),
    "import hf_localattn.tasks": ("hf_localattn.tasks", "train"),
    "import hf_localattn.training.trainer": ("hf_localattn.training", "train"),
}
"""Commands and imports that need an extra, the option that the error names, and the extra."""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What commands say where no extra is installed."""
    hidden = [IMPORTED.get(one.name, one.name) for extra in (*EXTRAS, "peft") for one in REQUIREMENTS[extra]]
    done = run_fresh(PROGRAM, tmp_path_factory.mktemp("core"), ROOT, *map(json.dumps, (hidden, [*WORK, *NEED])))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    return json.loads(line.removeprefix("told: "))


def test_models_their_pipelines_and_their_attention_need_no_extra(told):
    assert told["answer"] in "Ada wrote it."
    assert "error" not in "".join(told[words] for words in WORK)


@pytest.mark.parametrize("words", NEED)
def test_what_needs_an_extra_names_it(words, told):
    option, extra = NEED[words]
    line = told[words].splitlines()[-1].removeprefix("error: ")
    assert line.startswith(option)
    assert f" needs {', '.join(EXTRAS[extra])}: " in line
    assert f"hf_localattn[{extra}]" in line


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_its_actions_and_runs_targets_that_exist_with_few_permissions(path):
    uses = re.findall(r"uses: (.+)", path.read_text())
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            for words in re.findall(r"^make (.*)$", step.get("run", ""), flags=re.MULTILINE):
                assert {word for word in words.split() if "=" not in word} <= TARGETS


def test_the_citation_has_the_papers_of_all_families():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {paper["url"] for paper in citation["references"]} == {family_notes(name)["url"] for name in FAMILIES}
