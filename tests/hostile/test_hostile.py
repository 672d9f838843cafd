"""No hostile checkpoint gets further than an error that says what is wrong; and what of a harmless one stays."""

import importlib
import os
import re
import shutil

import pytest
import torch
from transformers import AutoModel

from hf_localattn import CoolConfig, CoolModel
from hf_localattn.hub import init_checkpoint
from tests.hostile.cases import BOUNDARY, CASES, CODE, LOADS, SAMPLES, STOCK, write, write_outside
from tests.hostile.sandbox import FAKES, run
from tests.models.tiny import tiny_model


def problem(ends, loader, result):
    """Say what is wrong with how a call has ended; nothing if it has ended as it should."""
    if ends is LOADS:
        metadata = result.text.split("\n---\n")[0] if loader == "card" else ""
        if re.search(r"^(license: injected|a: !!)", metadata, re.MULTILINE):
            return "metadata of its own"
        is_divided = loader == "card" and result.text.count(BOUNDARY) != 1
        return "it does not load" if result.error else "a part of its own" if is_divided else ""
    if ends == STOCK:
        return "" if "Exception" in result.error else "it loads"
    is_refusal = {"ValueError", "OSError"} & {*result.error}
    return "" if is_refusal and re.search(ends, result.text, re.DOTALL) else "it is not refused so"


def test_hostile_checkpoints_do_no_harm(tmp_path):
    """All at once: a process for them takes ten seconds to start. Harmless checkpoints load in it, too."""
    for name, (family, backbone, settings) in SAMPLES.items():
        harmless, outside = tmp_path / name / "harmless", tmp_path / name / "outside"
        init_checkpoint(family, backbone, harmless, **settings)
        write_outside(outside, harmless)
        # All code in the hostile ones would end the program that runs it.
        armed = shutil.copytree(harmless, tmp_path / name / "armed", copy_function=os.link)
        write(armed, outside, {path.name: CODE for path in armed.glob("*.py")})
    controls, calls = [], []  # loader and folder; for calls also how it ends, and whether in any other way
    for group, cases in CASES.items():
        name, *loaders = group.replace(":", "").split()
        controls += [(loader, tmp_path / name / "harmless") for loader in loaders]
        for case, (files, ends) in cases.items():
            folder = shutil.copytree(tmp_path / name / "armed", tmp_path / name / case, copy_function=os.link)
            write(folder, tmp_path / name / "outside", files)
            calls += [(loader, folder, ends, loader == loaders[-1]) for loader in loaders]
    fakes = [(name, tmp_path / "cool" / "armed") for name in FAKES]
    results = run(tmp_path / "home", controls, [*(call[:2] for call in calls), *fakes])

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


def test_names_of_labels_and_what_asks_for_nothing_are_data(tmp_path):
    labels = {"__label__a": 0, "use_kernels": 1}
    named = {"auto_map": {"AutoModel": "owner/name--code.Model"}, "custom_pipelines": {"a": {}}}
    content = {"backbone_config": {"model_type": "bert", **named}, "use_kernels": False, "of_tomorrow": {"a": [None]}}
    CoolConfig.from_dict(content | {"id2label": {"0": "__label__a", "1": "use_kernels"}}).save_pretrained(tmp_path)
    config = CoolConfig.from_pretrained(tmp_path)
    assert config.label2id == labels
    assert not named.keys() & config.to_dict()["backbone_config"].keys()


@pytest.mark.parametrize(
    ("name", "header", "harm"),
    [
        ("future", "from __future__ import annotations\n", 'open("harm", "w")'),
        ("text", "", """'open("harm", "w")'"""),
        ("nested", "", """list['open("harm", "w")']"""),
    ],
)
def test_text_in_the_type_of_a_field_is_not_evaluated(name, header, harm, tmp_path, monkeypatch):
    """In a checkpoint's copy of the code, which has no help of the package."""
    CoolConfig().save_pretrained(tmp_path / f"copy_{name}")
    path = tmp_path / f"copy_{name}" / "configuration_cool.py"
    code = path.read_text().replace("    use_conv: bool = True\n", f"    use_conv: {harm} = True\n")
    assert harm in code
    path.write_text(header + code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    copied = importlib.import_module(f"copy_{name}.configuration_cool")
    with pytest.raises(TypeError, match="has the text"):
        copied.CoolConfig()
    assert not (tmp_path / "harm").exists()


def test_a_pickle_is_not_read_whatever_the_program_says_and_the_command_in_the_error_converts_it(
    tmp_path, monkeypatch
):
    model = tiny_model("cool")
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    for choice in (False, None):
        with pytest.raises(ValueError, match="unpickle"):
            CoolModel.from_pretrained(tmp_path, use_safetensors=choice)
    with pytest.raises(OSError, match="file is a pickle") as refused:
        AutoModel.from_pretrained(tmp_path)
    monkeypatch.chdir(tmp_path)
    program = str(refused.value).split('python -c "')[1].rpartition('"')[0]
    exec(program, {})
    converted = AutoModel.from_pretrained(tmp_path, attn_implementation="eager")  # which a file may not choose
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in converted.state_dict().items())
