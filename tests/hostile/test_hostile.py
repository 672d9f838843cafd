"""No hostile checkpoint gets further than an error that says what is wrong; and what of a harmless one stays."""

import csv
import importlib
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from hf_localattn import CoolConfig, CoolModel
from hf_localattn.errors import CheckpointError
from hf_localattn.hub import init_checkpoint
from hf_localattn.resources import NEGATION, tiny_backbone
from tests.hostile.cases import (
    BOUNDARY,
    BROKEN,
    CASES,
    CODE,
    LOADS,
    SAMPLES,
    SHAPES,
    TOGETHER,
    WEIGHTS,
    write,
    write_outside,
)
from tests.hostile.sandbox import FAKES, run
from tests.models.tiny import tiny_model

OUTCOMES = Path(__file__).with_name("outcomes.csv")

READS_WEIGHTS = ["checkpoint", "inspect", "train", "demo", "export", "from", "model", "own_model", "verify", "push"]
OTHERS = ["checked_tokenizer", "card", "spacy", "negation_command"]
AUTO = ["config", "built_tokenizer", "pipeline", "negation"]
DOORS = {
    "cool": [*READS_WEIGHTS, *OTHERS, *AUTO, "own_config"],
    "sla": [*READS_WEIGHTS[:5], "model", "verify", "push", *OTHERS, *AUTO, "sla_tokenizer"],
    "bart": ["checkpoint", "demo", "model", "generator", "verify", "push", "config", "built_tokenizer", "card"],
    "stock": ["checkpoint", "inspect", "train", "demo", "init", "backbone", "push", *OTHERS],
    "exported": ["exported", "verify", "negation", "spacy", "negation_command", "checked_tokenizer", "config"],
    "cards": ["card"],
}
"""By the harmless checkpoint, all that opens it and asks the policy."""

WHOLE = {
    "checkpoint",
    "config",
    "checked_tokenizer",
    "own_model",
    "sla_tokenizer",
    "generator",
    "backbone",
    "exported",
}
"""Doors that a harmless checkpoint must pass. At others it has no head or parser, or the sandbox ends them."""

LOADING = {"config", "model", "checked_tokenizer", "checkpoint", "own_model", "sla_tokenizer", "backbone", "card"}
"""Doors at which a hostile part without effect is tried."""

OF_WEIGHTS = {"adapter", "adapter-object", "stock-bin", *(case for case in WEIGHTS if case.startswith("weights-"))}
OF_WEIGHTS -= {
    f"weights-{case}" for case in ("device", "letters", "map", "extra", "index", "outside", "absolute", "beside")
}
"""Cases that are refused only where weights are read."""

OF_GRAPHS = {"graph-data-outside", "graph-data-absolute", "graph-broken"}
"""Cases that are refused only where a graph is run."""

BUILDS = ["checkpoint", "inspect", "train", "demo", "export", "from"]
"""Doors at which a model and its tokenizer are built by the package."""

BEFORE_US = {"elsewhere", "link-config.json"}
"""Cases in which an Auto class of transformers opens a file before it asks a class of the package."""

OF_TRANSFORMERS = {
    "type",
    "graph-type",
    *(case for case in BROKEN if case.startswith(("broken-config", "config-", "levels-config"))),
}
OF_TRANSFORMERS -= {"config-surrogate", "config-twice", "config-letters"}
"""Cases that transformers does not take for a checkpoint of the package: its Auto classes do no harm."""


def doors_of(sample, case, ends):
    """Return the doors of a case, those at which it must end as the table says first, and their number."""
    doors = DOORS[sample]
    if case.startswith("parser-"):
        doors = ["sla_tokenizer", "checked_tokenizer"]
    if ends is LOADS:
        doors = [door for door in doors if door in LOADING]
    if case in OF_WEIGHTS:
        doors = [door for door in doors if door in (*READS_WEIGHTS, "init", "backbone")]
    if case in OF_GRAPHS:
        doors = ["exported", "negation", "spacy", "negation_command"]
    if case == "graph-adapter":
        doors = ["verify"]
    if case in TOGETHER:
        doors = [*BUILDS, "config", "own_config", "own_model", "model"]
    if case in SHAPES:
        doors = [*BUILDS, "own_model", "model"]
    if case in BEFORE_US:
        doors = [door for door in doors if door not in (*AUTO, "model")]
    if case in OF_TRANSFORMERS:
        doors = [door for door in doors if door not in (*AUTO, "model")]
        return [*doors, "config"], len(doors)
    return doors, len(doors)


REMEDY = re.compile(
    r"\b(add|choose|convert|correct|export|give|load|must be|pass|remove|rename|replace|save|use)\b", re.IGNORECASE
)
"""Words of remedies. An error is a line with one of them; `verify` lists all that it finds."""


def problem(ends, door, result):
    """Say what is wrong with how a call has ended; nothing if it has ended as it should."""
    if ends is LOADS:
        metadata = result.text.split("\n---\n")[0] if door == "card" else ""
        if re.search(r"^(license: injected|a: !!)", metadata, re.MULTILINE):
            return "metadata of its own"
        is_divided = door == "card" and result.text.count(BOUNDARY) != 1
        return "it does not load" if result.error else "a part of its own" if is_divided else ""
    is_refusal = {"CheckpointError", "ValueError", "OSError", "Refused"} & {*result.error}
    if not is_refusal or not re.search(ends, result.text, re.DOTALL):
        return "it is not refused so"
    is_line = door == "verify" or "\n" not in result.text.strip()
    return "" if is_line and REMEDY.search(result.text) else "it is no line with a remedy"


