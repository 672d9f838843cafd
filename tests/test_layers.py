"""Imports go downwards only, those of the entry module too; every module belongs to one layer."""

import ast
from pathlib import Path

import hf_localattn
import hf_localattn_command

PACKAGE = Path(hf_localattn.__file__).parent
ENTRY = Path(hf_localattn_command.__file__)
LAYERS = [
    {"models", "resources", "errors", "extras", "files", "limits", "parsing"},
    {"graphs", "kernels", "names"},
    {"installed"},
    {"bundled"},
    {"pipelines"},
    {"families"},
    {"settings"},
    {"data", "metrics"},
    {"pretrained"},
    {"hub"},
    {"tasks"},
    {"training", "inspection"},
    {"studies", "serving", "negation"},
    {"cli"},
    {"hf_localattn_command"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = [ENTRY, *(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")]


def layer(path):
    return path.stem if path == ENTRY else path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def package_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("hf_localattn"))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module.startswith("hf_localattn"):
            if node.module == "hf_localattn":
                yield from (f"hf_localattn.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_imports_go_downwards():
    assert len(MODULES) > 100
    wrong = []
    for path in MODULES:
        own = layer(path)
        assert own in LEVEL, f"say in LAYERS where {own!r} belongs"
        for module in package_imports(path):
            other = module.removeprefix("hf_localattn.").split(".")[0]
            if other not in (own, "__version__") and LEVEL[other] >= LEVEL[own]:
                wrong.append(f"{path.name} of {own} imports {module}, which is not below it")
    assert not wrong


def test_no_file_is_too_long():
    assert not [path for path in PACKAGE.rglob("*.py") if len(path.read_text().splitlines()) > 450]
