"""Private names of other libraries: CONTRIBUTING lists those that the package touches, each with its reason."""

import ast
import re
from importlib.metadata import files
from pathlib import Path

from tests.script_helpers import ROOT
from tests.test_layers import MODULES

BASES = {
    "transformers": (
        "configuration_utils",
        "generation/utils",
        "modeling_utils",
        "pipelines/base",
        "tokenization_utils_base",
        "tokenization_utils_tokenizers",
        "trainer",
    ),
    "torch": ("nn/modules/module",),
}
"""Modules with the classes that the package derives from."""

PUBLIC = {"_actions", "_exit", "_replace"}
"""Names of the standard library."""


def is_private(name):
    return bool(name) and name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def names_of_the_package():
    """Return the private names that modules define, that classes define, and of attributes and keywords."""
    defined, of_classes, used = set(), set(), set()
    for node in (node for path in MODULES for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute):
            (of_classes if isinstance(node.ctx, ast.Store) else used).add(node.attr)
        elif isinstance(node, ast.keyword):
            used.add(node.arg)
        if isinstance(node, ast.ClassDef):
            for part in ast.walk(ast.Module(node.body, [])):
                if isinstance(part, ast.FunctionDef):
                    of_classes.add(part.name)
                elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    of_classes.add(part.id)
    return (set(filter(is_private, names)) for names in (defined | of_classes, of_classes, used))


def names_of_the_bases():
    names = set()
    for library, modules in BASES.items():
        paths = {f"{library}/{module}.py" for module in modules}
        found = [Path(file.locate()) for file in files(library) if str(file) in paths]
        assert len(found) == len(paths)
        for path in found:
            names |= {*re.findall(r"\b_\w+", path.read_text())}
    return names


def test_contributing_lists_the_private_names_of_other_libraries():
    defined, of_classes, used = names_of_the_package()
    touched = ((of_classes | used) & names_of_the_bases()) | (used - defined)
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("### Private names")[2].partition("\n### ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(_\w+)`", "".join(rows))) == sorted(touched)
    assert len(touched) <= 20
