"""The examples in docstrings and in the metrics' `inputs_description` run, and print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import hf_localattn
from hf_localattn.metrics import load_metric

PACKAGE = Path(hf_localattn.__file__).parent
METRICS = [
    ("entities",),
    ("error_detection",),
    ("error_diagnosis",),
    ("generation",),
    ("glue", "mrpc"),
    ("negation_scope",),
    ("squad",),
    ("squad_v2",),
]


def modules_with_examples():
    """Return the names of the modules that have examples, except for the metrics, which are loaded by path."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_metric = parts[1] == "metrics" and len(parts) > 3
        if not is_metric and ">>> " in path.read_text(encoding="utf-8"):
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_docstrings(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("name", METRICS, ids=lambda name: name[0])
def test_examples_of_metrics(name):
    text = load_metric(*name).inputs_description
    test = doctest.DocTestParser().get_doctest(text, {}, name[0], None, 0)
    assert test.examples
    assert not doctest.DocTestRunner().run(test).failed
