"""A run that was killed goes on only with the arguments and the data that it had."""

import json

import pytest

from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.qa_helpers import write_jsonl
from tests.script_helpers import load_main

TEXTS = [{"text": f"{word} roses", "label": label} for word in ("white", "red", "old") for label in ("a", "b")]


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def main():
    return load_main("run_glue")


def options(folder, **changes):
    given = {
        **{"family": "cool", "backbone": "tiny", "local_config": "num_local_layers=1", "output_dir": folder / "out"},
        **{"train_file": folder / "train.jsonl", "validation_file": folder / "validation.jsonl", "use_cpu": True},
        **{"max_seq_length": 16, "max_steps": 4, "save_steps": 2, "per_device_train_batch_size": 2},
        **{"disable_tqdm": True, "learning_rate": 1e-3, "do_train": True, "do_eval": True, **changes},
    }
    return [word for name, value in given.items() for word in (f"--{name}", *str(value).split())]


@pytest.fixture
def killed(main, tmp_path, monkeypatch):
    """A folder with data and the output folder of a run that was killed after its first checkpoint."""
    for name in ("train", "validation"):
        write_jsonl(tmp_path / f"{name}.jsonl", TEXTS)
    step = LocalAttentionTrainer.training_step

    def kill(trainer, *args, **kwargs):
        if trainer.state.global_step == 2:
            raise Killed
        return step(trainer, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(LocalAttentionTrainer, "training_step", kill)
        with pytest.raises(Killed):
            main(options(tmp_path))
    assert (tmp_path / "out" / "checkpoint-2").is_dir()
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"learning_rate": 2e-3}, "learning_rate is 0.001, but now it is 0.002"),
        ({"seed": 7}, "seed is 42"),
        ({"max_seq_length": 12}, "max_seq_length is 16"),
        ({"max_steps": 6}, "max_steps is 4"),
        ({"max_train_samples": 4}, "max_train_samples is None"),
        ({"local_config": "num_local_layers=2"}, "local_config"),
        ({"per_device_train_batch_size": 1}, "per_device_train_batch_size"),
    ],
)
def test_other_arguments_are_named(changes, word, main, killed, capsys):
    with pytest.raises(SystemExit):
        main(options(killed, **changes))
    assert word in capsys.readouterr().err


@pytest.mark.parametrize("split", ["train", "validation"])
def test_other_rows_are_named(split, main, killed, capsys):
    write_jsonl(killed / f"{split}.jsonl", [*TEXTS[:-1], {"text": "new roses", "label": "b"}])
    with pytest.raises(SystemExit):
        main(options(killed))
    assert f"its {split} data is '6 rows" in capsys.readouterr().err


def test_what_does_not_matter_may_differ(main, killed):
    moved = (killed / "train.jsonl").rename(killed / "moved.jsonl")
    main(options(killed, train_file=moved, logging_steps=1, per_device_eval_batch_size=3, dataloader_num_workers=0))
    state = json.loads((killed / "out" / "trainer_state.json").read_text())
    assert state["global_step"] == 4


def test_a_finished_run_may_be_trained_further(main, killed, capsys):
    main(options(killed))
    last = killed / "out" / "checkpoint-4"
    with pytest.raises(SystemExit):
        main(options(killed, resume_from_checkpoint=last, max_steps=6, seed=7))
    assert "seed is 42" in capsys.readouterr().err
    main(options(killed, resume_from_checkpoint=last, max_steps=6))
    assert json.loads((killed / "out" / "run.json").read_text())["max_steps"] == 6
