"""Trials as data, and running them one by one."""

import dataclasses
import json
import math
import re

import pytest

from hf_localattn.data.folds import Fold
from hf_localattn.files import UNFINISHED
from hf_localattn.studies import executors
from hf_localattn.studies import trial as module
from hf_localattn.studies.trial import RESULT, Trial, result_of, run_trial
from hf_localattn.tasks import TASKS, Task, TokenClassification, choose_task
from hf_localattn.training.arguments import ModelArguments, parse_arguments
from tests.script_helpers import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scale.md").read_text(), flags=re.DOTALL)
GIVEN = {
    "text-classification": ("--task_name", "MRPC"),
    "negation": ("--task_name", "negation", "--cue_in_scope", "corpus", "--train_file", "a.xml"),
    "multiple-choice": (),
    "question-generation": ("--train_file", "a.json", "--max_target_length", "5", "--predict_with_generate"),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("more", [(), ("--early_stopping_patience", "2", "--lookahead_steps", "3")])
def test_arguments_go_through_json_as_they_are(name, more, tmp_path):
    task = TASKS[name]
    given = GIVEN.get(name, ("--train_file", "a.json"))
    words = [*given, *more, "--family", "cool", "--backbone", "tiny", "--local_config", "use_conv=false", "--use_cpu"]
    words += ["--output_dir", str(tmp_path), "--seed", "5", "--lr_scheduler_type", "cosine", "--report_to", "none"]
    classes = (ModelArguments, task.DataArguments, task.TrainingArguments)
    model_args, data_args, training_args = parse_arguments(classes, words)
    assert choose_task(task, data_args) is task
    trial = Trial.of(task, model_args, data_args, training_args, fold=Fold(2, 3, 0))
    again = Trial.from_dict(json.loads(json.dumps(dataclasses.asdict(trial))))
    assert (again, again.seed, again.task) == (trial, 5, name)
    found = again.arguments(tmp_path)
    data_args.held_out = Fold(2, 3, 0)
    assert found[:2] == (model_args, data_args)
    assert found[2].to_dict() == training_args.to_dict()


def trial_of(text="a", **changes):
    return Trial(
        "text-classification",
        model={"family": "cool", "backbone": "tiny"},
        data={"train_file": f"{text}.csv"},
        training={"use_cpu": True, "report_to": "none"},
        **changes,
    )


def test_a_trial_is_known_by_what_its_scores_depend_on(tmp_path):
    names = {trial_of().name, trial_of("b").name, trial_of(seed=1).name, trial_of(fold=Fold(1, 2, 0)).name}
    assert len(names) == 4
    other = trial_of()
    other.training["logging_steps"] = 3
    assert other.name == trial_of().name
    assert trial_of().name.startswith("text-classification-")


class Run:
    """Trains nothing; leaves what a run leaves."""

    def __init__(self, training_args, score):
        self.training_args, self.score = training_args, score

    def execute(self):
        folder = module.Path(self.training_args.output_dir)
        (folder / "checkpoint-1").mkdir(parents=True)
        (folder / "all_results.json").write_text(json.dumps({"train_loss": 1.0, "eval_f1": 0.0}))
        return {"eval_f1": self.score, "eval_loss": math.nan}


def test_a_finished_trial_is_not_run_again(tmp_path, monkeypatch):
    folder, prepared = tmp_path / "run", []

    def prepare(task, model_args, data_args, training_args):
        prepared.append(training_args)
        return Run(training_args, len(prepared))

    monkeypatch.setattr(module, "prepare_run", prepare)
    first = run_trial(trial_of(), folder)
    assert (first["eval_f1"], first["train_loss"], math.isnan(first["eval_loss"])) == (1, 1.0, True)
    assert (folder / "checkpoint-1").is_dir()
    assert json.dumps(run_trial(trial_of(), folder)) == json.dumps(first)
    assert json.dumps(result_of(trial_of(), folder)) == json.dumps(first)
    assert len(prepared) == 1
    assert result_of(trial_of(), tmp_path) is None
    with pytest.raises(ValueError, match="run holds the results of another trial: its seed is 0, but now it is 1"):
        run_trial(trial_of(seed=1), folder)


def test_what_a_killed_trial_left_before_its_first_checkpoint_is_removed(tmp_path, monkeypatch):
    (tmp_path / "checkpoint-1").mkdir()
    for name in ("config.json", UNFINISHED):
        (tmp_path / name).touch()

    def prepare(task, model_args, data_args, training_args):
        return Run(training_args, sorted(path.name for path in tmp_path.iterdir()))

    monkeypatch.setattr(module, "prepare_run", prepare)
    assert run_trial(trial_of(), tmp_path)["eval_f1"] == [".hf-localattn.lock"]


def test_a_folder_with_something_else_stays_as_it_is(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1.txt").touch()
    with pytest.raises(ValueError, match=r"is not empty \(thesis\) and holds no trial to resume"):
        run_trial(trial_of(), tmp_path)
    assert (tmp_path / "thesis" / "chapter-1.txt").is_file()


def test_what_is_evaluated_makes_another_trial():
    more = ({}, {"do_eval": True}, {"do_predict": True})
    names = {dataclasses.replace(trial_of(), training={**trial_of().training, **own}).name for own in more}
    assert len(names) == 3


def test_scopes_are_a_task_of_their_own(tmp_path):
    data = {"train_file": "x", "task_name": "negation"}
    words = Trial("token-classification", {"family": "cool", "backbone": "tiny"}, data, {})
    model_args, data_args, training_args = words.arguments(tmp_path)
    assert Trial.of(TokenClassification, model_args, data_args, training_args).task == "negation"
    cues = Trial("negation", words.model, {"train_file": "x", "cues": "speculation"}, {})
    assert cues.arguments(tmp_path)[1].task_name == "negation"


def test_a_trial_has_one_gpu_like_one_in_a_worker(monkeypatch, tmp_path):
    """With several ones Trainer would have larger batches: a study begun with workers would go on with others."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
    monkeypatch.setattr("accelerate.PartialState.device", "cuda:0", raising=False)
    trial = dataclasses.replace(trial_of(), training={"report_to": "none", "per_device_train_batch_size": 2})
    training_args = trial.arguments(tmp_path)[2]
    assert (training_args.n_gpu, training_args.train_batch_size) == (1, 2)
    assert trial_of().arguments(tmp_path)[2].n_gpu == 0


def test_a_task_of_ones_own_is_not_for_other_processes(tmp_path):
    class Own(Task):
        """Not in `TASKS`."""

    with pytest.raises(ValueError, match="The task Own cannot be sent to other processes"):
        Trial.of(Own, *trial_of().arguments(tmp_path))


def test_the_program_for_slurm_runs(monkeypatch, tmp_path, capsys):
    program, workers = BLOCKS
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    names = {}
    exec(compile(program.replace("hf_localattn/res", f"{ROOT}/hf_localattn/res"), "scale.md", "exec"), names)
    assert capsys.readouterr().out.endswith("12\n")
    assert (names["trial"].seed, (tmp_path / "study" / names["trial"].name / RESULT).is_file()) == (2, True)
    # As in this process, which has imported all of it.
    monkeypatch.setattr(executors, "Workers", lambda count, folder: executors.InProcess())
    names["trials"] = [names["trial"]] * 2
    exec(compile(workers, "scale.md", "exec"), names)
    assert re.fullmatch(r"(2 0\.\d+\n){2}", capsys.readouterr().out)
