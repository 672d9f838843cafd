"""LoRA by docs/adapting.md: what trains, what is saved, and what loading and merging give."""

import re
from itertools import product
from pathlib import Path

import pytest
import torch
import transformers

from hf_localattn.registry import AUTO_CLASSES, FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.models.ablations import ablations_of
from tests.models.test_generation import tiny_generator
from tests.models.tiny import CASES, adapted, loss, main_outputs, tiny_model, token_ids
from tests.programs import offline, programs, run_program
from tests.qa_helpers import GENERATORS

peft = pytest.importorskip("peft")
# peft 0.21 still asks by the old name, which transformers 5 keeps for it.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

DOCUMENT = (Path(__file__).parent.parent / "docs" / "adapting.md").read_text()
TASK = "token-classification"
ADAPTED = ("lora_", "modules_to_save")
"""What is part of the name of every parameter that an adapter holds."""

TASK_TYPES = {
    "SEQ_CLS": "text-classification",
    "TOKEN_CLS": "token-classification",
    "QUESTION_ANS": "question-answering",
    "FEATURE_EXTRACTION": "headless",
    "SEQ_2_SEQ_LM": "generation",
}
AUTO_PEFT = {
    "SEQ_CLS": "AutoPeftModelForSequenceClassification",
    "TOKEN_CLS": "AutoPeftModelForTokenClassification",
    "QUESTION_ANS": "AutoPeftModelForQuestionAnswering",
    "FEATURE_EXTRACTION": "AutoPeftModelForFeatureExtraction",
    "SEQ_2_SEQ_LM": "AutoPeftModelForSeq2SeqLM",
}
WRAPPED = ("classifier", "score", "qa_outputs")
"""Endings of names that peft adds to `modules_to_save`, by task type."""

FRESH_PROCESS = """
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import peft
import torch

for case in sys.argv[1:]:
    auto_class, inputs, expected = torch.load(f"{case}/case.pt")
    model = getattr(peft, auto_class).from_pretrained(f"{case}", trust_remote_code=True).eval()
    assert type(model.get_base_model()).__module__.startswith("transformers_modules")
    for model in (model, model.merge_and_unload()):
        with torch.no_grad():
            output = model(**inputs)
        for name, value in expected.items():
            torch.testing.assert_close(output[name], value, rtol=1e-5, atol=1e-5, msg=lambda text: f"{case}: {text}")
"""


def targets():
    """The `target_modules` that the document names for each backbone."""
    header = re.escape("| backbone | `target_modules` |\n")
    (rows,) = re.findall(header + r"\|[-|]+\n((?:\|.*\n)+)", DOCUMENT)
    cells = [re.findall("`([^`]+)`", row) for row in rows.splitlines()]
    names = {name for family in FAMILIES.values() for name in backbones(family)}
    return {one: [part for part in row if part not in names] for row in cells for one in row if one in names}


def backbones(family):
    return (*family.config.tested_backbones, *family.config.generation_backbones)


TARGETS = targets()


def adapt(model, listed=True, **fields):
    """Put an adapter on a model and into it, as the document says."""
    backbone = model.config.backbone_config.model_type
    saved = model.new_modules() if listed else None
    return peft.get_peft_model(
        model, peft.LoraConfig(target_modules=TARGETS[backbone], modules_to_save=saved, **fields)
    )


def train(model, task, **inputs):
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        if task == "generation":
            model.train()(**inputs).loss.backward()
        else:
            loss(model.get_base_model().train(), task, **inputs).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("is_frozen", [True, False])
