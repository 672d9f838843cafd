"""Trainer's loss, its two learning rates, and Lookahead."""

import copy

import datasets
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback

from hf_localattn import SlaBertForSequenceClassification, SlaBertModel
from hf_localattn.families import FAMILIES
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.optimizers import begin_frozen, pretrained_parameters, with_lookahead
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.models.test_generation import tiny_generator
from tests.models.tiny import COMMON, ENCODER_HEADS, adapted, labels, tiny_model, token_ids
from tests.qa_helpers import tiny_bert, word_pieces


def trainer_of(model, folder, rows=None, **arguments):
    quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "dataloader_pin_memory": False}
    return LocalAttentionTrainer(
        model=model, args=TrainingArguments(str(folder), **quiet, **arguments), train_dataset=rows
    )


def rows_for(task):
    ids = token_ids(8, 6)
    halves, places = [0, 1] * 4, [0, 1, 2, 3, 4, 5, 0, 1]
    labels = {"text-classification": halves, "multiple-choice": halves, "token-classification": (ids % 2).tolist()}
    found = {"labels": labels.get(task, ids.tolist())}
    found = {"start_positions": places, "end_positions": places} if task == "question-answering" else found
    ids = torch.stack([ids, ids.flip(1)], dim=1) if task == "multiple-choice" else ids
    return datasets.Dataset.from_dict({"input_ids": ids.tolist(), **found})


def bert(task):
    torch.manual_seed(0)
    silent = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForSequenceClassification(BertConfig(**COMMON, **silent))


MAKERS = {**dict.fromkeys(ENCODER_HEADS["cool"], lambda task: tiny_model("cool", task)), "stock": bert}
MAKERS |= dict.fromkeys(("bart", "prophetnet"), tiny_generator)


@pytest.mark.parametrize("task", MAKERS)
def test_gradient_accumulation_changes_nothing(task, tmp_path):
    """Nor for a stock class, so that a comparison with `--family baseline` is one."""
    found = []
    for batch, accumulation in ((8, 1), (2, 4)):
        sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation}
        sizes |= {"max_steps": 1, "max_grad_norm": 1e9, "optim": "sgd", "learning_rate": 1.0, "logging_steps": 1}
        rows = rows_for("text-classification" if task == "stock" else task)
        trainer = trainer_of(MAKERS[task](task), tmp_path, rows, save_strategy="no", **sizes)
        trainer.train()
        (logged,) = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
        found.append((logged["loss"], logged["grad_norm"]))
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("text-classification", None),
        ("multiple-choice", None),
        ("token-classification", None),
        ("token-classification", 50),
    ],
)
def test_smoothed_labels_keep_the_loss_of_local_layers(task, count, tmp_path):
    model = tiny_model("sla-bert", task, local_attention="lisa")
    batch = adapted(model, input_ids=token_ids(3, 7), **labels(task, 3, 7))
    expected = trainer_of(model, tmp_path).compute_loss(model, dict(batch), num_items_in_batch=count).item()
    assert model(**batch).local_loss[0] > 0.1
    trainer = trainer_of(model, tmp_path, label_smoothing_factor=1e-9)
    assert trainer.compute_loss(model, dict(batch), num_items_in_batch=count).item() == pytest.approx(expected)


def test_torchrun_looks_for_unused_parameters_only_in_models_of_others(tmp_path):
    model = tiny_model("cool", "text-classification")
    for one, given, expected in ((model, None, False), (model, True, True), (bert(None), None, None)):
        assert trainer_of(one, tmp_path, ddp_find_unused_parameters=given).args.ddp_find_unused_parameters is expected


@pytest.mark.parametrize("frozen_steps", [3, 0.5])
def test_new_layers_are_trained_before_the_encoder(frozen_steps, tmp_path):
    model = tiny_model("cool", "text-classification")
    before = copy.deepcopy(model.state_dict())
    known, changes = ids(pretrained_parameters(model)), []

    class Changes(TrainerCallback):
        def on_step_end(self, args, state, control, optimizer=None, **kwargs):
            for is_pretrained in (False, True):
                parts = [name for name, one in model.named_parameters() if (id(one) in known) == is_pretrained]
                changes.append(any(not model.state_dict()[name].equal(before[name]) for name in parts))
            changes.append(next(group["lr"] for group in optimizer.param_groups if group["is_pretrained"]))

    rates = {"learning_rate": 1.0, "local_learning_rate": 0.5, "lr_scheduler_type": "constant_with_warmup"}
    trainer = trainer_of(
        model,
        tmp_path,
        rows_for("text-classification"),
        max_steps=6,
        warmup_steps=2,
        frozen_steps=frozen_steps,
        save_strategy="no",
        **rates,
    )
    trainer.add_callback(Changes())
    trainer.train()
    assert changes[0::3] == [False, True, True, True, True, True]  # the first step of the warm-up has rate 0
    assert changes[1::3] == [False, False, False, True, True, True]
    assert changes[2::3] == [0, 0, 0.5, 1, 1, 1]  # the rate of the next step


def test_frozen_steps_that_are_refused():
    optimizer = torch.optim.SGD([{"params": [torch.ones(1)], "is_pretrained": True}])
    with pytest.raises(ValueError, match="frozen_steps: 4 leave none of 4 steps"):
        begin_frozen(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0), 4, 0, 4)
    with pytest.raises(ValueError, match="lr_scheduler_type"):
        begin_frozen(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), 1, 0, 4)


