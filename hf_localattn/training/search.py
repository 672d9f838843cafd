"""Searches (`--search FILE`): Trainer's hyper-parameter search with Optuna, resumable; all trials in a table."""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
import os
import shlex
import shutil
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, set_seed
from transformers.trainer_utils import SaveStrategy

from hf_localattn.extras import import_extra
from hf_localattn.files import STAGING, make_durable, remove_leftovers, writing
from hf_localattn.tasks import DataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.models import load_model_and_tokenizer
from hf_localattn.training.output_folder import ASIDE
from hf_localattn.training.results import as_written, read_results, scores_of, settings_of, write_results
from hf_localattn.training.run import Prepare
from hf_localattn.training.search_settings import SettingCheck, distinct, spoken
from hf_localattn.training.search_space import MOST_SETTINGS, SEARCHABLE, read_space

logger = logging.getLogger(__name__)

RESULTS = "search.json"
STORAGE = "search.db"
STUDY = "search"
FAILED = "failed"
"""An entry of the study: the errors of its trials by their numbers. To a trial that has ended Optuna adds nothing."""

FAILURES = (ValueError, FloatingPointError, torch.OutOfMemoryError)
"""What a setting may be the cause of; anything else ends the search, which then begins again with the same trial."""


class Search:
    """Trials of settings, each a model trained from its start and scored on the validation data; none is kept.

    `output_dir/search.json` has the settings of the command and all trials, `output_dir/search.db` Optuna's study.
    Given again, the same command goes on where it was killed, with the trial that it was at; with more
    `search_trials` it adds to them. Which settings are tried depends on the scores and on `seed` alone. One that fails
    is noted with its error, and not tried again.

    Raises:
        ImportError: Optuna, or what a setting needs, is not installed.
        ValueError: arguments that do not go with a search, a space that cannot be searched, or an output folder with
            something else in it.
        ValueError, OSError: of `prepare`.
    """

    def __init__(
        self,
        prepare: Prepare,
        model_args: ModelArguments,
        data_args: DataArguments,
        training_args: TrainingArguments,
    ):
        self.optuna = import_extra("optuna", "search", "--search")
        assert training_args.search is not None
        _check_arguments(data_args, training_args)
        self.space = read_space(training_args.search, model_args)
        self.base = copy.copy(training_args)
        self.combinations: list[Mapping[str, Any]] | None = None  # where all of them are tried
        self.count = self._plan(SettingCheck(self.space, model_args, self.base))
        self.folder = Path(training_args.output_dir)
        self.settings = settings_of(model_args, data_args, training_args)
        self.settings["search"] = {name: dataclasses.asdict(own) for name, own in self.space.dimensions.items()}
        self.settings = as_written(self.settings)
        read_results(self.folder / RESULTS, self.settings, "trials")

        training_args = copy.copy(training_args)
        training_args.output_dir = str(self.folder / f"{ASIDE}trials")  # nothing there is to stay
        training_args.do_train = training_args.do_eval = True
        training_args.do_predict = False
        training_args.resume_from_checkpoint = None
        if not training_args.load_best_model_at_end:
            training_args.save_strategy = SaveStrategy.NO
        shutil.rmtree(training_args.output_dir, ignore_errors=True)  # of a trial that was killed
        self.run = prepare(copy.copy(model_args), copy.copy(data_args), training_args)
        self.trainer = self.run.trainer
        self.trainer.model_init = self._model_of
        self.metric = str(self.trainer.args.metric_for_best_model)
        self.direction = "maximize" if self.trainer.args.greater_is_better else "minimize"
        self.model_args = model_args

    def complete(self) -> dict[str, float]:
        """Run the trials that are left, and return the metrics of the best one.

        Raises:
            ValueError: all of them have failed.
        """
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # each trial is reported below
        if not (self.folder / RESULTS).is_file():
            self._write([])
        storage = self._storage()
        study = self.optuna.load_study(study_name=STUDY, storage=storage)
        for trial in study.get_trials(states=(self.optuna.trial.TrialState.RUNNING,)):
            study.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)  # killed: it is tried again
        trials = self._tried(study)
        self._write(trials)  # killed after the last one was noted, it is not in the file
        begun, old = time.perf_counter(), len(trials)
        while len(trials) < self.count:
            self._queue(study, trials)
            with writing(self.folder / STORAGE):
                self._try_next(study, storage, number=len(trials))
            shutil.rmtree(self.trainer.args.output_dir, ignore_errors=True)
            trials = self._tried(study)
            self._write(trials)
            self._report(trials, (time.perf_counter() - begun) / (len(trials) - old))
        ranked = self._ranked(trials)
        if not ranked:
            raise ValueError(
                f"--search {self.base.search}: no trial has a score, as all {len(trials)} failed."
                f" {self._failure(trials[0])}"
            )
        logger.info("%d trials, the best first:\n%s", len(trials), self._table(ranked))
        for trial in trials:
            if "error" in trial:
                logger.info(self._failure(trial))
        logger.info("The best setting: %s", self.as_options(ranked[0]["setting"]))
        return ranked[0]["metrics"]

    def _storage(self) -> str:
        """Return the name of the study's storage, which is made where there is none, whole or not at all."""
        path = self.folder.resolve() / STORAGE
        if not path.is_file():
            new = path.with_name(f"{STAGING}{STORAGE}.{os.getpid()}")
            try:
                with writing(path):
                    storage = self.optuna.storages.RDBStorage(f"sqlite:///{new}")
                    self.optuna.create_study(study_name=STUDY, storage=storage, direction=self.direction)
                    storage.engine.dispose()
                    make_durable(new)
                    os.replace(new, path)
            finally:
                remove_leftovers(self.folder)
        return f"sqlite:///{path}"

    def _try_next(self, study: Any, storage: str, number: int) -> None:
        """Run one trial, which may fail."""
        self._trial: Any = None
        try:
            self.trainer.hyperparameter_search(
                hp_space=self._set_arguments,
                compute_objective=self._score,
                n_trials=1,
                direction=self.direction,
                backend="optuna",
                hp_name=lambda trial: f"trial-{trial.number}",
                study_name=STUDY,
                storage=storage,
                load_if_exists=True,
                # A sampler of its own for every trial: one that goes on after a kill would repeat its first draws.
                sampler=self.optuna.samplers.TPESampler(seed=self.base.seed + number),
                pruner=self.optuna.pruners.NopPruner(),
            )
        except FAILURES as error:
            if self._trial is None:  # before there was a trial
                raise
            errors = study.user_attrs.get(FAILED, {})
            text = " ".join(str(error).split()) or type(error).__name__
            study.set_user_attr(FAILED, {**errors, str(self._trial.number): text})
            self.trainer.accelerator.free_memory()  # Trainer does it after a trial that has ended well

    def as_options(self, setting: dict[str, Any]) -> str:
        """Return a trial's setting as the options to give again, beside those of the command."""
        given = {name: setting[name] for name in self.space.arguments if setting[name] is not None}
        words = [word for name, value in given.items() for word in (f"--{name}", spoken(value))]
        if self.space.fields:
            words += ["--local_config", *self._local_config(setting)]
        return shlex.join(words)

    def _plan(self, check: SettingCheck) -> int:
        """Check the settings, or what stands for them, and return how many are tried."""
        combinations, asked = self.space.combinations(), self.base.search_trials
        if combinations is None and asked is None:
            endless = any(own.values is None for own in self.space.dimensions.values())
            what = "a range without a step, and so no end of" if endless else f"more than {MOST_SETTINGS:,}"
            raise ValueError(f"--search has {what} settings: give --search_trials.")
        if combinations is None or (asked is not None and asked < len(combinations)):
            for setting in self.space.examples():
                check(setting)
            assert asked is not None
            return asked
        self.combinations = distinct(combinations, check)
        if same := len(combinations) - len(self.combinations):
            logger.info(
                "%d of %d combinations differ from another one in idle fields alone, and are left out.",
                *(same, len(combinations)),
            )
        return len(self.combinations)

    def _model_of(self, trial: Any) -> PreTrainedModel:
        """A fresh model with a trial's fields. Without a trial Trainer wants one too: any."""
        model_args = self.model_args
        if self.space.fields and trial is not None:
            _, fields = self.space.suggest(trial)
            model_args = dataclasses.replace(model_args, local_config=self._local_config(fields))
        model, _ = load_model_and_tokenizer(
            self.run.task.name, model_args, self.trainer.args, **self.run.config_fields
        )
        set_seed(self.base.seed)  # as a trainer that is given its model begins, so that a command repeats the trial
        return model

    def _local_config(self, setting: dict[str, Any]) -> list[str]:
        """`--local_config` of the command, with a trial's fields in place of its own."""
        given = [own for own in self.model_args.local_config if own.partition("=")[0].strip() not in self.space.fields]
        return [*given, *(f"{name}={spoken(setting[name])}" for name in self.space.fields)]

    def _set_arguments(self, trial: Any) -> dict[str, Any]:
        self._trial = trial
        # Trainer would turn a value into the type of the one before: 0.1 into a whole number after the default 0.
        arguments, _ = self.space.suggest(trial)
        changed = dataclasses.replace(self.base, **arguments)
        for name in SEARCHABLE:
            setattr(self.trainer.args, name, getattr(changed, name))
        return {}

    def _score(self, metrics: dict[str, float]) -> float:
        self._trial.set_user_attr("metrics", scores_of(metrics))
        value = metrics[f"eval_{self.metric}"]
        worst = -math.inf if self.direction == "maximize" else math.inf
        return worst if math.isnan(value) else value  # Optuna takes no NaN, which is what a loss may become

    def _queue(self, study: Any, trials: list[dict[str, Any]]) -> None:
        """Have the next trial take the next combination, where all of them are tried."""
        if self.combinations is None or study.get_trials(states=(self.optuna.trial.TrialState.WAITING,)):
            return
        tried = [trial["stored"] for trial in trials]
        combinations = map(self.space.stored, self.combinations)
        study.enqueue_trial(next(setting for setting in combinations if setting not in tried))

    def _tried(self, study: Any) -> list[dict[str, Any]]:
        """What is known of the trials that have a score or an error, in their order; one that was killed has none."""
        errors = study.user_attrs.get(FAILED, {})
        complete = self.optuna.trial.TrialState.COMPLETE
        tried = [trial for trial in study.get_trials() if trial.state == complete or str(trial.number) in errors]
        return [
            {
                "trial": number,
                "setting": self._setting_of(trial),
                **(
                    {"score": trial.value, "metrics": trial.user_attrs["metrics"]}
                    if trial.state == complete
                    else {"error": errors[str(trial.number)]}
                ),
                "seconds": round(trial.duration.total_seconds(), 1),
                "stored": trial.params,
            }
            for number, trial in enumerate(tried, start=1)
        ]

    def _setting_of(self, trial: Any) -> dict[str, Any]:
        arguments, fields = self.space.suggest(self.optuna.trial.FixedTrial(trial.params))
        return {**arguments, **fields}

    def _ranked(self, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that have a score, the best first."""
        scored = [trial for trial in trials if "score" in trial]
        return sorted(scored, key=lambda trial: trial["score"], reverse=self.direction == "maximize")

    def _report(self, trials: list[dict[str, Any]], each: float) -> None:
        last = trials[-1]
        if "error" in last:
            logger.warning("%s It is not tried again.", self._failure(last))
            return
        best = self._ranked(trials)[0]
        logger.info(
            "Trial %d of %d: %s %.4f with %s; the best is %.4f, of trial %d; about %s left.",
            *(last["trial"], self.count, self.metric, last["score"], self.as_options(last["setting"])),
            *(best["score"], best["trial"], timedelta(seconds=round(each * (self.count - len(trials))))),
        )

    def _failure(self, trial: dict[str, Any]) -> str:
        return f"Trial {trial['trial']} failed with {self.as_options(trial['setting'])}: {trial['error']}"

    def _table(self, ranked: list[dict[str, Any]]) -> str:
        """The trials in Markdown."""
        names = list(self.space.dimensions)
        rows = [
            [str(trial["trial"]), f"{trial['score']:.4f}", *(spoken(trial["setting"][name]) for name in names)]
            for trial in ranked
        ]
        header = ["trial", self.metric, *names]
        return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])

    def _write(self, trials: list[dict[str, Any]]) -> None:
        ranked = self._ranked(trials)
        told = [{name: value for name, value in trial.items() if name != "stored"} for trial in trials]
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
    if data_args.folds is not None:
        raise ValueError(
            "--search compares settings on one split of the data: leave out --folds, and give the best setting"
            " together with --folds afterwards."
        )
    if training_args.push_to_hub:
        raise ValueError(
            "--search keeps no model: leave out --push_to_hub, and train with the best setting afterwards."
        )
    if training_args.world_size > 1:
        raise ValueError("--search runs in one process: start it without torchrun or accelerate launch.")
    wanted = training_args.resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() not in ("true", "false", ""):
        raise ValueError(
            f"--resume_from_checkpoint {wanted} does not go with --search, which goes on by itself when the same"
            " command is given again: leave it out."
        )
