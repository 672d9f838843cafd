"""Checkpoints where the package is not installed: from the Hub, and over generations of saving and loading."""

import re

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

from hf_localattn.families import AUTO_CLASSES, FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.models.tiny import ENCODER_HEADS, adapted, tiny_model, token_ids

MASK = torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
TEXT = "Mira is the baker."

PROGRAM = """
import json, shutil, sys
from pathlib import Path
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import torch, transformers
from huggingface_hub import constants
from transformers import AutoConfig, AutoTokenizer

def load(name, auto_class="AutoModel", **settings):
    model = getattr(transformers, auto_class).from_pretrained(name, trust_remote_code=True, **settings)
    assert type(model).__module__.startswith("transformers_modules."), type(model).__module__
    return model

def check(model, inputs, expected, weights):
    loaded = model.state_dict()
    assert loaded.keys() == weights.keys() and all(torch.equal(loaded[name], weights[name]) for name in weights)
    with torch.no_grad():
        output = model(**inputs)
    for name, value in expected.items():  # a processor adds in an order that depends on where the memory lies
        torch.testing.assert_close(output[name], value, rtol=1e-6, atol=1e-6)

def code(folder):
    return {path.name: path.read_bytes() for path in Path(folder).glob("*.py")}

def content(folder):
    return json.loads((Path(folder) / "config.json").read_text())

def save(model, folder, first):
    model.save_pretrained(folder, max_shard_size="20KB")
    assert code(folder) == code(first) and content(folder) == content(first), first

case = torch.load("case.pt")
for name, text, encoded in case["tokenizers"]:
    assert dict(AutoTokenizer.from_pretrained(name, trust_remote_code=True)(**text)) == encoded, name
for first, revision, auto_class, *expected in case["models"]:
    if constants.HF_HUB_OFFLINE and first in case["once"]:
        continue
    remote = load(f"somebody/{first}", auto_class, revision=revision)
    check(remote, *expected)
    if constants.HF_HUB_OFFLINE or first in case["once"]:  # the cache lacks the code of pipelines
        continue
    # It is saved, loaded from there, and saved over itself and elsewhere.
    save(remote, f"{first}-2", first)
    AutoConfig.from_pretrained(first, trust_remote_code=True).save_pretrained(f"{first}-config")
    assert code(f"{first}-config") == code(first)
    model = load(f"{first}-2", auto_class)
    check(model, *expected)
    save(model, f"{first}-2", first)
    if "custom_pipelines" not in content(first):  # the code of a loaded model is elsewhere, but not that of pipelines
        shutil.rmtree(f"{first}-2")
        save(model, f"{first}-3", first)
        check(load(f"{first}-3", auto_class), *expected)
"""

ONLINE = (
    PROGRAM
    + """
# What was loaded is trained, pushed again, and loaded beside what it was, whose code and weights are as before.
inputs, before, weights = expected
optimizer = torch.optim.SGD(remote.parameters(), lr=0.5)
remote.train()(**inputs).logits.square().sum().backward()
optimizer.step()
with torch.no_grad():
    trained = {"logits": remote.eval()(**inputs).logits}
commit = remote.push_to_hub(f"somebody/{first}")
check(load(f"somebody/{first}", auto_class, revision=commit.oid), inputs, trained, remote.state_dict())
check(load(f"somebody/{first}", auto_class, revision=revision), *expected)
assert commit.oid != revision and not torch.equal(trained["logits"], before["logits"])
"""
)

LOCAL = (
    PROGRAM
    + """
# As a stock script fine-tunes a folder without a head: the code of its pipeline is nowhere.
load("headless", "AutoModelForQuestionAnswering").save_pretrained("reader")
assert code("reader") == code("headless") and "custom_pipelines" not in content("reader")
load("reader", "AutoModelForQuestionAnswering")
# A file does not choose from where code is copied.
shutil.copytree("headless", "planted")
folder = str(Path("elsewhere").resolve())
Path("planted/config.json").write_text(json.dumps(content("headless") | {"code_folder": folder}))
AutoConfig.from_pretrained("planted", trust_remote_code=True).save_pretrained("copied")
assert Path("copied/cool_outlook.py").read_bytes() == Path("headless/cool_outlook.py").read_bytes()
for action in (
    lambda: type(load("headless")).from_backbone("bert-base-cased"),
    lambda: load("sam", pooling="disan"),
):
    try:
        action()
    except Exception as error:
        print(type(error).__name__, error)
"""
)


