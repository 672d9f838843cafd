"""To the Hub and back, for every class of every family: pushed here, loaded where the package is not installed."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import hf_localattn.models
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
