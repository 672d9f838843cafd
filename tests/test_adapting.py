"""LoRA with the modules that docs/adapting.md names: what trains, what is saved, and what loading and merging give."""

import re
from pathlib import Path

import pytest
import torch

from hf_localattn.registry import AUTO_CLASSES, FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.test_generation import TINY_GENERATORS, tiny_generator
from tests.models.tiny import adapted, loss, tiny_model, token_ids

peft = pytest.importorskip("peft")
# peft 0.21 still asks by the old name, which transformers 5 keeps for it.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

DOCUMENT = (Path(__file__).parent.parent / "docs" / "adapting.md").read_text()
TASK = "text-classification"
ADAPTED = ("lora_", "modules_to_save")
"""What is part of the name of every parameter that an adapter holds."""


def table(*columns):
    """What the table with this header names for each name in its first column."""
    header = re.escape(f"| {' | '.join(columns)} |\n")
    (rows,) = re.findall(header + r"\|[-|]+\n((?:\|.*\n)+)", DOCUMENT)
    cells = [row.strip("|").split("|") for row in rows.splitlines()]
    return {name: NAMES.findall(named) for key, named in cells for name in NAMES.findall(key) or [key.strip()]}


NAMES = re.compile("`([^`]+)`")
SAVED = table("family", "`modules_to_save`")
HEADS = SAVED.pop("every head")
TARGETS = table("backbone", "`target_modules`")


def adapt(model, backbone):
    """Put an adapter on a model and into it, as the tables say."""
    saved = [*SAVED[model.config.model_type], *HEADS]
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=TARGETS[backbone], modules_to_save=saved))


def test_the_tables_are_complete():
    assert SAVED.keys() == FAMILIES.keys()
    configs = [family.config for family in FAMILIES.values()]
    assert TARGETS.keys() == {kind for one in configs for kind in (*one.tested_backbones, *one.generation_backbones)}


@pytest.mark.parametrize("name", FAMILIES)
def test_an_adapter_trains_travels_and_merges(name, tmp_path):
    base = tiny_model(name, TASK)
    base.save_pretrained(tmp_path / "base")
    modules = [f".{key}" for key, _ in base.named_modules()]
    parts = [part for part in (*SAVED[name], *HEADS) if any(key.endswith(f".{part}") for key in modules)]
    model = adapt(base, base.config.default_backbone)
    mask = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
    inputs = {"input_ids": token_ids(3, 11), "attention_mask": mask}
    before = {key: value.clone() for key, value in model.state_dict().items()}

    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.01)
    for _ in range(2):  # the first step moves one of the two factors of each adapter, as the other begins at zero
        optimizer.zero_grad()
        loss(base.train(), TASK, **inputs).backward()
        optimizer.step()
    changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all(any(part in key for part in ADAPTED) for key in changed)
    assert {key for key in before if "lora_" in key} <= changed
    for part in parts:
        assert any(f".{part}.modules_to_save." in key for key in changed), part

    batch = adapted(base, **inputs)
    with torch.no_grad():
        expected = model.eval()(**batch).logits
        model.save_pretrained(tmp_path / "adapter")
        fresh = AUTO_CLASSES[TASK].from_pretrained(tmp_path / "base")
        loaded = peft.PeftModel.from_pretrained(fresh, tmp_path / "adapter").eval()
        torch.testing.assert_close(loaded(**batch).logits, expected, rtol=0, atol=0)
        loaded.merge_and_unload().save_pretrained(tmp_path / "merged")
        merged = AUTO_CLASSES[TASK].from_pretrained(tmp_path / "merged")
        torch.testing.assert_close(merged(**batch).logits, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backbone", TARGETS)
def test_every_layer_of_a_backbone_is_adapted_and_nothing_else(backbone):
    """OA and generation are where local layers have the most names in common with a backbone's."""
    model = tiny_generator(backbone) if backbone in TINY_GENERATORS else tiny_model("oa-xlnet", backbone=backbone)
    layers = [key for key, _ in model.named_modules() if re.search(r"backbone\..*layers?\.\d+$", key)]
    adapt(model, backbone)
    held = [key for key, module in model.named_modules() if hasattr(module, "lora_A")]
    assert {next((layer for layer in layers if key.startswith(f"{layer}.")), key) for key in held} == set(layers)


def test_the_program_of_the_document_runs():
    (program,) = (block for block in re.findall("```python\n(.*?)```", DOCUMENT, flags=re.DOTALL) if "peft" in block)
    namespace = {}
    exec(compile(program.replace('"bert-base-cased"', repr(str(tiny_backbone()))), "adapting.md", "exec"), namespace)
    trainable = [key for key, value in namespace["adapted"].named_parameters() if value.requires_grad]
    assert trainable
    assert all(any(part in key for part in ADAPTED) for key in trainable)
