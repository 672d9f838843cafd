import copy

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from hf_localattn import SlaBertForSequenceClassification, SlaBertModel
from hf_localattn.registry import FAMILIES
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.optimizers import pretrained_parameters, split_parameter_groups
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.models.test_generation import tiny_generator
from tests.models.tiny import tiny_model
from tests.qa_helpers import tiny_bert, word_pieces


def optimizer_of(model, tmp_path, **arguments):
    args = TrainingArguments(output_dir=str(tmp_path), learning_rate=1e-5, weight_decay=0.1, use_cpu=True, **arguments)
    return LocalAttentionTrainer(model=model, args=args).create_optimizer()


def test_what_is_pretrained_is_found():
    bert = tiny_bert(word_pieces())
    assert ids(pretrained_parameters(bert)) == ids(bert.bert.parameters())
    cool = tiny_model("cool", "question-answering")
    assert ids(pretrained_parameters(cool)) == ids(cool.cool.backbone.parameters())
    sla = tiny_model("sla-bert", "question-answering")
    gates = [parameter for name, parameter in sla.named_parameters() if ".gate." in name]
    assert len(gates) == 4
    assert ids(pretrained_parameters(sla)) == ids(sla.sla_bert.backbone.parameters()) - ids(gates)
    with pytest.raises(ValueError, match="Linear has no base model"):
        pretrained_parameters(nn.Linear(2, 2))


@pytest.mark.parametrize("backbone", [*FAMILIES["cool"].config.tested_backbones, "bart", "prophetnet"])
def test_added_layers_are_not_pretrained(backbone, tmp_path):
    """`local_attention="deeper"` puts them inside the backbone; ALBERT's are the ones it has, run more often."""
    fields = {"local_attention": "deeper", "num_extra_layers": 2}
    if generates := backbone in ("bart", "prophetnet"):
        model, plain = tiny_generator(backbone, **fields), tiny_generator(backbone, local_attention="none")
    else:
        model = tiny_model("cool", "question-answering", backbone, **fields)
        plain = tiny_model("cool", "question-answering", backbone, local_attention="none")
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    known = [name for name, _ in plain.backbone_model.named_parameters()]
    for one in (model, loaded, copy.deepcopy(model)):
        of_one = ids(pretrained_parameters(one))
        assert [name for name, p in one.backbone_model.named_parameters() if id(p) in of_one] == known
        added = [p for p in one.backbone_model.parameters() if id(p) not in of_one]
        assert bool(added) is (backbone != "albert")
    assert generates or len(list(loaded.parameters())) > len(known)


def test_added_layers_train_at_the_rate_of_new_ones(tmp_path):
    model = tiny_model("cool", "question-answering", local_attention="deeper", num_extra_layers=1)
    optimizer = optimizer_of(model, tmp_path, local_learning_rate=1e-3)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        new = name.startswith(("qa_outputs", "cool.backbone.encoder.layer.2."))
        assert rates[id(parameter)] == (1e-3 if new else 1e-5), name


@pytest.mark.parametrize("brought", [True, False])
def test_a_pooler_that_no_checkpoint_brought_is_not_pretrained(brought, tmp_path):
    """However the model came about: from the backbone, from a folder of `init`, or after training was interrupted."""
    bert = tiny_model("sla-bert", local_attention="none").backbone_model
    bert.save_pretrained(tmp_path / "bert")
    if not brought:
        remove(tmp_path / "bert", "pooler.")
    model = SlaBertForSequenceClassification.from_backbone(tmp_path / "bert")
    headless = SlaBertModel.from_backbone(tmp_path / "bert")
    headless.save_pretrained(tmp_path / "init")
    model.save_pretrained(tmp_path / "trained")
    load = SlaBertForSequenceClassification.from_pretrained
    for one in (model, headless, load(tmp_path / "init"), load(tmp_path / "trained"), copy.deepcopy(model)):
        pooler = ids(one.backbone_model.pooler.parameters())
        assert (pooler <= ids(pretrained_parameters(one))) is brought
        assert pooler.isdisjoint(ids(pretrained_parameters(one))) is not brought


def test_a_pooler_that_a_head_has_to_add_is_not_pretrained(tmp_path):
    """A model for questions has none; loaded for whole texts it gets a new one."""
    tiny_model("sla-bert", "question-answering").save_pretrained(tmp_path)
    model, report = SlaBertForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert any("pooler" in key for key in report["missing_keys"])
    assert ids(model.backbone_model.pooler.parameters()).isdisjoint(ids(pretrained_parameters(model)))
    assert model.config.pooler_begins_afresh


def remove(folder, prefix):
    """Take weights out of a checkpoint."""
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith(prefix)}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def ids(parameters):
    return {id(parameter) for parameter in parameters}


def test_every_parameter_has_its_rate_and_its_decay(tmp_path):
    model = tiny_bert(word_pieces())
    optimizer = optimizer_of(model, tmp_path, local_learning_rate=1e-3)
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        rate = 1e-5 if name.startswith("bert.") else 1e-3
        decay = 0.0 if "bias" in name or "LayerNorm" in name else 0.1
        assert found[id(parameter)] == (rate, decay), name


def test_without_a_local_rate_the_groups_are_trainers(tmp_path):
    optimizer = optimizer_of(tiny_bert(word_pieces()), tmp_path)
    assert {group["lr"] for group in optimizer.param_groups} == {1e-5}
    assert len(optimizer.param_groups) == 2


@pytest.mark.parametrize(("part", "message"), [("bert", "in its backbone"), ("qa_outputs", "outside its backbone")])
def test_a_frozen_half_needs_no_rate_of_its_own(tmp_path, part, message):
    model = tiny_bert(word_pieces())
    getattr(model, part).requires_grad_(False)
    with pytest.raises(ValueError, match=f"no trainable parameter {message}"):
        optimizer_of(model, tmp_path, local_learning_rate=1e-3)


def test_a_parameter_that_both_share_belongs_to_the_backbone():
    backbone = nn.Linear(2, 2)
    head = torch.nn.Parameter(torch.ones(1))
    every = [{"params": [*backbone.parameters(), head], "lr": 1.0, "x": 7}]
    groups = split_parameter_groups(every, backbone.parameters(), 2.0)
    assert [(len(g["params"]), g["lr"], g["x"]) for g in groups] == [(2, 1.0, 7), (1, 2.0, 7)]
