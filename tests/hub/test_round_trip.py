"""Checkpoints where the package is not installed: from the Hub, and over generations of saving and loading."""

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

import hf_localattn.models
from hf_localattn.installed import code_files
from hf_localattn.registry import AUTO_CLASSES, FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.models.tiny import ENCODER_HEADS, adapted, tiny_model, token_ids

MASK = torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
MODELS = Path(hf_localattn.models.__file__).parent
TEXT = "Mira is the baker."

PRELUDE = """
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer

def load(repository, revision, auto_class="AutoModel"):
    model = getattr(transformers, auto_class).from_pretrained(repository, revision=revision, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules"), type(model).__module__
    return model

def check(model, inputs, expected, weights):
    loaded = model.state_dict()
    assert loaded.keys() == weights.keys() and all(torch.equal(loaded[name], weights[name]) for name in weights)
    with torch.no_grad():
        output = model(**inputs)
    for name, value in expected.items():  # a processor adds in an order that depends on where the memory lies
        torch.testing.assert_close(output[name], value, rtol=1e-6, atol=1e-6)

case = torch.load("case.pt")
tokenizer = AutoTokenizer.from_pretrained(case["tokenizer"], trust_remote_code=True)
assert dict(tokenizer(**case["text"])) == case["encoded"]
for repository, revision, auto_class, inputs, expected, weights in case["models"]:
    model = load(repository, revision, auto_class)
    check(model, inputs, expected, weights)
"""

ONLINE = (
    PRELUDE
    + """
# What was loaded is trained, pushed again, and loaded beside what it was, whose code and weights are as before.
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
model.train()(**inputs).logits.square().sum().backward()
optimizer.step()
model.eval()
with torch.no_grad():
    trained = model(**inputs)
commit = model.push_to_hub(repository)
assert commit.oid != revision
back = load(repository, commit.oid, auto_class)
check(back, inputs, {"logits": trained.logits}, model.state_dict())
check(load(repository, revision, auto_class), inputs, expected, weights)
assert not torch.equal(trained.logits, expected["logits"])
"""
)


def push_classes(name, tasks, folder):
    """Push classes of a family and its tokenizer, and write to `case.pt` what they are to give."""
    models = []
    for task in tasks:
        model = tiny_model(name, task)
        inputs = adapted(model, input_ids=token_ids(2, 9), attention_mask=MASK)
        with torch.no_grad():
            output = model(**inputs)
        expected = {key: value for key, value in output.items() if torch.is_tensor(value)}
        commit = model.push_to_hub(f"somebody/{task}", private=True)
        auto_class = "AutoModel" if task == "headless" else AUTO_CLASSES[task].__name__
        models.append((f"somebody/{task}", commit.oid, auto_class, inputs, expected, model.state_dict()))
    tokenizer, text = AutoTokenizer.from_pretrained(tiny_backbone()), {"text": TEXT}
    if name == "sla-bert":
        tokenizer = FAMILIES[name].tokenizer.from_backbone(tokenizer, parser=None)
        text = {"text": TEXT.split(), "is_split_into_words": True, "heads": [3, 3, 3, 3]}
    elif FAMILIES[name].tokenizer is not None:
        tokenizer = FAMILIES[name].tokenizer.from_backbone(tokenizer)
    tokenizer.push_to_hub("somebody/tokenizer", private=True)
    case = {"models": models, "tokenizer": "somebody/tokenizer", "text": text, "encoded": dict(tokenizer(**text))}
    torch.save(case, folder / "case.pt")


SLOWLY = pytest.mark.slow(reason="ten seconds for a family; SLA has a tokenizer of its own besides")


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        pytest.param("sla-bert", ["headless", "question-answering", "token-classification"], id="some of sla-bert"),
        *(pytest.param(name, ["headless", *ENCODER_HEADS[name]], id=name, marks=SLOWLY) for name in FAMILIES),
    ],
)
def test_every_class_goes_to_the_hub_and_comes_back(name, tasks, hub, tmp_path):
    push_classes(name, tasks, tmp_path)
    assert all(repository.private for repository in hub.repositories.values())
    owner = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_writer", "HF_HUB_OFFLINE": "0"}
    for program, surroundings in ((ONLINE, owner), (PRELUDE, {})):  # the second from the cache
        done = run_fresh(program, tmp_path, **surroundings)
        assert done.returncode == 0, done.stderr
    files = hub.files("somebody/question-answering")
    code = {file.removesuffix(".py") for file in files if file.endswith(".py")}
    assert {f"hf_localattn.models.{file}" for file in code} > {
        FAMILIES[name].model.__module__,
        FAMILIES[name].config.__module__,
    }
    assert all(files[f"{file}.py"] == (MODELS / f"{file}.py").read_bytes() for file in code)


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
