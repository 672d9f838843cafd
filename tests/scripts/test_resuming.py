"""A run that was killed goes on only with the arguments and the data that it had, and ends the same."""

import json

import pytest
from safetensors.torch import load_file

from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.scripts.conftest import ROWS, state_of

TEXTS = [{"text": f"{word} roses", "label": label} for word in ("white", "red", "old") for label in ("a", "b")]
STEPS = {"max_steps": 4, "save_steps": 3, "save_strategy": "steps", "logging_steps": 2, "learning_rate": 1e-3}


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def begin(tmp_path, run):
    """A function that runs a script until it is killed at a step, or to its end."""

    def call(script="glue", data="data.jsonl", method="training_step", step=2, out="out", **options):
        original = getattr(LocalAttentionTrainer, method)

        def kill(trainer, *args, **kwargs):
            if trainer.state.global_step == step:
                raise Killed
            return original(trainer, *args, **kwargs)

        path = tmp_path / data
        if not path.exists():
            path.write_text("".join(json.dumps(row) + "\n" for row in ROWS.get(path.stem, TEXTS)))
        with pytest.MonkeyPatch.context() as patch:
            if step is not None:
                patch.setattr(LocalAttentionTrainer, method, kill)
            try:
                return run(script, str(path), "train eval", out, **{**STEPS, **options})
            except Killed:
                return None

    return call


@pytest.mark.parametrize(
    ("script", "data", "options"),
    [
        ("glue", "classes.jsonl", {}),
        (
            "glue",
            "classes.jsonl",
            {"lookahead_steps": 2, "local_learning_rate": 1e-2},
        ),  # the checkpoint is between two
        ("ner", "names.jsonl", {}),
        ("ner", "negated.jsonl", {"task_name": "negation"}),  # with a new embedding for the marker
        ("qa", "answered.jsonl", {"early_stopping_patience": 3, "eval_strategy": "steps", "eval_steps": 1}),
        ("swag", "swag.csv", {}),
        ("qg", "answered.jsonl", {}),
    ],
)
@pytest.mark.parametrize(
    ("method", "step"),
    [("training_step", 3), ("_save_rng_state", 4), ("save_state", 4)],
    ids=["in a step", "in a checkpoint", "in the last save"],
)
def test_a_killed_run_ends_as_if_it_had_not_been(script, data, options, method, step, begin, files, tmp_path):
    if not (tmp_path / data).exists():
        (tmp_path / data).write_bytes((files / data).read_bytes())
    whole = begin(script, data, step=None, out="whole", **options)
    assert begin(script, data, method, step, **options) is None
    assert not (tmp_path / "out" / "trainer_state.json").exists()
    metrics = begin(script, data, step=None, **options)
    timed = ("runtime", "per_second", "preparation_time")
    assert {k: v for k, v in metrics.items() if not k.endswith(timed)}.items() <= whole.items()
    one, other = (load_file(tmp_path / out / "model.safetensors") for out in ("whole", "out"))
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)
    assert state_of(tmp_path / "out")["global_step"] == 4


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"learning_rate": 2e-3}, "learning_rate is 0.001, but now it is 0.002"),
        ({"seed": 7}, "seed"),
        ({"max_seq_length": 12}, "max_seq_length"),
        ({"max_steps": 6}, "max_steps"),
        ({"max_train_samples": 4}, "max_train_samples"),
        ({"backbone": "left"}, "backbone"),
        ({"per_device_train_batch_size": 1}, "per_device_train_batch_size"),
    ],
)
def test_other_arguments_are_named(changes, word, begin, capsys):
    begin()
    with pytest.raises(SystemExit):
        begin(step=None, **changes)
    assert word in capsys.readouterr().err.rpartition("holds another run")[2]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_other_rows_are_named(split, begin, tmp_path, capsys):
    begin()
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in [*TEXTS[:-1], {"text": "new roses", "label": "b"}]))
    with pytest.raises(SystemExit):
        begin(step=None, **{f"{split}_file": str(other)})
    assert f"{split} data" in capsys.readouterr().err


def test_what_does_not_matter_may_differ(begin, tmp_path):
    begin()
    (tmp_path / "moved.jsonl").write_bytes((tmp_path / "data.jsonl").read_bytes())
    begin(data="moved.jsonl", step=None, per_device_eval_batch_size=3, dataloader_num_workers=0, logging_steps=1)
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
