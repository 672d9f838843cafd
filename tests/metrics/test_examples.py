"""The examples in docstrings and in the metrics' `inputs_description` run, and print what they say."""

import doctest

import pytest

from hf_localattn import metrics, tasks
from hf_localattn.data import folds
from hf_localattn.data.readers import column_files
from hf_localattn.metrics import load_metric

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


@pytest.mark.parametrize("name", METRICS, ids=lambda name: name[0])
def test_examples_of_metrics(name):
    text = load_metric(*name).inputs_description
    test = doctest.DocTestParser().get_doctest(text, {}, name[0], None, 0)
    assert test.examples
    assert not doctest.DocTestRunner().run(test).failed


@pytest.mark.parametrize("module", [metrics, tasks, folds, column_files], ids=lambda module: module.__name__)
def test_examples_of_docstrings(module):
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed
