"""docs/adapting.md: what LoRA trains, saves, loads and merges; graphs of transformers' exporter."""

import re
from itertools import product

import pytest
import torch

from hf_localattn.families import AUTO_CLASSES, FAMILIES
from tests.fresh_process import run_fresh
from tests.models.test_generation import tiny_generator
from tests.models.tiny import (
    CASES,
    ablations_of,
    adapted,
    backbones_of,
    loss,
    model_class_of,
    tiny_config,
    tiny_model,
    token_ids,
)
from tests.programs import ROOT, offline, programs, run_program
from tests.qa_helpers import GENERATORS

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings(
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning",  # torch 2.13 itself, in an export
)

PAGE = "docs/adapting.md"
TASK = "token-classification"
FRESH_PROCESS = """
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import peft
import torch

for case in sys.argv[1:]:
    inputs, expected = torch.load(f"{case}/case.pt")
    model = peft.AutoPeftModelForTokenClassification.from_pretrained(case, trust_remote_code=True).eval()
    assert type(model.get_base_model()).__module__.startswith("transformers_modules")
    with torch.no_grad():
        for model in (model, model.merge_and_unload()):
            torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-5, atol=1e-5, msg=case)
"""


def backbones(family):
    return (*family.config.tested_backbones, *family.config.generation_backbones)


ROWS = re.findall(r"^\| (`[^|]+) \| (`[^|]+) \|$", (ROOT / PAGE).read_text(), flags=re.MULTILINE)
TARGETS = {name: re.findall("`(.+?)`", names) for cell, names in ROWS for name in re.findall("`(.+?)`", cell)}
"""The `target_modules` that the document names for each backbone."""


def adapt(model, listed=True, **fields):
    """Put an adapter on a model and into it, as the document says."""
    own = {"target_modules": TARGETS[model.config.backbone_config.model_type]}
    own["modules_to_save"] = model.new_modules() if listed else None
    return peft.get_peft_model(model, peft.LoraConfig(**{**own, **fields}))


def train(model, **inputs):
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss(model.get_base_model().train(), TASK, **inputs).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize(
    ("name", "task", "fields"),
    [
        *((*case, {}) for case in CASES),
        *((name, TASK, one) for name in FAMILIES for one in ablations_of(name).values()),
    ],
)
def test_the_new_modules_are_all_new_parameters_and_peft_wraps_none_twice(name, task, fields):
    with torch.device("meta"):
        model = model_class_of(name, task)(tiny_config(name, backbones_of(name, task)[0], **fields))
    pretrained = {id(parameter) for parameter in model.pretrained_parameters()}
    new = model.new_modules()
    listed = [one for module in new for one in model.get_submodule(module).parameters()]
    assert len({id(one) for one in listed}) == len(listed)
    assert {id(one) for one in listed} == {id(one) for one in model.parameters()} - pretrained
    wrapped = [key for key, _ in model.named_modules() if key.endswith(("classifier", "score", "qa_outputs"))]
    assert set(wrapped) <= set(new)
    assert all("." not in key for key in wrapped)


@pytest.mark.parametrize("everywhere", [False, True], ids=["table", "all-linear"])
@pytest.mark.parametrize("name", FAMILIES)
def test_an_adapter_trains_loads_and_merges(name, everywhere, tmp_path):
    base = tiny_model(name, TASK)
    base.save_pretrained(tmp_path / "base")
    new = base.new_modules()
    model = adapt(base, **({"target_modules": "all-linear"} if everywhere else {}))
    mask = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
    inputs = {"input_ids": token_ids(3, 11), "attention_mask": mask}
    before = {key: value.clone() for key, value in model.state_dict().items()}
    train(model, **inputs)
    changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all("lora_" in key or "modules_to_save" in key for key in changed)
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
        torch.testing.assert_close(loaded.merge_and_unload()(**batch).logits, expected, rtol=1e-5, atol=1e-5)


