"""`models/` travels to the Hub with every checkpoint: it is whole and flat, and needs only torch and transformers.

That it works where it arrives is in tests/hub/test_round_trip.py.
"""

import ast
import re
import sys
from pathlib import Path

import hf_localattn.models

SUITCASE = Path(hf_localattn.models.__file__).parent
FILES = sorted(SUITCASE.glob("*.py"))
ALLOWED = {"torch", "transformers", *sys.stdlib_module_names}


def imports(path):
    """(level, module, is it guarded by `try`) of every import statement."""
    tree = ast.parse(path.read_text())
    guarded = {id(node) for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, id(node) in guarded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", id(node) in guarded


def test_is_flat():
    assert not [path for path in SUITCASE.iterdir() if path.is_dir() and path.name != "__pycache__"]


def test_imports_only_what_travels_or_is_there():
    assert len(FILES) > 30
    for path in FILES:
        for level, module, guarded in imports(path):
            if level:
                assert level == 1, f"{path.name}: from {'.' * level}{module} does not travel"
                assert re.fullmatch(r"\w+", module), f"{path.name}: only files beside this one travel"
                assert (SUITCASE / f"{module}.py").is_file(), path.name
            else:
                known = guarded or module.split(".")[0] in ALLOWED
                assert known, f"{path.name}: {module} may not be where the checkpoint is loaded"


def test_docstrings_do_not_look_like_imports():
    """transformers finds the files to copy with a regular expression, which sees docstrings too."""
    for path in FILES:
        seen = re.findall(r"^\s*from\s+\.(\S+)\s+import", path.read_text(), flags=re.MULTILINE)
        assert sorted(seen) == sorted(module for level, module, _ in imports(path) if level), path.name