def test_the_embedding_of_a_marker_is_trained_and_saved(is_frozen, tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_backbone())
    tokenizer.add_special_tokens({"extra_special_tokens": ["[CUE]"]})
    (marker,) = tokenizer.convert_tokens_to_ids(["[CUE]"])

    def base():
        model = FAMILIES["oa-xlnet"].heads[TASK].from_backbone(tiny_backbone(), num_labels=3)
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        return model

    model = base()
    if is_frozen:
        config = peft.TrainableTokensConfig(target_modules=["word_embeddings"], token_indices=[marker])
    else:
        config = peft.LoraConfig(
            target_modules=TARGETS["bert"],
            modules_to_save=model.new_modules(),
            trainable_token_indices={"word_embeddings": [marker]},
        )
    names = model.new_modules()
    adapted = peft.get_peft_model(model, config)
    for name in names if is_frozen else []:
        model.get_submodule(name).requires_grad_(True)
    inputs = dict(tokenizer("He did [CUE] not go.", return_tensors="pt"))
    inputs["query_mask"] = (inputs["input_ids"] == marker).long()
    both = torch.tensor([marker, 5])
    before = model.get_input_embeddings()(both).detach().clone()
    train(adapted, TASK, **inputs)
    changed = (model.get_input_embeddings()(both) != before).any(-1)
    assert changed.tolist() == [True, False]
    expected = adapted(**inputs).logits
    if is_frozen:
        adapted.merge_and_unload().save_pretrained(tmp_path)
        loaded = type(model).from_pretrained(tmp_path)
        torch.testing.assert_close(loaded(**inputs).logits, expected, rtol=1e-5, atol=1e-5)
        return
    adapted.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(base(), tmp_path).eval()
    torch.testing.assert_close(loaded(**inputs).logits, expected)
    torch.testing.assert_close(loaded.merge_and_unload()(**inputs).logits, expected, rtol=1e-5, atol=1e-5)


def test_the_table_is_complete():
    assert TARGETS.keys() == {name for family in FAMILIES.values() for name in backbones(family)}


@pytest.mark.parametrize(
    ("name", "task", "fields"),
    [
        *((*case, {}) for case in CASES),
        *((name, TASK, one) for name in FAMILIES for one in ablations_of(name).values()),
    ],
)
def test_the_new_modules_are_all_new_parameters_and_peft_wraps_none_twice(name, task, fields):
    model = tiny_model(name, task, **fields)
    pretrained = {id(parameter) for parameter in model.pretrained_parameters()}
    new = model.new_modules()
    listed = [one for module in new for one in model.get_submodule(module).parameters()]
    assert len({id(one) for one in listed}) == len(listed)
    assert {id(one) for one in listed} == {id(one) for one in model.parameters()} - pretrained
    wrapped = [key for key, _ in model.named_modules() if key.endswith(WRAPPED)]
    assert set(wrapped) <= set(new)
    assert all("." not in key for key in wrapped)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_adapter_trains_travels_and_merges(name, tmp_path):
    base = tiny_model(name, TASK)
    base.save_pretrained(tmp_path / "base")
    new = base.new_modules()
    model = adapt(base)
    mask = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
    inputs = {"input_ids": token_ids(3, 11), "attention_mask": mask}
    before = {key: value.clone() for key, value in model.state_dict().items()}
    train(model, TASK, **inputs)
    changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all(any(part in key for part in ADAPTED) for key in changed)
    assert {key for key in before if "lora_" in key} <= changed
    for part in new:
        assert any(f".{part}.modules_to_save." in key for key in changed), part
    assert base.new_modules() == new

    batch = adapted(base, **inputs)
    with torch.no_grad():
        expected = model(**batch).logits
        model.save_pretrained(tmp_path / "adapter")
        fresh = AUTO_CLASSES[TASK].from_pretrained(tmp_path / "base")
        loaded = peft.PeftModel.from_pretrained(fresh, tmp_path / "adapter").eval()
        torch.testing.assert_close(loaded(**batch).logits, expected, rtol=0, atol=0)
        loaded.merge_and_unload().save_pretrained(tmp_path / "merged")
        merged = AUTO_CLASSES[TASK].from_pretrained(tmp_path / "merged")
        torch.testing.assert_close(merged(**batch).logits, expected, rtol=1e-5, atol=1e-5)


