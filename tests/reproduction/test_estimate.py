"""Estimates of the time that runs take: a real short training, which leaves nothing."""

import pytest

from hf_localattn.reproduction import preflight
from hf_localattn.reproduction.plan import plan
from hf_localattn.reproduction.request import Overrides, Selection
from hf_localattn.reproduction.tables import load_table


def first_run(table, row, task, **arguments):
    table = load_table(table)
    overrides = Overrides("tiny", "tiny", num_runs=1, max_samples=8, data={"": "samples"}, arguments=arguments)
    return plan(Selection(table, [table.rows[row]], [table.tasks[task]], overrides))[0]


@pytest.mark.parametrize(
    ("table", "row", "task"),
    [("cool-5", "cool-beam-5", "squad"), ("cool-7", "bert", "swag"), ("sam-3", "sam", "sst5")],
    ids=["generation", "multiple-choice", "early-stopping"],
)
def test_runs_of_all_kinds_are_estimated(table, row, task, tmp_path):
    assert preflight.estimate(first_run(table, row, task)) > 0
    assert not list(tmp_path.iterdir())


def test_all_steps_and_evaluations_count(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight.StepTimer, "seconds", 2.0)
    monkeypatch.setattr(preflight, "_evaluation_seconds", lambda run, features: 10.0)
    run = first_run(
        *("cool-4", "bert", "squad_v2"),
        num_train_epochs=3,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_seq_length=384,
        eval_strategy="epoch",
    )
    # 8 questions, each in one window, are a step of two batches; they are evaluated after each epoch and at the end.
    assert preflight.estimate(run) == 3 * 2.0 + (3 + 1) * 10.0
