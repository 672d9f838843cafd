"""No hostile checkpoint gets further than an error that says what is wrong."""

import re
import shutil
import sys

import pytest

from tests.hostile.cases import CONTROLS, Harmless, Refused, Stock, write, write_samples
from tests.hostile.cases_of_configurations import CONFIGURATIONS
from tests.hostile.cases_of_files import BOUNDARY, FILES
from tests.hostile.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and watches are those of Linux")

CASES = [*CONFIGURATIONS, *FILES]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    write_samples(folder)
    return folder


@pytest.fixture(scope="module")
def sandbox(root):
    controls = []
    for sample, loaders in CONTROLS.items():
        copy = shutil.copytree(root / sample / "harmless", root / sample / "control")  # some calls write there
        controls += [(loader, copy, root / sample / "outside") for loader in loaders.split()]
    with Sandbox(root / "home", [(loader, folder) for loader, folder, _ in controls]) as process:
        process.controls = controls
        yield process


def problem(case, loader, result):
    """Say what is wrong with how a call has ended; nothing if it has ended as it should."""
    if result.status != "ended":
        return result.status
    if result.forbidden:
        return f"it did what it may not: {result.forbidden}"
    if loader != case.loads[-1] and not result.error:
        return ""
    match case.ends:
        case Refused(pattern):
            return "" if result.is_refusal and re.search(pattern, result.text, re.DOTALL) else "it is not refused so"
        case Harmless():
            return "it does not load" if result.error else injected(case, result.text)
        case Stock(error):
            return "" if result.error[:1] == [error] or result.is_refusal else "it is another error"


def injected(case, text):
    """Say what of a harmful text has got where it is more than text, if it is a card or a page."""
    if case.loads[-1] == "inspect":
        return "an element of its own" if "<script>x" in text else ""
    if case.loads[-1] != "card":
        return ""
    metadata = text.split("\n---\n")[0]
    if re.search(r"^(license: injected|a: !!)", metadata, re.MULTILINE):
        return "metadata of its own"
    return "a part of its own" if text.count(BOUNDARY) != 1 + (case.name == "card-own-template") else ""


def failures_of(sandbox, root, cases, calls_of):
    """What is wrong with how calls of cases end, in words."""
    calls = [(case, loader, *write_once(case, root)) for case in cases for loader in calls_of(case)]
    results = sandbox.run(*[(loader, folder, outside) for _, loader, folder, outside in calls])
    failures = [
        f"{case.name}, {loader}: {wrong}\n    {', '.join(result.error[:1])}: {result.text[:500]}"
        for (case, loader, *_), result in zip(calls, results, strict=True)
        if (wrong := problem(case, loader, result))
    ]
    return "\n".join(failures)


def write_once(case, root):
    folder = root / case.sample / case.name
    return (folder, root / case.sample / "outside") if folder.exists() else write(case, root)


def test_harmless_checkpoints_load(sandbox):
    results = sandbox.run(*sandbox.controls)
    wrong = [
        (loader, folder.parent.name, result)
        for (loader, folder, _), result in zip(sandbox.controls, results, strict=True)
        if result.status != "ended" or result.error or result.forbidden
    ]
    assert not wrong


def test_hostile_checkpoints_do_no_harm(sandbox, root):
    """All at once: a process for them takes ten seconds to start, and workers share no processes."""
    failures = failures_of(sandbox, root, CASES, lambda case: case.loads[-1:])
    assert not failures, failures


@pytest.mark.slow(reason="each case by all calls that load it")
def test_hostile_checkpoints_do_no_harm_whatever_loads_them(sandbox, root):
    failures = failures_of(sandbox, root, CASES, lambda case: case.loads)
    assert not failures, failures


def test_there_are_enough_cases_of_different_names():
    assert len(CASES) == len({case.name for case in CASES}) >= 40


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
}


def test_the_sandbox_finds_out_what_is_forbidden(sandbox, root):
    """Loaders that do it: were one of these not found out, the other tests would say nothing."""
    folder, outside = root / "cool" / "fakes", root / "cool" / "outside"
    shutil.copytree(root / "cool" / "armed", folder)
    results = sandbox.run(*[(f"fakes.{name}", folder, outside) for name in FAKES])
    for (name, found), result in zip(FAKES.items(), results, strict=True):
        assert any(re.match(found, one) for one in result.forbidden), (name, result)


def test_bytecode_is_not_written(sandbox, root):
    folder, outside = root / "cool" / "control", root / "cool" / "outside"
    (result,) = sandbox.run(("fakes.imports_a_library_without_bytecode", folder, outside))
    assert not result.error
    assert not result.forbidden


def test_the_sandbox_ends_what_does_not_end_well(sandbox, root):
    folder, outside = root / "cool" / "control", root / "cool" / "outside"
    names = ["crashes", "exits", "is_busy", "takes_memory", "gives_up", "says_nothing", "own_config"]
    calls = [(name if name == "own_config" else f"fakes.{name}", folder, outside) for name in names]
    crashes, exits, busy, memory, ends, silent, last = sandbox.run(*calls, seconds=1)
    assert (crashes.status, exits.status, busy.status) == ("SIGSEGV", "exit 3", "hung")
    assert memory.error[0] == "MemoryError"
    assert ends.error[0] == "SystemExit"
    assert silent.error[0] == "KeyError"
    assert last.status == "ended"
    assert not last.error
    assert not any(result.is_refusal for result in (crashes, exits, busy, memory, ends, silent, last))