def outcomes(calls, results):
    """Return how calls have ended: by checkpoint and door."""
    table = {}
    for (door, folder, ends, _), result in zip(calls, results, strict=True):
        is_refused = ends is not LOADS and re.search(ends, result.text, re.DOTALL)
        end = "loads" if not result.error else "refused" if is_refused else "another error"
        table.setdefault(f"{folder.parent.name}/{folder.name}", {})[door] = end
    return table


def published_outcomes():
    """Return the table of outcomes that the documentation is about."""
    with open(OUTCOMES, newline="", encoding="utf-8") as file:
        rows = {row.pop("case"): row for row in csv.DictReader(file)}
    return {checkpoint: {door: end for door, end in row.items() if end} for checkpoint, row in rows.items()}


def make_samples(tmp_path):
    """Write the harmless checkpoints, and hostile ones beside them, and yield name, case, folder and how it ends."""
    for name in DOORS:
        harmless, outside = tmp_path / name / "harmless", tmp_path / name / "outside"
        if name in ("stock", "exported"):
            shutil.copytree(tiny_backbone() if name == "stock" else NEGATION, harmless, copy_function=os.link)
        else:
            family, backbone, settings = SAMPLES["cool" if name == "cards" else name]
            init_checkpoint(family, backbone, harmless, **settings)
        write_outside(outside, harmless)
        # All code in the hostile ones would end the program that runs it.
        armed = shutil.copytree(harmless, tmp_path / name / "armed", copy_function=os.link)
        write(armed, outside, {path.name: CODE for path in armed.glob("*.py")})
        for case, (files, ends) in CASES[name].items():
            folder = shutil.copytree(armed, tmp_path / name / case, copy_function=os.link)
            write(folder, outside, files)
            yield name, case, folder, ends


def try_all(tmp_path, *, every):
    """Go through doors with all cases, in one process, and return what is wrong, one a line."""
    controls = [(door, tmp_path / name / "harmless") for name, doors in DOORS.items() for door in doors]
    controls = [(door, folder) for door, folder in controls if door != "push"]  # which would look for the Hub
    calls = []  # door and folder; how it ends, and whether it must
    for index, (name, case, folder, ends) in enumerate(make_samples(tmp_path)):
        doors, most = doors_of(name, case, ends)
        chosen = range(len(doors)) if every else (index % most, *range(most, len(doors)))
        calls += [(doors[place], folder, ends, place < most) for place in chosen]
    fakes = [(name, tmp_path / "cool" / "armed") for name in FAKES]
    results = run(tmp_path / "home", controls, [*(call[:2] for call in calls), *fakes])
    failures, honest = [], {}  # what a door imports for a harmless checkpoint, where it looks for other libraries
    for (door, folder), result in zip(controls, results, strict=False):
        honest.setdefault(door, set()).update(event for event in result.forbidden if event.startswith("imported "))
        result.forbidden = [*{*result.forbidden} - honest[door]]
        if result.forbidden or (result.error and door in (*WHOLE, "verify", "own_config")):
            failures.append(
                f"harmless {folder.parent.name}, {door}: {result.forbidden} {result.error[:1]} {result.text}"
            )
    for (door, folder, ends, must), result in zip(calls, results[len(controls) :], strict=False):
        wrong = [*{*result.forbidden} - honest.get(door, set())] or (must and problem(ends, door, result))
        if wrong:
            failures.append(f"{folder.name}, {door}: {wrong}\n    {result.error[:1]}: {result.text[:300]}")
    if every:
        published, table = published_outcomes(), outcomes(calls, results[len(controls) : -len(FAKES)])
        changed = [checkpoint for checkpoint, ends in table.items() if published.get(checkpoint) != ends]
        failures += [f"{OUTCOMES.name}, {checkpoint}: now {table[checkpoint]}" for checkpoint in changed]
    for (_, pattern), result in zip(FAKES.values(), results[-len(FAKES) :], strict=True):
        assert any(re.match(pattern, one) for one in result.forbidden), (pattern, result)
    return failures


@pytest.mark.timeout(900)
def test_hostile_checkpoints_do_no_harm(tmp_path):
    """Each case at a door, in turn: all doors ask the same policy. One process takes ten seconds to start."""
    failures = try_all(tmp_path, every=False)
    assert not failures, "\n".join(failures)


@pytest.mark.timeout(1800)
@pytest.mark.slow(reason="2,000 loads")
def test_hostile_checkpoints_do_no_harm_at_any_door(tmp_path):
    failures = try_all(tmp_path, every=True)
    assert not failures, "\n".join(failures)


def test_the_table_of_outcomes_has_every_checkpoint():
    assert published_outcomes().keys() == {f"{sample}/{case}" for sample, cases in CASES.items() for case in cases}


def test_names_of_labels_and_what_asks_for_nothing_are_data(tmp_path):
    labels = {"__label__a": 0, "use_kernels": 1}
    named = {"auto_map": {"AutoModel": "owner/name--code.Model"}, "custom_pipelines": {"a": {}}}
    content = {"backbone_config": {"model_type": "bert", **named}, "use_kernels": False, "of_tomorrow": None}
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
    path = tmp_path / f"copy_{name}" / "fields_cool.py"
    code = path.read_text().replace("    fusion: Annotated[", f"    harmful: {harm} = True\n    fusion: Annotated[")
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
    with pytest.raises(CheckpointError, match="it is a pickle") as refused:
        AutoModel.from_pretrained(tmp_path)
    monkeypatch.chdir(tmp_path)
    program = str(refused.value).split('python -c "')[1].rpartition('"')[0]
    exec(program, {})
    converted = AutoModel.from_pretrained(tmp_path, attn_implementation="eager")  # which a file may not choose
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in converted.state_dict().items())