EVERY_KIND = [(name, kind) for name in FAMILIES for kind in list(TASK_TYPES)[:-1]]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param([(name, "TOKEN_CLS") for name in FAMILIES], id="one task"),
        pytest.param(
            [*EVERY_KIND, ("cool", "SEQ_2_SEQ_LM")],
            id="every task",
            marks=pytest.mark.slow(reason="ten seconds; peft treats the heads alike"),
        ),
    ],
)
def test_adapters_load_where_the_package_is_not_installed(cases, tmp_path):
    """All tasks of a family share a base without a head: the adapter has the head."""
    folders = []
    for (name, kind), listed in product(cases, (True, False)):
        task = TASK_TYPES[kind]
        source = tmp_path / (f"{name}-{task}" if task == "generation" else name)
        if not source.exists():
            (tiny_generator("bart") if task == "generation" else tiny_model(name)).save_pretrained(source)
        head = (
            FAMILIES[name].model if task == "headless" else AUTO_CLASSES.get(task, transformers.AutoModelForSeq2SeqLM)
        )
        base = head.from_pretrained(source)
        model = adapt(base, listed, task_type=kind)
        inputs = dict(adapted(base, input_ids=token_ids(3, 9)))
        if task == "generation":
            inputs["labels"] = token_ids(3, 5, seed=1)
        train(model, task, **inputs)
        folders.append(tmp_path / f"{name} {kind} {'all' if listed else 'head'}")
        model.save_pretrained(folders[-1])
        with torch.no_grad():
            output = model(**inputs)
        expected = {key: output[key] for key in output if any(output[key] is one for one in main_outputs(output))}
        assert expected
        torch.save((AUTO_PEFT[kind], inputs, expected), folders[-1] / "case.pt")
    done = run_fresh(FRESH_PROCESS, tmp_path, *folders)
    assert done.returncode == 0, done.stderr[-2000:]


def test_all_linear_layers_are_adapted(tmp_path):
    for name in FAMILIES:
        base = tiny_model(name, TASK)
        base.save_pretrained(tmp_path / name)
        config = {"target_modules": "all-linear", "modules_to_save": base.new_modules(), "task_type": "TOKEN_CLS"}
        model = train(peft.get_peft_model(base, peft.LoraConfig(**config)), TASK, input_ids=token_ids(3, 9))
        model.save_pretrained(tmp_path / name / "adapter")
        loaded = peft.PeftModel.from_pretrained(
            type(base).from_pretrained(tmp_path / name), tmp_path / name / "adapter"
        )
        inputs = adapted(base, input_ids=token_ids(3, 9))
        torch.testing.assert_close(loaded.eval()(**inputs).logits, model(**inputs).logits)


@pytest.mark.parametrize("backbone", TARGETS)
def test_every_layer_of_a_backbone_is_adapted_and_nothing_else(backbone):
    """OA and generation are where local layers have the most names in common with a backbone's."""
    model = tiny_generator(backbone) if backbone in GENERATORS else tiny_model("oa-xlnet", backbone=backbone)
    layers = [key for key, _ in model.named_modules() if re.search(r"backbone\..*layers?\.\d+$", key)]
    adapt(model)
    held = [key for key, module in model.named_modules() if hasattr(module, "lora_A")]
    assert {next((layer for layer in layers if key.startswith(f"{layer}.")), key) for key in held} == set(layers)


def test_the_programs_of_the_document_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "docs/adapting.md"
    first, *others = (program for program, _ in programs(page) if "from peft" in program)
    namespace = {}
    run_program(offline(first), "", page, namespace)
    trainable = [key for key, value in namespace["adapted"].named_parameters() if value.requires_grad]
    assert trainable
    assert all(any(part in key for part in ADAPTED) for key in trainable)
    for program in others:
        run_program(offline(program), "", page, namespace)
