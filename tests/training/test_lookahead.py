"""Lookahead inside Trainer: its equations, and a killed run that ends as if it had not been."""

import sys

import datasets
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from hf_localattn.tasks import TextClassification, prepare_run
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.optimizers import with_lookahead
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.models.tiny import token_ids

pytest.importorskip("pytorch_optimizer", reason="the extra `lookahead`")


def trained(folder, steps, resume=None, **changes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(**sizes, num_attention_heads=2))
    rows = datasets.Dataset.from_dict({"input_ids": token_ids(12, 6).tolist(), "labels": [i % 2 for i in range(12)]})
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=3,  # of six steps; the schedule is the same however early it is killed
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        warmup_steps=2,
        max_grad_norm=0.5,
        save_steps=4,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        lookahead_steps=3,
        **changes,
    )
    trainer = LocalAttentionTrainer(model=model, args=arguments, train_dataset=rows)
    original = trainer._save_checkpoint

    def save_and_die(*args, **kwargs):
        original(*args, **kwargs)
        if trainer.state.global_step == steps:
            raise KeyboardInterrupt

    trainer._save_checkpoint = save_and_die
    trainer.train(resume_from_checkpoint=resume)
    return model.state_dict()


@pytest.mark.parametrize("changes", [{}, {"local_learning_rate": 1e-1}])
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path, changes):
    whole = trained(tmp_path / "whole", steps=None, **changes)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed", steps=8, **changes)  # two fast steps after the slow weights were last moved
    resumed = trained(tmp_path / "killed", None, str(tmp_path / "killed" / "checkpoint-8"), **changes)
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name


@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_slow_weights_follow_every_few_steps(alpha):
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = with_lookahead(torch.optim.SGD([weight], lr=0.1), 3, alpha)
    slow = fast = weight.detach().clone()
    for step in range(1, 8):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        fast = fast - 0.1 * 2 * fast
        if step % 3 == 0:
            slow = fast = slow + alpha * (fast - slow)
        torch.testing.assert_close(weight.detach(), fast, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lookahead_steps": 0}, "--lookahead_steps must be at least 1; got 0"),
        ({"lookahead_steps": 5, "lookahead_alpha": 0.0}, "--lookahead_alpha must be above 0 and at most 1; got 0.0"),
        ({"lookahead_steps": 5, "lookahead_alpha": 1.5}, "--lookahead_alpha must be above 0 and at most 1; got 1.5"),
        ({"lookahead_alpha": 0.5}, "--lookahead_alpha needs --lookahead_steps"),
    ],
)
def test_impossible_settings(tmp_path, given, message):
    with pytest.raises(ValueError, match=message):
        TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none", **given)


def test_without_the_library_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    task, out = TextClassification, str(tmp_path / "out")
    arguments = task.TrainingArguments(out, do_train=True, use_cpu=True, report_to="none", lookahead_steps=5)
    model = ModelArguments(family="cool", backbone="tiny")
    with pytest.raises(ImportError, match=r"hf_localattn\[lookahead\]"):
        prepare_run(task, model, task.DataArguments(train_file="none.csv"), arguments)
    assert not (tmp_path / "out").exists()