def ids(parameters):
    return {id(parameter) for parameter in parameters}


def test_what_is_pretrained_is_found_in_classes_of_others():
    stock = tiny_bert(word_pieces())
    assert ids(pretrained_parameters(stock)) == ids(stock.bert.parameters())
    with pytest.raises(ValueError, match="Linear has no base model"):
        pretrained_parameters(nn.Linear(2, 2))


@pytest.mark.parametrize("backbone", [*FAMILIES["cool"].config.tested_backbones, "bart", "prophetnet"])
def test_added_layers_are_not_pretrained(backbone, tmp_path):
    """`local_attention="deeper"` puts them inside the backbone; ALBERT's are the ones it has, run more often."""
    fields = {"local_attention": "deeper", "num_extra_layers": 2}, {"local_attention": "none"}
    if backbone in ("bart", "prophetnet"):
        model, plain = (tiny_generator(backbone, **own) for own in fields)
    else:
        model, plain = (tiny_model("cool", "question-answering", backbone, **own) for own in fields)
    model.save_pretrained(tmp_path)
    known = [name for name, _ in plain.backbone_model.named_parameters()]
    for one in (model, type(model).from_pretrained(tmp_path), copy.deepcopy(model)):
        of_one, own = ids(pretrained_parameters(one)), dict(one.backbone_model.named_parameters())
        assert [name for name, parameter in own.items() if id(parameter) in of_one] == known
        assert (len(own) > len(known)) is (backbone != "albert")


@pytest.mark.parametrize("brought", [True, False])
def test_a_pooler_that_no_checkpoint_brought_is_not_pretrained(brought, tmp_path):
    """However the model came about: from the backbone, from a folder of `init`, or after training was interrupted."""
    tiny_model("sla-bert", local_attention="none").backbone_model.save_pretrained(tmp_path / "bert")
    if not brought:
        weights = load_file(tmp_path / "bert" / "model.safetensors")
        kept = {name: value for name, value in weights.items() if not name.startswith("pooler.")}
        save_file(kept, tmp_path / "bert" / "model.safetensors", metadata={"format": "pt"})
    model = SlaBertForSequenceClassification.from_backbone(tmp_path / "bert")
    headless = SlaBertModel.from_backbone(tmp_path / "bert")
    headless.save_pretrained(tmp_path / "init")
    model.save_pretrained(tmp_path / "trained")
    load = SlaBertForSequenceClassification.from_pretrained
    for one in (model, headless, load(tmp_path / "init"), load(tmp_path / "trained"), copy.deepcopy(model)):
        pooler = ids(one.backbone_model.pooler.parameters())
        assert pooler & ids(pretrained_parameters(one)) == (pooler if brought else set())


def test_a_pooler_that_a_head_has_to_add_is_not_pretrained(tmp_path):
    """A model for questions has none; loaded for whole texts it gets a new one."""
    tiny_model("sla-bert", "question-answering").save_pretrained(tmp_path)
    model = SlaBertForSequenceClassification.from_pretrained(tmp_path)
    assert ids(model.backbone_model.pooler.parameters()).isdisjoint(ids(pretrained_parameters(model)))
    assert model.config.pooler_is_new


@pytest.mark.parametrize("local_rate", [None, 1e-3])
@pytest.mark.parametrize("name", ["stock", "deeper"])
def test_every_parameter_has_its_rate_and_its_decay(name, local_rate, tmp_path):
    deeper = {"local_attention": "deeper", "num_extra_layers": 1}
    model = tiny_bert(word_pieces()) if name == "stock" else tiny_model("cool", "question-answering", **deeper)
    rates = {"learning_rate": 1e-5, "weight_decay": 0.1, "local_learning_rate": local_rate}
    optimizer = trainer_of(model, tmp_path, **rates).create_optimizer()
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    for key, parameter in model.named_parameters():
        is_new = local_rate is not None and key.startswith(("qa_outputs", "cool.backbone.encoder.layer.2."))
        decay = 0.0 if "bias" in key or "LayerNorm" in key else 0.1
        assert found[id(parameter)] == (1e-3 if is_new else 1e-5, decay), key


@pytest.mark.parametrize(("part", "message"), [("bert", "in its backbone"), ("qa_outputs", "outside its backbone")])
def test_a_frozen_half_needs_no_rate_of_its_own(tmp_path, part, message):
    model = tiny_bert(word_pieces())
    getattr(model, part).requires_grad_(False)
    with pytest.raises(ValueError, match=f"no trainable parameter {message}"):
        trainer_of(model, tmp_path, local_learning_rate=1e-3).create_optimizer()


def test_slow_weights_follow_every_few_steps():
    pytest.importorskip("pytorch_optimizer", reason="the extra `lookahead`")
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = with_lookahead(torch.optim.SGD([weight], lr=0.1), 3, 0.8)
    slow = fast = weight.detach().clone()
    for step in range(1, 8):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        fast = fast - 0.1 * 2 * fast
        if step % 3 == 0:
            slow = fast = slow + 0.8 * (fast - slow)
        torch.testing.assert_close(weight.detach(), fast, rtol=1e-12, atol=0)
