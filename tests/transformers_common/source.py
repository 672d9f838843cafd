"""transformers' own tests of its models, imported from the source of a release.

A wheel of transformers has no tests. Its source distribution has `tests/test_modeling_common.py`, but not the tests of
generation and of export that this file imports. A checkout has all. What is missing gets an empty stand-in.
"""

import importlib
import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

VARIABLE = "TRANSFORMERS_TESTS"
PACKAGE = "transformers_tests"
"""The name under which transformers' package `tests` is imported: ours is called `tests` too."""

MIXINS = {
    "exporters.test_export": ("ExportTesterMixin", "ExportGenerateTesterMixin"),
    "generation.test_utils": ("GenerationTesterMixin",),
}


def import_common_tests() -> tuple[ModuleType, type]:
    """Return transformers' `test_modeling_common` and its mixin of tests of generation, which may be empty.

    Raises:
        ValueError: the environment variable names no such folder.
    """
    folder = Path(os.environ[VARIABLE]).resolve()
    if not (folder / "test_modeling_common.py").is_file():
        raise ValueError(f"{VARIABLE}={folder} has no test_modeling_common.py: name transformers' `tests`.")
    _package(PACKAGE, folder)
    for name, mixins in MIXINS.items():
        package = name.partition(".")[0]
        if (folder / package).is_dir():
            # One of these files imports another by its absolute name.
            sys.modules[f"tests.{package}"] = _package(f"{PACKAGE}.{package}", folder / package)
        else:
            module = sys.modules[f"{PACKAGE}.{name}"] = ModuleType(f"{PACKAGE}.{name}")
            vars(module).update({mixin: type(mixin, (), {}) for mixin in mixins})
    common = importlib.import_module(f"{PACKAGE}.test_modeling_common")
    return common, common.GenerationTesterMixin


def _package(name: str, folder: Path) -> ModuleType:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    package = sys.modules[name] = module_from_spec(spec)
    return package
