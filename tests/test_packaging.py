"""What is installed is what was developed: the wheel, the requirements, the versions."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import hf_localattn
from hf_localattn.models.configuration_local_attention import VERSION
from tests.fresh_process import run_fresh
from tests.hub.loopback import Hub

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hf_localattn"
STANDARD_LIBRARY = sys.stdlib_module_names


def read_requirements() -> dict[str, list[Requirement]]:
    """The requirements of the package (under the empty name) and of each extra; one that cannot be parsed raises."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    texts = {"": config["options"]["install_requires"], **config["options.extras_require"]}
    return {name: [Requirement(line) for line in text.split("\n") if line.strip()] for name, text in texts.items()}


def read_constraints() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pins}


REQUIREMENTS = read_requirements()
EXTERNAL = [
    pytest.param(requirement, id=f"{extra or 'package'}-{requirement.name}")
    for extra, requirements in REQUIREMENTS.items()
    for requirement in requirements
    if requirement.name != "hf_localattn"
]


def build_wheel(folder: Path, modified: float) -> Path:
    """Build the wheel from a copy: a build folder left in the checkout could lend it files that are gone.

    Args:
        folder: new folder for copy and wheel.
        modified: time of the files of the copy, as a checkout of another day has them.
    """
    source, target = folder / "source", folder / "dist"
    source.mkdir(parents=True)
    for name in (
        "setup.cfg",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "hf_localattn_command.py",
        "hf_localattn_spacy.py",
    ):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in source.rglob("*"):
        os.utime(path, (modified, modified))
    # As pip does it, which takes five seconds to come to it.
    build = "import sys; from setuptools.build_meta import __legacy__; __legacy__.build_wheel(sys.argv[1])"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-P", "-c", build, str(target)]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=source)
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel") / "first", modified=1_750_000_000)


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel_file)


def test_the_wheel_built_twice_is_the_same(wheel_file: Path, tmp_path: Path) -> None:
    again = build_wheel(tmp_path / "in another folder", modified=1_760_000_000)
    assert again.name == wheel_file.name
    assert again.read_bytes() == wheel_file.read_bytes()


def test_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if name.startswith("hf_localattn/")}
    assert packed == files


def test_wheel_brings_licence_command_and_types(wheel: zipfile.ZipFile) -> None:
    info = f"hf_localattn-{hf_localattn.__version__}.dist-info"
    names = wheel.namelist()
    assert "hf_localattn/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names
    assert "hf-localattn = hf_localattn_command:main" in wheel.read(f"{info}/entry_points.txt").decode()


def test_wheel_has_nothing_else_on_top(wheel: zipfile.ZipFile) -> None:
    top = {name.split("/")[0] for name in wheel.namelist()}
    modules = {"hf_localattn_command.py", "hf_localattn_spacy.py"}
    assert top == {"hf_localattn", *modules, f"hf_localattn-{hf_localattn.__version__}.dist-info"}


COMMANDS = """
import sys
sys.path.insert(0, "installed")
from hf_localattn_command import main
import hf_localattn

assert "installed" in hf_localattn.__file__
main(["init", "cool", "tiny", "model", "--config", "use_conv=false"])
main(["card", "model", "--license", "mit"])
main(["push", "model", "somebody/model"])
"""


def test_the_commands_work_from_the_wheel_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "installed")
    with Hub().serve() as hub:
        done = run_fresh(COMMANDS, tmp_path, HF_HUB_OFFLINE="0", HF_ENDPOINT=hub.endpoint, HF_TOKEN="hf_writer")
        assert done.returncode == 0, done.stderr
        pushed = hub.files("somebody/model")
    assert {"model.safetensors", "modeling_cool.py", "tokenizer.json"} <= pushed.keys()
    assert b"license: mit" in pushed["README.md"]


def test_version_is_written_once() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    assert config["metadata"]["version"] == "attr: hf_localattn.__version__"
    assert "version" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.")[0]
    assert str(Version(hf_localattn.__version__)) == hf_localattn.__version__ == VERSION


@pytest.mark.parametrize("requirement", EXTERNAL)
def test_requirement_is_a_floor_below_the_tested_version(requirement: Requirement) -> None:
    (specifier,) = requirement.specifier
    assert specifier.operator == ">=", f"{requirement}: floors, no caps"
    tested = read_constraints().get(canonicalize_name(requirement.name))
    if requirement.name == "triton":
        assert tested is None, "each CUDA build of torch has its own triton, which a constraint would replace"
        return
    assert tested is not None, f"constraints.txt has no {requirement.name}: run `make constraints`"
    assert Version(specifier.version) <= tested


def test_extras_name_each_other_rightly() -> None:
    own = [
        requirement for group in REQUIREMENTS.values() for requirement in group if requirement.name == "hf_localattn"
    ]
    assert own
    for requirement in own:
        assert requirement.extras <= set(REQUIREMENTS)


def modules_of(distribution: str) -> set[str]:
    """The names on top of a distribution; none where it is not installed."""
    with contextlib.suppress(PackageNotFoundError):
        return {file.parts[0].removesuffix(".py") for file in files(distribution) or ()}
    return set()


def test_what_is_imported_is_required() -> None:
    """Every third-party module imported by the package, even inside a function, is a requirement or in an extra."""
    imported = {
        (node.names[0].name if isinstance(node, ast.Import) else node.module).split(".")[0]
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.level == 0 and node.module)
    }
    required = {canonicalize_name(parameter.values[0].name) for parameter in EXTERNAL}
    own_name = {module for module in imported if canonicalize_name(module) in required}
    others = imported - own_name - STANDARD_LIBRARY - {"hf_localattn", "hf_localattn_command"}
    # Not of all that is installed: torch alone has ten thousand files.
    brought = {module for name in required - {*map(canonicalize_name, own_name)} for module in modules_of(name)}
    assert not others - brought, "they are imported but no requirement of setup.cfg brings them"
