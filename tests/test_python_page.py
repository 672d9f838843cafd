"""docs/python.md: its programs run in order, and print what the page shows. The trainer's defaults in Python."""

import pytest
from transformers import Trainer

from hf_localattn import CoolForSequenceClassification, LocalAttentionTrainer, LocalAttentionTrainingArguments
from hf_localattn.resources import tiny_backbone
from tests.programs import programs, run_page

PAGE = "docs/python.md"


def test_the_programs_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(programs(PAGE)) == 5
    assert all(expected for _, expected in programs(PAGE))
    run_page(PAGE)


@pytest.mark.parametrize("metric", [None, "eval_accuracy"])
def test_early_stopping_compares_the_loss_by_default(tmp_path, metric):
    arguments = LocalAttentionTrainingArguments(
        str(tmp_path), early_stopping_patience=2, metric_for_best_model=metric, report_to="none"
    )
    model = CoolForSequenceClassification.from_backbone(tiny_backbone(), num_labels=2)
    trainer = LocalAttentionTrainer(model, arguments, eval_dataset=[])
    assert isinstance(trainer, Trainer)
    assert trainer.args.metric_for_best_model == (metric or "loss")
    assert trainer.args.greater_is_better is (metric is not None)
