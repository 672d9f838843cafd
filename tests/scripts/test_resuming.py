"""A run that was killed goes on only with the arguments and the data that it had, and ends the same."""

import json

import pytest
from safetensors.torch import load_file

from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.scripts.conftest import state_of

STEPS = {"max_steps": 4, "save_steps": 3, "save_strategy": "steps", "logging_steps": 2, "learning_rate": 1e-3}
FROZEN = {"family": "sam-roberta", "local_config": ["pooling=none", "freeze_backbone=true", "bilstm_hidden_size=8"]}
STOPPING = {"early_stopping_patience": 3, "eval_strategy": "steps", "eval_steps": 1}


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def begin(run):
    """A function that runs a script until a method of the trainer is called at a step, or to its end."""

    def call(script="glue", data="classes.jsonl", method="training_step", step=2, out="out", **options):
        original = getattr(LocalAttentionTrainer, method)

        def kill(trainer, *args, **kwargs):
            if trainer.state.global_step == step:
                raise Killed
            return original(trainer, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalAttentionTrainer, method, kill)
            try:
                return run(script, data, "train eval", out, **{**STEPS, **options})
            except Killed:
                return None

    return call


LOOKAHEAD = {"lookahead_steps": 2, "local_learning_rate": 1e-2, "frozen_steps": 2}
RUNS = [
    ("glue", "classes.jsonl", {}),
    ("glue", "classes.jsonl", LOOKAHEAD),  # saved between its steps
    ("glue", "classes.jsonl", {"streaming": True}),  # in its second pass
    ("glue", "classes.jsonl", FROZEN),  # its states are computed anew
    ("ner", "names.jsonl", {}),
    ("ner", "negated.jsonl", {"task_name": "negation"}),  # with a new embedding for the marker
    ("qa", "answered.jsonl", STOPPING),
    ("swag", "swag.csv", {}),
    ("qg", "answered.jsonl", {}),
]
ELSEWHERE = [(*RUNS[1], "_save_rng_state", 4), (*RUNS[0], "save_state", 4)]
"""Runs that are killed in a checkpoint, and in the last save, as those of any task."""


@pytest.mark.parametrize(
    ("script", "data", "options", "method", "step"), [*((*run, "training_step", 3) for run in RUNS), *ELSEWHERE]
)
def test_a_killed_run_ends_as_if_it_had_not_been(script, data, options, method, step, begin, tmp_path, caplog):
    whole = begin(script, data, step=None, out="whole", **options)
    assert begin(script, data, method, step, **options) is None
    assert not (tmp_path / "out" / "trainer_state.json").exists()
    metrics = begin(script, data, step=None, **options)
    assert ("Resuming from" in caplog.text) == (method != "save_state")
    timed = ("runtime", "per_second", "preparation_time")
    assert {k: v for k, v in metrics.items() if not k.endswith(timed)}.items() <= whole.items()
    one, other = (load_file(tmp_path / out / "model.safetensors") for out in ("whole", "out"))
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)
    states = [state_of(tmp_path / name) for name in ("whole", "out")]
    one, other = ([log["loss"] for log in state["log_history"] if "loss" in log] for state in states)
    assert (one, states[1]["global_step"]) == (other, 4)


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("learning_rate is 0.001, but now it is 0.002", {"learning_rate": 2e-3}),
        ("max_steps", {"max_steps": 6}),
        ("backbone", {"backbone": "left"}),
        ("train data", {"train_file": "four.jsonl"}),
        ("validation data", {"validation_file": "other.jsonl"}),
    ],
)
def test_other_arguments_and_rows_are_named(word, changes, begin, capsys):
    begin()
    with pytest.raises(SystemExit):
        begin(step=None, **changes)
    assert word in capsys.readouterr().err.rpartition("holds another run")[2]


def test_what_does_not_matter_may_differ(begin, files, tmp_path):
    begin()
    (tmp_path / "moved.jsonl").write_bytes((files / "classes.jsonl").read_bytes())
    moved = str(tmp_path / "moved.jsonl")
    begin(data=moved, step=None, per_device_eval_batch_size=3, dataloader_num_workers=0, logging_steps=1)
    assert state_of(tmp_path / "out")["global_step"] == 4


def test_a_finished_run_is_not_overwritten_but_may_be_trained_further(begin, tmp_path, capsys):
    begin(step=None, keep_checkpoints=True)
    last = str(tmp_path / "out" / "checkpoint-4")
    for changes, word in (({}, "holds a finished run"), ({"resume_from_checkpoint": last, "seed": 7}, "seed is 42")):
        with pytest.raises(SystemExit):
            begin(step=None, **changes)
        assert word in capsys.readouterr().err
    begin(step=None, resume_from_checkpoint="true", max_steps=6)
    assert state_of(tmp_path / "out")["global_step"] == 6
    assert json.loads((tmp_path / "out" / "run.json").read_text())["max_steps"] == 6
