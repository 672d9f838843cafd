"""No hostile checkpoint gets further than an error that says what is wrong; and what of a harmless one stays."""

import os
import re
import shutil

import pytest
import torch
from transformers import AutoModel

from hf_localattn import CoolConfig, CoolModel
from hf_localattn.hub import init_checkpoint
from tests.hostile.cases import BOUNDARY, CASES, CODE, CONTROLS, LOADS, SAMPLES, STOCK, content, write_outside
from tests.hostile.loaders import FAKES
from tests.hostile.sandbox import run
from tests.models.tiny import tiny_model


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


@pytest.fixture
def checkpoint(tmp_path):
    tiny_model("cool").save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("content", [{"a_field_of_tomorrow": {"a": [1, None, "x"]}}, {"use_kernels": False}])
def test_other_entries_stay(content):
    assert CoolConfig.from_dict(content).use_conv


def test_labels_have_any_name(tmp_path):
    labels = {"__label__a": 0, "use_kernels": 1}
    CoolConfig(id2label={0: "__label__a", 1: "use_kernels"}, label2id=labels).save_pretrained(tmp_path)
    assert CoolConfig.from_pretrained(tmp_path).label2id == labels


def test_the_code_of_a_backbone_has_no_say():
    named = {"auto_map": {"AutoModel": "owner/name--code.Model"}, "custom_pipelines": {"a": {}}}
    backbone = CoolConfig(backbone_config={"model_type": "bert", **named}).to_dict()["backbone_config"]
    assert not named.keys() & backbone.keys()


def test_a_program_may_choose_what_a_file_may_not(checkpoint):
    assert CoolModel.from_pretrained(checkpoint, attn_implementation="eager").config._attn_implementation == "eager"


def test_the_command_in_the_error_converts_a_pickle(tmp_path, monkeypatch):
    model = tiny_model("cool")
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="file is a pickle") as refused:
        AutoModel.from_pretrained(tmp_path)
    monkeypatch.chdir(tmp_path)
    program = str(refused.value).split('python -c "')[1].rpartition('"')[0]
    exec(program, {})
    converted = AutoModel.from_pretrained(tmp_path)
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in converted.state_dict().items())


@pytest.mark.parametrize("choice", [False, None])
def test_weights_are_not_unpickled(checkpoint, choice):
    with pytest.raises(ValueError, match="unpickle"):
        CoolModel.from_pretrained(checkpoint, use_safetensors=choice)