def test_adapters_load_where_the_package_is_not_installed(tmp_path):
    """With all new modules in the adapter, or the head alone, of a base that has none."""
    folders = []
    for name, listed in product(FAMILIES, (True, False)):
        if listed:
            tiny_model(name).save_pretrained(tmp_path / name)
        base = AUTO_CLASSES[TASK].from_pretrained(tmp_path / name)
        model = adapt(base, listed, task_type="TOKEN_CLS")
        inputs = dict(adapted(base, input_ids=token_ids(3, 9)))
        train(model, **inputs)
        folders.append(tmp_path / f"{name} {'all' if listed else 'head'}")
        model.save_pretrained(folders[-1])
        with torch.no_grad():
            torch.save((inputs, model(**inputs).logits), folders[-1] / "case.pt")
    done = run_fresh(FRESH_PROCESS, tmp_path, *folders)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("backbone", sorted({name for family in FAMILIES.values() for name in backbones(family)}))
def test_every_layer_of_a_backbone_is_adapted_and_nothing_else(backbone):
    """OA and generation are where local layers have the most names in common with a backbone's."""
    model = tiny_generator(backbone) if backbone in GENERATORS else tiny_model("oa-xlnet", backbone=backbone)
    layers = [key for key, _ in model.named_modules() if re.search(r"backbone\..*layers?\.\d+$", key)]
    adapt(model)
    held = [key for key, module in model.named_modules() if hasattr(module, "lora_A")]
    assert {next((layer for layer in layers if key.startswith(f"{layer}.")), key) for key in held} == set(layers)


def test_the_programs_of_the_document_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for program, _ in programs(PAGE):
        if "from peft" in program:
            run_program(offline(program), "", PAGE, namespace)
    model, marker = namespace["model"], namespace["marker"]  # which the last program leaves as it was
    adapted = peft.get_peft_model(model, namespace["settings"])
    both, before = torch.tensor([[marker, 5]]), model.get_input_embeddings().weight.detach().clone()
    train(adapted, input_ids=both)
    assert (model.get_input_embeddings()(both[0]) != before[both[0]]).any(-1).tolist() == [True, False]


EXPORTS = [
    pytest.param(name, backbone, fields, id=" ".join([name, backbone, *(f"{key}={fields[key]}" for key in fields)]))
    for name, family in FAMILIES.items()
    for backbone, fields in [(family.config.default_backbone, one) for one in ({}, *family.ablations)]
] + [pytest.param("oa-xlnet", "xlnet", {"num_oa_layers": 1}, id="oa-xlnet xlnet")]
MASKS = [[[1] * 11, [1] * 7 + [0] * 4], [[1] * 8, [1] * 5 + [0] * 3, [0] * 3 + [1] * 5]]
EXPORT = pytest.mark.slow(reason="an export takes ten seconds and more")


@EXPORT
@pytest.mark.parametrize(("name", "backbone", "fields"), EXPORTS)
def test_exported_logits_are_equal_at_another_batch_and_length(name, backbone, fields):
    onnx_ir, onnxruntime = pytest.importorskip("onnx_ir"), pytest.importorskip("onnxruntime")
    exporter = pytest.importorskip("transformers.exporters.exporter_onnx")
    config = tiny_config(name, backbone, **fields)
    config.num_hidden_layers = 1 + max(fields.get("sla_layers", [0]))
    model = FAMILIES[name].heads["text-classification"](config).eval()
    batches = []
    for mask in map(torch.tensor, MASKS):
        ids = token_ids(*mask.shape).masked_fill(mask == 0, config.pad_token_id)
        batches.append(adapted(model, input_ids=ids, attention_mask=mask))
    exported = exporter.OnnxExporter().export(model, batches[0], exporter.OnnxConfig(dynamic=True))
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(exported.program).SerializeToString())
    given = {one.name: batches[1][one.name].numpy() for one in session.get_inputs()}
    with torch.no_grad():
        expected = model(**batches[1]).logits
    torch.testing.assert_close(torch.from_numpy(session.run(["logits"], given)[0]), expected, rtol=1e-5, atol=1e-5)


@EXPORT
def test_the_program_that_exports_runs(tmp_path, monkeypatch):
    pytest.importorskip("transformers.exporters.exporter_onnx")
    monkeypatch.chdir(tmp_path)
    (program,) = (program for program, _ in programs(PAGE) if "Onnx" in program)
    run_program(program, "", PAGE, {})
    assert (tmp_path / "exported" / "model.onnx").is_file()
