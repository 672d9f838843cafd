"""Checkpoints over three generations, each saved and loaded where the package is not installed."""

import re

import torch
from transformers import AutoConfig

from hf_localattn.installed import code_files
from hf_localattn.registry import AUTO_CLASSES
from tests.fresh_process import run_fresh
from tests.models.tiny import adapted, tiny_model, token_ids

MASK = torch.tensor([[1] * 9, [0] * 4 + [1] * 5])

CASES = {
    "sam": ("sam-roberta", "text-classification", {}),
    "baseline": ("sam-roberta", "headless", {"pooling": "rba"}),
    "answers": ("cool", "question-answering", {}),
    "graph": ("cool", "token-classification", {"local_attention": "gat"}),
    "lisa": ("sla-bert", "token-classification", {"local_attention": "lisa"}),
    "cues": ("oa-xlnet", "token-classification", {"id2label": {0: "O", 1: "negation:single"}}),
}

PIPELINES = {"answers": {"question-answering"}, "lisa": {"token-classification"}, "cues": {"negation"}}

PROGRAM = """
import json, shutil, sys
from pathlib import Path
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import torch, transformers
from transformers import AutoConfig

def code(folder):
    return {path.name: path.read_bytes() for path in Path(folder).glob("*.py")}

def content(folder):
    return json.loads((Path(folder) / "config.json").read_text())

cases = torch.load("cases.pt")
for name, (auto_class, inputs, expected) in cases.items():
    auto_class = getattr(transformers, auto_class)
    first, written = code(name), content(name)
    for generation in ("2", "3"):
        model = auto_class.from_pretrained(name, trust_remote_code=True)
        assert type(model).__module__.startswith("transformers_modules.")
        config = AutoConfig.from_pretrained(name, trust_remote_code=True)
        config.save_pretrained(f"config-{name}{generation}")
        assert code(f"config-{name}{generation}") == first, name
        with torch.no_grad():
            output = model(**inputs)
        for key, value in expected.items():
            torch.testing.assert_close(output[key], value, rtol=1e-6, atol=1e-6)
        if generation == "3":
            shutil.rmtree(name)  # the code of a loaded model is elsewhere, but that of its pipelines is not
        if generation == "2" or "custom_pipelines" not in written:
            model.save_pretrained(name := f"{name}{generation}", max_shard_size="20KB")
            assert code(name) == first and content(name) == written, name
            model.save_pretrained(name)  # over itself
            assert code(name) == first and content(name) == written, name

sam = transformers.AutoModel.from_pretrained("baseline", trust_remote_code=True)
# As a stock script fine-tunes a folder without a head: the code of its pipeline is nowhere.
reader = transformers.AutoModelForQuestionAnswering.from_pretrained("headless", trust_remote_code=True)
reader.save_pretrained("reader")
assert code("reader") == code("headless") and "custom_pipelines" not in content("reader")
transformers.AutoModelForQuestionAnswering.from_pretrained("reader", trust_remote_code=True)
# A file does not choose from where code is copied.
shutil.copytree("headless", "planted")
folder = str(Path("elsewhere").resolve())
Path("planted/config.json").write_text(json.dumps(content("headless") | {"code_folder": folder}))
AutoConfig.from_pretrained("planted", trust_remote_code=True).save_pretrained("copied")
assert Path("copied/cool_outlook.py").read_bytes() == Path("headless/cool_outlook.py").read_bytes()
for action in (
    lambda: type(sam).from_backbone("bert-base-cased"),
    lambda: transformers.AutoModel.from_pretrained("sam", trust_remote_code=True, pooling="disan"),
):
    try:
        action()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_three_generations_without_the_package(tmp_path):
    cases = {}
    for name, (family, task, fields) in CASES.items():
        model = tiny_model(family, task, **fields)
        model.save_pretrained(tmp_path / name)
        pipelines = tmp_path / name / "config.json"
        assert all(f'"{pipeline}": ' in pipelines.read_text() for pipeline in PIPELINES.get(name, ()))
        inputs = adapted(model, input_ids=token_ids(2, 9), attention_mask=MASK)
        with torch.no_grad():
            output = {key: value for key, value in model(**inputs).items() if torch.is_tensor(value)}
        auto_class = "AutoModel" if task == "headless" else AUTO_CLASSES[task].__name__
        cases[name] = (auto_class, inputs, output)
    tiny_model("cool", "headless").save_pretrained(tmp_path / "headless")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "cool_outlook.py").write_text("secret = 1")
    torch.save(cases, tmp_path / "cases.pt")
    done = run_fresh(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    for line, words in zip(done.stdout.splitlines(), ("pip install hf_localattn", "`pooling`.*install"), strict=True):
        assert re.search(words, line), line


def code_on(hub, name):
    return {file for file in hub.files(name) if file.endswith(".py")}


def test_every_way_to_save_and_push_takes_the_code_along(hub, tmp_path):
    model = tiny_model("sam-roberta", "question-answering", pooling="rba")
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB", save_original_format=False)
    expected = {file.name for file in code_files(tmp_path / "model")}
    assert {"sam_baselines.py", "pipeline_question_answering.py"} < expected
    model.config.save_pretrained(tmp_path / "config")
    assert {file.name for file in code_files(tmp_path / "config")} == expected
    model.push_to_hub("somebody/model")
    model.config.push_to_hub("somebody/config")
    model.save_pretrained(tmp_path / "pushed", push_to_hub=True, repo_id="somebody/saved")
    model.config.save_pretrained(tmp_path / "pushed", push_to_hub=True, repo_id="somebody/saved-config")
    for name in ("model", "config", "saved", "saved-config"):
        assert code_on(hub, f"somebody/{name}") == expected, name
    # `fully_shard` sets a class made by torch.
    model.__class__ = type(f"FSDP{type(model).__name__}", (type(model),), {"__module__": "torch.distributed"})
    model.save_pretrained(tmp_path / "wrapped")
    assert {file.name for file in code_files(tmp_path / "wrapped")} == expected
    assert AutoConfig.from_pretrained(tmp_path / "wrapped").architectures == ["SamRobertaForQuestionAnswering"]
