"""Trainer's loss and order of rows, whichever head and however the batch is put together."""

import datasets
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer

from hf_localattn.registry import FAMILIES
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.models.test_generation import tiny_generator
from tests.models.tiny import CASES, COMMON, ENCODER_HEADS, gradients, tiny_model, token_ids

TASKS = list(ENCODER_HEADS["cool"])


def rows_for(task):
    ids = token_ids(8, 6)
    labels = {
        "question-answering": {
            "start_positions": [i % 6 for i in range(8)],
            "end_positions": [i % 6 for i in range(8)],
        },
        "text-classification": {"labels": [i % 2 for i in range(8)]},
        "multiple-choice": {"labels": [i % 2 for i in range(8)]},
    }.get(task, {"labels": ids.tolist()})
    if task == "token-classification":
        labels = {"labels": (ids % 2).tolist()}
    ids = torch.stack([ids, ids.flip(1)], dim=1) if task == "multiple-choice" else ids
    return datasets.Dataset.from_dict({"input_ids": ids.tolist(), **labels})


def one_step(trainer_class, model, rows, batch, accumulation, folder):
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulation,
        max_steps=1,
        max_grad_norm=1e9,
        optim="sgd",
        learning_rate=1.0,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        logging_steps=1,
    )
    trainer = trainer_class(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return logged["loss"], logged["grad_norm"]


@pytest.mark.parametrize("task", [*TASKS, "bart", "prophetnet"])
@pytest.mark.parametrize("trainer_class", [Trainer, LocalAttentionTrainer])
def test_gradient_accumulation_changes_nothing(trainer_class, task, tmp_path):
    make = (lambda: tiny_model("cool", task)) if task in TASKS else (lambda: tiny_generator(task))
    whole = one_step(trainer_class, make(), rows_for(task), 8, 1, tmp_path)
    parts = one_step(trainer_class, make(), rows_for(task), 2, 4, tmp_path)
    assert parts == pytest.approx(whole, rel=1e-3)


def test_gradient_accumulation_of_a_stock_class_is_scaled_too(tmp_path):
    """So that a comparison with `--family baseline` is one."""

    def make():
        torch.manual_seed(0)
        silent = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return BertForSequenceClassification(BertConfig(**COMMON, **silent))

    rows = rows_for("text-classification")
    whole = one_step(LocalAttentionTrainer, make(), rows, 8, 1, tmp_path)
    assert one_step(LocalAttentionTrainer, make(), rows, 2, 4, tmp_path) == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize(("name", "task"), [case for case in CASES if case[1] != "headless"])
def test_every_trainable_parameter_gets_a_gradient(name, task):
    """With each of its ablations, and if no token is asked about: torchrun need not look for unused ones."""
    ids = token_ids(2, 5)
    for number, fields in enumerate(({}, *FAMILIES[name].ablations)):
        model = tiny_model(name, task, **fields).train()
        given = FAMILIES[name].sample_inputs(torch.ones_like(ids)) if model.token_inputs and not number else {}
        inputs = {key: torch.zeros_like(value) for key, value in given.items()}
        found = gradients(model, task, input_ids=ids, attention_mask=torch.ones_like(ids), **inputs)
        assert not [parameter for parameter, gradient in found.items() if gradient is None], fields


@pytest.mark.parametrize("backbone", ["bart", "prophetnet"])
def test_every_trainable_parameter_of_a_generator_gets_a_gradient(backbone):
    model, ids = tiny_generator(backbone).train(), token_ids(3, 7)
    model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


def test_torchrun_looks_for_unused_parameters_only_in_models_of_others(tmp_path):
    bert = BertForSequenceClassification(BertConfig(**COMMON))
    for model, given, expected in (
        (tiny_model("cool", "text-classification"), None, False),
        (tiny_model("cool", "text-classification"), True, True),
        (bert, None, None),
    ):
        args = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none", ddp_find_unused_parameters=given)
        assert LocalAttentionTrainer(model=model, args=args).args.ddp_find_unused_parameters is expected
