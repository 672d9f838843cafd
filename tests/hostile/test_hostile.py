"""No hostile checkpoint gets further than an error that says what is wrong."""

import os
import re
import shutil

from hf_localattn.hub import init_checkpoint
from tests.hostile.cases import BOUNDARY, CASES, CODE, CONTROLS, LOADS, SAMPLES, STOCK, content, write_outside
from tests.hostile.loaders import FAKES
from tests.hostile.sandbox import run


def problem(ends, loader, result):
    """Say what is wrong with how a call has ended; nothing if it has ended as it should."""
    if ends == LOADS:
        return "it does not load" if result.error else injected(loader, result.text)
    if ends == STOCK:
        return "" if {"Exception"} & {*result.error} else "it loads"
    is_refusal = {"ValueError", "OSError"} & {*result.error}
    return "" if is_refusal and re.search(ends, result.text, re.DOTALL) else "it is not refused so"


def injected(loader, text):
    """Say what of a harmful text has got where it is more than text, if it is a card."""
    if loader == "card" and re.search(r"^(license: injected|a: !!)", text.split("\n---\n")[0], re.MULTILINE):
        return "metadata of its own"
    return "a part of its own" if loader == "card" and text.count(BOUNDARY) != 1 else ""


def test_hostile_checkpoints_do_no_harm(tmp_path):
    """All at once: a process for them takes ten seconds to start. Harmless checkpoints load in it, too."""
    controls, calls = [], []  # loader and folder; for calls also the case, and how it ends or "" for any way
    for name, (family, backbone, settings) in SAMPLES.items():
        harmless, outside = tmp_path / name / "harmless", tmp_path / name / "outside"
        init_checkpoint(family, backbone, harmless, **settings)
        write_outside(outside, harmless)
        # All code in the hostile ones would end the program that runs it.
        armed = shutil.copytree(harmless, tmp_path / name / "armed", copy_function=os.link)
        for path in armed.glob("*.py"):
            content(path.name, CODE)(armed, outside)
        controls += [(loader, harmless) for loader in CONTROLS[name].split()]
    for group, cases in CASES.items():
        name, *loaders = group.replace(":", "").split()
        for case, (change, ends) in cases.items():
            folder = shutil.copytree(tmp_path / name / "armed", tmp_path / name / case, copy_function=os.link)
            change(folder, tmp_path / name / "outside")
            calls += [(loader, folder, ends, loader == loaders[-1]) for loader in loaders]
    fakes = [(name, tmp_path / "cool" / "armed") for name in FAKES]
    every = [*controls, *((loader, folder) for loader, folder, *_ in calls), *fakes]
    results = run(tmp_path / "home", controls, every)

    for (loader, folder), result in zip(controls, results, strict=False):
        assert (result.error, result.forbidden) == ([], []), (loader, folder.parent.name, result.text)
    failures = []
    for (loader, folder, ends, is_last), result in zip(calls, results[len(controls) :], strict=False):
        wrong = result.forbidden or ((is_last or result.error) and problem(ends, loader, result))
        if wrong:
            failures.append(f"{folder.name}, {loader}: {wrong}\n    {result.error[:1]}: {result.text[:500]}")
    assert not failures, "\n".join(failures)
    for (_, pattern), result in zip(FAKES.values(), results[-len(FAKES) :], strict=True):
        assert any(re.match(pattern, one) for one in result.forbidden), (pattern, result)