def push(cases, folder):
    """Push models and the tokenizers of their families, and write to `case.pt` what they are to give."""
    models, tokenizers = [], []
    for name, (family, task, fields) in cases.items():
        model = tiny_model(family, task, **fields)
        model.save_pretrained(folder / name)
        inputs = adapted(model, input_ids=token_ids(2, 9), attention_mask=MASK)
        with torch.no_grad():
            expected = {key: value for key, value in model(**inputs).items() if torch.is_tensor(value)}
        commit = model.push_to_hub(f"somebody/{name}", private=True)
        auto_class = "AutoModel" if task == "headless" else AUTO_CLASSES[task].__name__
        models.append((name, commit.oid, auto_class, inputs, expected, model.state_dict()))
    for family in {family for family, *_ in cases.values()}:
        tokenizer, text = AutoTokenizer.from_pretrained(tiny_backbone()), {"text": TEXT}
        if family == "sla-bert":
            tokenizer = FAMILIES[family].tokenizer.from_backbone(tokenizer, parser=None)
            text = {"text": TEXT.split(), "is_split_into_words": True, "heads": [3, 3, 3, 3]}
        elif FAMILIES[family].tokenizer is not None:
            tokenizer = FAMILIES[family].tokenizer.from_backbone(tokenizer)
        tokenizer.push_to_hub(f"somebody/{family}-tokenizer", private=True)
        tokenizers.append((f"somebody/{family}-tokenizer", text, dict(tokenizer(**text))))
    torch.save({"models": models, "tokenizers": tokenizers, "once": ONCE}, folder / "case.pt")


CASES = {
    "sam": ("sam-roberta", "text-classification", {}),
    "baseline": ("sam-roberta", "headless", {"pooling": "rba"}),
    "answers": ("cool", "question-answering", {}),
    "graph": ("cool", "token-classification", {"local_attention": "gat"}),
    "cues": ("oa-xlnet", "token-classification", {"id2label": {0: "O", 1: "negation:single"}}),
    "headless": ("cool", "headless", {}),
    "syntax": ("sla-bert", "headless", {}),
    "sparse": ("sam-roberta", "headless", {"tam_softmax": "entmax15"}),
    "soft": ("sla-bert", "headless", {"local_attention": "soft"}),
    "lisa": ("sla-bert", "token-classification", {"local_attention": "lisa"}),
}
ONCE = ("sam", "baseline", "syntax", "sparse", "soft")
"""Those that are loaded once: over generations and from the cache they have what others have."""

PIPELINES = {"answers": "question-answering", "cues": "negation", "lisa": "token-classification"}
OF_A_FAMILY = [
    pytest.param(
        {task: (name, task, {}) for task in ("headless", *ENCODER_HEADS[name])},
        id=name,
        marks=pytest.mark.slow(reason="ten seconds for a family; the others of each kind are in the first case"),
    )
    for name in FAMILIES
]


@pytest.mark.parametrize("cases", [pytest.param(CASES, id="some"), *OF_A_FAMILY])
def test_models_go_to_the_hub_and_over_generations(cases, hub, tmp_path):
    push(cases, tmp_path)
    for name in cases:
        code = {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.py")}
        assert {file: data for file, data in hub.files(f"somebody/{name}").items() if file.endswith(".py")} == code
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "cool_outlook.py").write_text("secret = 1")
    owner = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_writer", "HF_HUB_OFFLINE": "0"}
    from_cache = LOCAL if cases is CASES else PROGRAM
    for program, surroundings in ((ONLINE, owner), (from_cache, {})):
        done = run_fresh(program, tmp_path, **surroundings)
        assert done.returncode == 0, done.stderr
    if cases is not CASES:
        return
    for name, pipeline in PIPELINES.items():
        assert f'"{pipeline}": ' in (tmp_path / name / "config.json").read_text()
    for line, words in zip(done.stdout.splitlines(), ("pip install hf_localattn", "`pooling`.*install"), strict=True):
        assert re.search(words, line), line


def test_every_way_to_save_and_push_takes_the_code_along(hub, tmp_path):
    model = tiny_model("sam-roberta", "question-answering", pooling="rba")
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB", save_original_format=False)
    expected = {file.name for file in (tmp_path / "model").glob("*.py")}
    assert {"sam_baselines.py", "pipeline_question_answering.py"} < expected
    model.config.push_to_hub("somebody/config")
    model.save_pretrained(tmp_path / "pushed", push_to_hub=True, repo_id="somebody/saved")
    model.config.save_pretrained(tmp_path / "pushed", push_to_hub=True, repo_id="somebody/saved-config")
    for name in ("config", "saved", "saved-config"):
        assert {file for file in hub.files(f"somebody/{name}") if file.endswith(".py")} == expected, name
    # `fully_shard` sets a class made by torch.
    model.__class__ = type(f"FSDP{type(model).__name__}", (type(model),), {"__module__": "torch.distributed"})
    model.save_pretrained(tmp_path / "wrapped")
    assert {file.name for file in (tmp_path / "wrapped").glob("*.py")} == expected
    assert AutoConfig.from_pretrained(tmp_path / "wrapped").architectures == ["SamRobertaForQuestionAnswering"]
