"""No hostile checkpoint gets further than an error that says what is wrong."""

import re
import shutil
import sys

import pytest

from tests.hostile.cases import CONTROLS, Stock, write, write_samples
from tests.hostile.cases_of_configurations import CONFIGURATIONS
from tests.hostile.cases_of_files import BOUNDARY, FILES
from tests.hostile.sandbox import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the watches are those of Linux")

CASES = [*CONFIGURATIONS, *FILES]

FAKES = {
    "imports_a_module": "imported this",
    "imports_a_file": "ran .*cool_convolution.py|imported cool_convolution",
    "runs_a_file": "ran .*cool_convolution.py",
    "opens_a_file": "opened .*secret.txt",
    "opens_without_python": "opened .*secret.txt",
    "writes_a_file": "opened .*hostile.txt",
    "connects": "socket.connect",
    "starts_a_program": "subprocess.Popen",
    "unpickles": "pickle.find_class",
    "imports_a_library_without_bytecode": None,
}
"""Loaders that do it: were one of these not found out, the other results would say nothing."""


def problem(case, loader, result):
    """Say what is wrong with how a call has ended; nothing if it has ended as it should."""
    if result.forbidden:
        return f"it did what it may not: {result.forbidden}"
    if loader != case.loads[-1] and not result.error:
        return ""
    if case.ends is None:
        return "it does not load" if result.error else injected(case, result.text)
    if isinstance(case.ends, Stock):
        is_expected = result.error[:1] == [case.ends.error] or result.is_refusal
        return "" if is_expected else "it is another error"
    return "" if result.is_refusal and re.search(case.ends, result.text, re.DOTALL) else "it is not refused so"


def injected(case, text):
    """Say what of a harmful text has got where it is more than text, if it is a card or a page."""
    if case.loads[-1] == "inspect":
        return "an element of its own" if "<script>x" in text else ""
    if case.loads[-1] != "card":
        return ""
    if re.search(r"^(license: injected|a: !!)", text.split("\n---\n")[0], re.MULTILINE):
        return "metadata of its own"
    return "a part of its own" if text.count(BOUNDARY) != 1 + (case.name == "card-own-template") else ""


@pytest.mark.parametrize(
    "calls_of",
    [
        pytest.param(lambda case: case.loads[-1:], id="one call"),
        pytest.param(lambda case: case.loads, id="all calls", marks=pytest.mark.slow(reason="three times as many")),
    ],
)
def test_hostile_checkpoints_do_no_harm(calls_of, tmp_path):
    """All at once: a process for them takes ten seconds to start. Harmless checkpoints load in it, too."""
    write_samples(tmp_path)
    controls = []
    for sample, loaders in CONTROLS.items():
        copy = shutil.copytree(tmp_path / sample / "harmless", tmp_path / sample / "control")  # some calls write there
        controls += [(loader, copy, tmp_path / sample / "outside") for loader in loaders.split()]
    assert len(CASES) == len({case.name for case in CASES}) >= 40
    folders = {case.name: write(case, tmp_path) for case in CASES}
    calls = [(case, loader) for case in CASES for loader in calls_of(case)]
    fakes = shutil.copytree(tmp_path / "cool" / "armed", tmp_path / "cool" / "fakes"), tmp_path / "cool" / "outside"
    every = [*controls, *((loader, *folders[case.name]) for case, loader in calls)]
    results = run(tmp_path / "home", controls, [*every, *((f"fakes.{name}", *fakes) for name in FAKES)])

    for (loader, folder, _), result in zip(controls, results, strict=False):
        assert (result.error, result.forbidden) == ([], []), (loader, folder.parent.name, result.text)
    failures = [
        f"{case.name}, {loader}: {wrong}\n    {', '.join(result.error[:1])}: {result.text[:500]}"
        for (case, loader), result in zip(calls, results[len(controls) :], strict=False)
        if (wrong := problem(case, loader, result))
    ]
    assert not failures, "\n".join(failures)
    for (name, found), result in zip(FAKES.items(), results[len(every) :], strict=True):
        done = any(re.match(found, one) for one in result.forbidden) if found else not result.forbidden
        assert done, (name, result)
