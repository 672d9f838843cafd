"""What is installed is what was developed: wheel, requirements, extras. The files of the repository are in order."""

from __future__ import annotations

import ast
import json
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
from hf_localattn.families import FAMILIES
from hf_localattn.models.configuration_local_attention import VERSION
from hf_localattn.names import family_notes
from tests.fresh_process import run_fresh

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hf_localattn"
MODULES = ("hf_localattn_command.py", "hf_localattn_spacy.py")


SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
TEXTS = {"": SETUP["options"]["install_requires"], **SETUP["options.extras_require"]}
REQUIREMENTS = {name: [Requirement(line) for line in text.split("\n") if line.strip()] for name, text in TEXTS.items()}
"""The requirements of the package (under the empty name) and of each extra."""

EXTERNAL = [one for group in REQUIREMENTS.values() for one in group if one.name != "hf_localattn"]
IMPORTED = {"scikit-learn": "sklearn", "pyyaml": "yaml"}
"""Modules whose name differs from their distribution's."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What the wheel of a copy installs: a build folder left in the checkout could lend it files that are gone."""
    source = tmp_path_factory.mktemp("source")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", *MODULES):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    # As pip does it, which takes five seconds to come to it.
    build = "from setuptools.build_meta import __legacy__; __legacy__.build_wheel('dist')"
    subprocess.run([sys.executable, "-P", "-c", build], check=True, capture_output=True, cwd=source)
    (path,) = source.glob("dist/*.whl")
    zipfile.ZipFile(path).extractall(source / "installed")
    return source / "installed"


def files_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_wheel_has_the_package_with_its_license_and_command_and_nothing_else(wheel):
    info = wheel / f"hf_localattn-{VERSION}.dist-info"
    packed = {name for name in files_in(wheel) if not name.startswith(info.name)}
    assert packed == {*MODULES, *(f"hf_localattn/{name}" for name in files_in(PACKAGE) if "__pycache__" not in name)}
    assert "hf_localattn/py.typed" in packed
    assert (info / "licenses" / "LICENSE").is_file()
    assert "hf-localattn = hf_localattn_command:main" in (info / "entry_points.txt").read_text()


def test_versions_are_equal():
    assert SETUP["metadata"]["version"] == "attr: hf_localattn.__version__"
    assert str(Version(hf_localattn.__version__)) == hf_localattn.__version__ == VERSION


def test_requirements_are_floors_below_the_tested_versions():
    pins = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    tested = {canonicalize_name(name): version for name, version in pins}
    assert "triton" not in tested, "each CUDA build of torch has its own, which a constraint would replace"
    for one in EXTERNAL:
        (specifier,) = one.specifier
        assert specifier.operator == ">=", f"{one}: floors, no caps"
        if one.name != "triton":
            known = tested.get(canonicalize_name(one.name))
            assert known, f"constraints.txt has no {one.name}: run `make constraints`"
            assert one.specifier.contains(known, prereleases=True), one


def test_extras_name_each_other_rightly():
    own = {
        extra for group in REQUIREMENTS.values() for one in group if one.name == "hf_localattn" for extra in one.extras
    }
    (every,) = REQUIREMENTS["all"]
    others = {"", "all", "browser", "dev", "docs", "kernels", "lint", "test"}
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
    brought = {IMPORTED.get(one.name, one.name) for one in EXTERNAL}
    brought |= {canonicalize_name(name).replace("-", "_") for name in brought}
    own = {"hf_localattn", "hf_localattn_command"}
    assert not imported - brought - sys.stdlib_module_names - own, "no requirement of setup.cfg brings them"


PROGRAM = """
import contextlib, importlib, io, json, sys
sys.path.insert(0, sys.argv[1])
hidden = json.loads(sys.argv[2])
for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
    del sys.modules[name]
sys.modules.update(dict.fromkeys(hidden))

import hf_localattn
assert hf_localattn.__file__.startswith(sys.argv[1])
from hf_localattn import families, hub, inspection, models, resources
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
    "card model --license mit",
]
NEED = {
    "train qa --model_name_or_path model --do_train --output_dir out": ("Training", "train"),
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
def told(wheel, tmp_path_factory):
    """What commands of the wheel say where no extra is installed."""
    hidden = [IMPORTED.get(one.name, one.name) for extra in (*EXTRAS, "peft") for one in REQUIREMENTS[extra]]
    done = run_fresh(PROGRAM, tmp_path_factory.mktemp("core"), wheel, *map(json.dumps, (hidden, [*WORK, *NEED])))
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


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_a_workflow_pins_its_actions_and_runs_targets_that_exist_with_few_permissions(path):
    text = path.read_text()
    uses = re.findall(r"uses: (.+)", text)
    assert uses
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in uses), uses
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)}
    words = {
        word
        for words in re.findall(r"^ *(?:- )?(?:run: )?make (.*)$", text, flags=re.MULTILINE)
        for word in words.split()
    }
    assert {word for word in words if "=" not in word} <= targets


def test_the_citation_has_the_papers_of_all_families():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {paper["url"] for paper in citation["references"]} == {family_notes(name)["url"] for name in FAMILIES}
