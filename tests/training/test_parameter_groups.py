import pytest
import torch
from torch import nn

from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.parameter_groups import pretrained_parameters, split_parameter_groups
from hf_localattn.training.trainer import LocalAttentionTrainer
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
    with pytest.raises(ValueError, match="Linear has no backbone"):
        pretrained_parameters(nn.Linear(2, 2))


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
