"""Hyperparameter search (`--search_space FILE`) with Optuna. Each trial is a resumable training run."""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from hf_localattn.assignments import format_assignments, format_value
from hf_localattn.errors import listed
from hf_localattn.extras import import_extra
from hf_localattn.files import STAGING, remove_leftovers
from hf_localattn.studies.executors import Job, Outcome, TrialFailed, executor_of, reason_of
from hf_localattn.studies.progress import Pace
from hf_localattn.studies.results import as_written, read_results, settings_of, write_results
from hf_localattn.studies.search_settings import SettingCheck, distinct
from hf_localattn.studies.search_space import MOST_SETTINGS, read_space
from hf_localattn.studies.trial import Trial, free_memory, prepare_trial
from hf_localattn.tasks import DataArguments, Task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.run_record import scores_of

logger = logging.getLogger(__name__)

RESULTS = "search.json"
STORAGE = "search.db"
STUDY = "search"
FAILED = "failed"
"""Study attribute: error message by trial number. Optuna does not allow attributes of a finished trial to change."""


class Search:
    """A hyperparameter search. Each trial trains a model and evaluates it on the validation data; no model is kept.

    `output_dir/search.json` contains the settings of the command and all trials. `output_dir/search.db` contains
    Optuna's study. To resume a killed search with its unfinished trials, repeat the command. To extend a finished
    search, repeat it with a larger `search_trials`. With one worker, the settings depend only on the scores and on
    `seed`. A setting that fails is recorded with its error, and is not tried again.

    Args:
        task: one of `hf_localattn.tasks.TASKS`.
        model_args: the model.
        data_args: the data.
        training_args: the training arguments, with the search space.

    Raises:
        ImportError: Optuna, or a library that a setting needs, is not installed.
        ValueError: an argument cannot be used with a search, the search space is invalid, or the output folder holds
            other files.
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded.
    """

    def __init__(
        self, task: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
    ):
        self.optuna = import_extra("optuna", "search", "--search_space")
        assert training_args.search_space is not None
        _check_arguments(data_args, training_args)
        self.model_args, self.base = model_args, copy.copy(training_args)
        self.space = read_space(training_args.search_space, model_args)
        self.combinations: list[Mapping[str, Any]] | None = None  # None if the search does not try all combinations
        self.count = self._plan(SettingCheck(self.space, model_args, self.base))
        self.folder = Path(training_args.output_dir)
        self.settings = settings_of(model_args, data_args, training_args)
        self.settings["search"] = {name: dataclasses.asdict(own) for name, own in self.space.dimensions.items()}
        self.settings = as_written(self.settings)
        read_results(self.folder / RESULTS, self.settings, "trials")
        args = training_args
        self.executor = executor_of(args.workers, args.ray_address, self.folder, use_cpu=args.use_cpu)

        parts: dict[str, Any] = {"do_train": True, "do_eval": True, "do_predict": False}
        if not training_args.load_best_model_at_end:
            parts["save_strategy"] = "no"
        self.trial = Trial.of(task, model_args, data_args, training_args, **parts)
        self.trials_folder = self.folder / "_trials"  # temporary
        self.metric, self.direction = self._goal()

    def execute(self) -> dict[str, float]:
        """Run the remaining trials and return the metrics of the best trial.

        Raises:
            ValueError: all trials have failed.
            TrialFailed: workers were killed, or failed for a reason other than the setting of a trial.
        """
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # trials are logged below
        if not (self.folder / RESULTS).is_file():
            self._write([])
        study = self.optuna.load_study(study_name=STUDY, storage=self._storage())
        self._take_up(study)
        trials = self._tried(study)
        self._write(trials)  # a killed search may not have written its last trial
        pace, broken = Pace(self.count - len(trials)), []
        asked: dict[Path, Any] = {}
        for outcome in self.executor.run(self._jobs(study, asked)):
            trial, left = asked[outcome.job.folder], pace.step()
            if isinstance(outcome.error, TrialFailed) and not outcome.is_of_setting:
                broken.append(f"{self.as_options(self.space.setting(trial.params))}: {outcome.error}")
                logger.error("A trial has no score, with %s; about %s left.", broken[-1], left)
                continue
            self._tell(study, trial, outcome)
            shutil.rmtree(outcome.job.folder, ignore_errors=True)
            trials = self._tried(study)
            self._write(trials)
            self._report(next(own for own in trials if own["number"] == trial.number), trials, left)
        if broken:
            raise TrialFailed(f"Trials without a score: {listed(broken)}. Repeat the command to run them again.")
        shutil.rmtree(self.trials_folder, ignore_errors=True)
        ranked = self._ranked(trials)
        if not ranked:
            raise ValueError(
                f"--search_space {self.base.search_space}: no trial has a score, because all {len(trials)} failed."
                f" {self._failure(trials[0])}"
            )
        logger.info("%d trials, the best first:\n%s", len(trials), self._table(ranked))
        for own in trials:
            if "error" in own:
                logger.info(self._failure(own))
        logger.info("The best setting: %s", self.as_options(ranked[0]["setting"]))
        return ranked[0]["metrics"]

    def _goal(self) -> tuple[str, str]:
        """Check arguments and data by preparing a run, and return its metric and direction, such as "maximize"."""
        run = prepare_trial(self.trial, self.trials_folder / "check").run
        args = run.trainer.args
        metric, direction = str(args.metric_for_best_model), "maximize" if args.greater_is_better else "minimize"
        del run, args
        free_memory()
        return metric, direction

    def _storage(self) -> str:
        """Return the URL of the study's database. If it does not exist, it is created atomically."""
        path = self.folder.resolve() / STORAGE
        if not path.is_file():
            new = path.with_name(f"{STAGING}{STORAGE}.{os.getpid()}")
            try:
                storage = self.optuna.storages.RDBStorage(f"sqlite:///{new}")
                self.optuna.create_study(study_name=STUDY, storage=storage, direction=self.direction)
                storage.engine.dispose()
                os.replace(new, path)
            finally:
                remove_leftovers(self.folder)
        return f"sqlite:///{path}"

    def _take_up(self, study: Any) -> None:
        """Queue the trials that were running when the search was killed."""
        state = self.optuna.trial.TrialState
        for trial in study.get_trials(states=(state.RUNNING,)):
            study.tell(trial.number, state=state.FAIL)
            is_known = str(trial.number) in study.user_attrs.get(FAILED, {})
            if not is_known and trial.params.keys() == self.space.dimensions.keys():
                study.enqueue_trial(trial.params)

    def _jobs(self, study: Any, asked: dict[Path, Any]) -> Iterator[Job]:
        """Yield a job whenever the executor can start one, and store its Optuna trial in `asked`, by job folder."""
        while (number := len(self._begun(study))) < self.count:
            self._queue(study)
            is_parallel = self.base.workers > 1 or self.base.ray_address is not None
            # Each trial has a new sampler with another seed, because a resumed sampler repeats its first draws.
            study.sampler = self.optuna.samplers.TPESampler(seed=self.base.seed + number, constant_liar=is_parallel)
            trial = study.ask(self.space.distributions(self.optuna))
            run = self._trial_of(self.space.setting(trial.params))
            # TPE may draw the same setting for two parallel trials.
            folder = self.trials_folder / run.name
            while folder in asked:
                folder = folder.with_name(f"{folder.name}-again")
            asked[folder] = trial
            yield Job(run, folder)

    def _begun(self, study: Any) -> list[Any]:
        """Return Optuna's trials that have a score or an error, or are running."""
        errors, state = study.user_attrs.get(FAILED, {}), self.optuna.trial.TrialState
        return [
            trial
            for trial in study.get_trials(deepcopy=False)
            if trial.state in (state.COMPLETE, state.RUNNING) or str(trial.number) in errors
        ]

    def _queue(self, study: Any) -> None:
        """Queue the next combination of values if the search tries all combinations."""
        if self.combinations is None or study.get_trials(states=(self.optuna.trial.TrialState.WAITING,)):
            return
        begun = [trial.params for trial in self._begun(study)]
        combinations = map(self.space.stored, self.combinations)
        study.enqueue_trial(next(setting for setting in combinations if setting not in begun))

    def _trial_of(self, setting: Mapping[str, Any]) -> Trial:
        model, training = dict(self.trial.model), dict(self.trial.training)
        if self.space.fields:
            model["local_config"] = self._local_config(setting)
        training |= {name: setting[name] for name in self.space.arguments}
        return dataclasses.replace(self.trial, model=model, training=training)

    def _tell(self, study: Any, trial: Any, outcome: Outcome) -> None:
        """Record the score or the error of a trial."""
        if outcome.error is None:
            trial.set_user_attr("metrics", as_written(scores_of(outcome.metrics)))
            study.tell(trial, self._score(outcome.metrics))
            return
        if not outcome.is_of_setting:
            raise outcome.error
        failed = {**study.user_attrs.get(FAILED, {}), str(trial.number): reason_of(outcome.error)}
        study.set_user_attr(FAILED, failed)
        study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def _score(self, metrics: Mapping[str, float]) -> float:
        value = metrics[f"eval_{self.metric}"]
        worst = -math.inf if self.direction == "maximize" else math.inf
        return worst if math.isnan(value) else value  # Optuna does not accept NaN

    def _tried(self, study: Any) -> list[dict[str, Any]]:
        """Return the trials that have a score or an error, in the order of their start."""
        errors, state = study.user_attrs.get(FAILED, {}), self.optuna.trial.TrialState
        return [
            {
                "trial": place,
                "setting": self.space.setting(trial.params),
                **(
                    {"score": trial.value, "metrics": trial.user_attrs["metrics"]}
                    if trial.state == state.COMPLETE
                    else {"error": errors[str(trial.number)]}
                ),
                "seconds": round(trial.duration.total_seconds(), 1),
                "number": trial.number,
            }
            for place, trial in enumerate(self._begun(study), start=1)  # running trials have a place, too
            if trial.state != state.RUNNING
        ]

    def as_options(self, setting: Mapping[str, Any]) -> str:
        """Format a trial's setting as options of the command line."""
        given = {name: setting[name] for name in self.space.arguments if setting[name] is not None}
        words = [word for name, value in given.items() for word in (f"--{name}", format_value(value))]
        if self.space.fields:
            words += ["--local_config", *self._local_config(setting)]
        return shlex.join(words)

    def _plan(self, check: SettingCheck) -> int:
        """Validate all settings, or example settings, and return the number of trials."""
        combinations, asked = self.space.combinations(), self.base.search_trials
        if combinations is None and asked is None:
            endless = any(own.values is None for own in self.space.dimensions.values())
            cause = "a range without a step" if endless else f"more than {MOST_SETTINGS:,} combinations of values"
            raise ValueError(f"--search_space has {cause}: give the number of trials with --search_trials.")
        if combinations is None or (asked is not None and asked < len(combinations)):
            for setting in self.space.examples():
                check(setting)
            assert asked is not None
            return asked
        self.combinations = distinct(combinations, check)
        if same := len(combinations) - len(self.combinations):
            logger.info(
                "Leaving out %d of %d combinations, which differ from another one only in fields without effect.",
                *(same, len(combinations)),
            )
        return len(self.combinations)

    def _local_config(self, setting: Mapping[str, Any]) -> list[str]:
        """Return the values of `--local_config`, overridden by the values of a trial."""
        given = [own for own in self.model_args.local_config if own.partition("=")[0].strip() not in self.space.fields]
        return [*given, *format_assignments({name: setting[name] for name in self.space.fields})]

    def _ranked(self, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the trials with a score, best first."""
        scored = [trial for trial in trials if "score" in trial]
        return sorted(scored, key=lambda trial: trial["score"], reverse=self.direction == "maximize")

    def _report(self, last: dict[str, Any], trials: list[dict[str, Any]], left: timedelta) -> None:
        if "error" in last:
            logger.warning("%s It is not tried again.", self._failure(last))
            return
        best = self._ranked(trials)[0]
        logger.info(
            "Trial %d of %d: %s %.4f with %s; the best is %.4f, of trial %d; about %s left.",
            *(last["trial"], self.count, self.metric, last["score"], self.as_options(last["setting"])),
            *(best["score"], best["trial"], left),
        )

    def _failure(self, trial: dict[str, Any]) -> str:
        return f"Trial {trial['trial']} failed with {self.as_options(trial['setting'])}: {trial['error']}"

    def _table(self, ranked: list[dict[str, Any]]) -> str:
        """Format trials as a Markdown table."""
        names = list(self.space.dimensions)
        rows = [
            [str(trial["trial"]), f"{trial['score']:.4f}", *(format_value(trial["setting"][name]) for name in names)]
            for trial in ranked
        ]
        header = ["trial", self.metric, *names]
        return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])

    def _write(self, trials: list[dict[str, Any]]) -> None:
        ranked = self._ranked(trials)
        told = [{name: value for name, value in trial.items() if name != "number"} for trial in trials]
        found = {
            "settings": self.settings,
            "metric": self.metric,
            "direction": self.direction,
            "best": self.as_options(ranked[0]["setting"]) if ranked else None,
            "trials": [trial for trial in told if "score" in trial],
            "failed": [trial for trial in told if "error" in trial],
        }
        write_results(self.folder / RESULTS, found)


def _check_arguments(data_args: DataArguments, training_args: TrainingArguments) -> None:
    if data_args.num_folds is not None:
        raise ValueError(
            "--num_folds cannot be used with --search_space: leave it out, and use it later with the best setting."
        )
    if training_args.push_to_hub:
        raise ValueError(
            "--push_to_hub cannot be used with --search_space, which keeps no model: leave it out, and train with the"
            " best setting afterwards."
        )
    if training_args.world_size > 1:
        raise ValueError("--search_space runs in one process: run the script without torchrun or accelerate launch.")
    wanted = training_args.resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() not in ("true", "false", ""):
        raise ValueError(
            f"--resume_from_checkpoint {wanted} cannot be used with --search_space: leave it out. A search is resumed"
            " when the same command is repeated."
        )
