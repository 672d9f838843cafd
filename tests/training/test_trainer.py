"""Trainer's loss and order of rows, whichever head and however the batch is put together."""

import datasets
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer

from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.models.test_generation import tiny_generator
from tests.models.tiny import COMMON, ENCODER_HEADS, tiny_model, token_ids

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
