"""Hyperparameter search (`--search_space FILE`) with Optuna. Each trial is a run of the script."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import math
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from transformers import AutoConfig

from hf_localattn.assignments import format_assignments, format_value, parse_config_fields
from hf_localattn.errors import loading
from hf_localattn.extras import import_extra
from hf_localattn.names import PLAIN, resolve_backbone
from hf_localattn.registry import get_family
from hf_localattn.studies import search_space
from hf_localattn.studies.processes import RunFailed, ScriptRun, run_all
from hf_localattn.studies.study import Study, write_results
from hf_localattn.training.output_folder import save_run
from hf_localattn.training.run_record import scores_of

logger = logging.getLogger(__name__)

RESULTS = "search.json"


class Search:
    """A hyperparameter search. Each trial trains a model and evaluates it on the validation data; no model is kept.

    `search.json` contains the arguments of the command and all trials, `search.db` is Optuna's study. With one worker,
    the settings depend only on the scores and on `seed`. A setting that fails is recorded with its error, and is not
    tried again.
    """

    def __init__(self, study: Study):
        self.optuna = import_extra("optuna", "search", "--search_space")
        self.study, self.args, model_args = study, study.training_args, study.model_args
        self.where = f"--search_space {self.args.search_space}"
        self.space = search_space.read_space(str(self.args.search_space), model_args)
        self.family = None if model_args.family in (None, PLAIN) else get_family(str(model_args.family))
        if self.family is not None:
            source = resolve_backbone(model_args.source, generates=study.task.model_task == "text2text-generation")
            with loading("backbone", source):
                self.backbone_config = AutoConfig.from_pretrained(source, **model_args.hub)
        self.settings = self._settings()  # None if Optuna draws them
        self.count = int(self.args.search_trials or 0) if self.settings is None else len(self.settings)
        self.folder = study.folder / "_trials"  # temporary
        space = {name: str(distribution) for name, distribution in self.space.items()}
        self.arguments = study.check_folder(search_space=space)
        args = copy.copy(self.args)  # of a trial without a setting, to check arguments and data
        args.do_train, args.do_eval, args.do_predict, args.output_dir = True, True, False, str(self.folder / "check")
        example, fold = dataclasses.replace(study, training_args=args), study.data_args.fold
        checked = (example if fold is None else example.of_fold(fold)).check()
        self.metric, self.maximizes = str(checked.metric_for_best_model), bool(checked.greater_is_better)
        self.direction = "maximize" if self.maximizes else "minimize"

    def _settings(self) -> list[dict[str, Any]] | None:
        """Validate all settings of a finite search, and return them; or validate examples of the values."""
        every, asked = search_space.combinations(self.space), self.args.search_trials
        if every is None and asked is None:
            raise ValueError(f"{self.where} has endless combinations, or too many: give a number of --search_trials.")
        if every is None or (asked is not None and asked < len(every)):
            for setting in search_space.examples(self.space):
                self._checked(setting)
            return None
        distinct: dict[str, dict[str, Any]] = {}
        for setting in every:
            distinct.setdefault(json.dumps(self._checked(setting)), setting)
        if same := len(every) - len(distinct):
            logger.info(
                "Leaving out %d of %d combinations: they differ only in fields without effect.", same, len(every)
            )
        return list(distinct.values())

    def _checked(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Validate a setting, and return it with fields that have no effect at their defaults."""
        try:
            study = Study.of(self.study.script, {**self.study.options, **self.options_of(setting)})
            if self.family is None:
                return dict(setting)
            fields, _ = self.family.split_fields(parse_config_fields(self.family.name, study.model_args.local_config))
            config = self.family.config(backbone_config=self.backbone_config, **fields)
        except ValueError as error:
            values = ", ".join(format_assignments(setting))
            raise ValueError(f"{self.where}, with {values}: {error}") from None
        idle = [name for name in self.family.inactive_fields(config) if name in setting]
        return {**setting, **{name: getattr(type(config), name) for name in idle}}

    def options_of(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that a setting changes, by name."""
        options = {name: value for name, value in setting.items() if name in search_space.SEARCHABLE}
        fields = {name: value for name, value in setting.items() if name not in search_space.SEARCHABLE}
        given = [word for word in self.study.model_args.local_config if word.partition("=")[0].strip() not in fields]
        return options | ({"local_config": [*given, *format_assignments(fields)]} if fields else {})

    def as_options(self, setting: Mapping[str, Any]) -> str:
        """Format a trial's setting as options of the command line."""
        given = {name: value for name, value in self.options_of(setting).items() if value is not None}
        values = {name: value if isinstance(value, list) else [format_value(value)] for name, value in given.items()}
        return shlex.join(word for name, words in values.items() for word in (f"--{name}", *words))

    def execute(self) -> dict[str, float]:
        """Run the remaining trials, log all, and return the metrics of the best one."""
        save_run(self.study.folder, self.arguments)
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # trials are logged here
        url, state = f"sqlite:///{self.study.folder.resolve() / 'search.db'}", self.optuna.trial.TrialState
        named = {"study_name": "search", "load_if_exists": True}
        study = self.optuna.create_study(storage=url, direction=self.direction, **named)
        for trial in study.get_trials(states=(state.RUNNING,)):  # the search was killed
            study.tell(trial.number, state=state.FAIL)
            if trial.params.keys() == self.space.keys():
                study.enqueue_trial(trial.params, {"folder": trial.user_attrs.get("folder")})
        for setting in self.settings or ():
            study.enqueue_trial(search_space.params_of(setting, self.space), skip_if_exists=True)
        asked: dict[Path, Any] = {}
        trials, args = self._write(study), self.args
        ended = run_all(self._runs(study, asked), args.workers, args.ray_address, use_cpu=args.use_cpu)
        for run, outcome in tqdm(ended, "trials", self.count - len(trials), disable=args.disable_tqdm):
            trial = asked[run.folder]
            if isinstance(outcome, RunFailed):
                trial.set_user_attr("error", str(outcome))
                study.tell(trial, state=state.FAIL)
            else:
                score = outcome[f"eval_{self.metric}"]
                worst = -math.inf if self.maximizes else math.inf  # Optuna does not accept NaN
                trial.set_user_attr("metrics", scores_of(outcome))
                study.tell(trial, worst if math.isnan(score) else score)
            shutil.rmtree(run.folder, ignore_errors=True)
            trials = self._write(study)
            last = trials[trial.number]
            if "error" in last:
                logger.warning("%s It is not tried again.", self._failure(last))
                continue
            message = "Trial %d of %d: %s %.4f with %s; the best is %.4f, of trial %d."
            numbers, best = (last["trial"], self.count, self.metric, last["score"]), self.ranked[0]
            logger.info(message, *numbers, self.as_options(last["setting"]), best["score"], best["trial"])
        shutil.rmtree(self.folder, ignore_errors=True)
        failed = [self._failure(one) for one in trials.values() if "error" in one]
        if not self.ranked:
            raise ValueError(f"{self.where}: no trial has a score, because all {len(failed)} failed. {failed[0]}")
        table = [["trial", self.metric, *self.space], ["---"] * (2 + len(self.space))]
        for one in self.ranked:
            table.append([str(one["trial"]), f"{one['score']:.4f}", *map(format_value, one["setting"].values())])
        lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
        logger.info("%d trials, the best first:\n%s", len(trials), lines)
        for failure in failed:
            logger.info(failure)
        logger.info("The best setting: %s", self.as_options(self.ranked[0]["setting"]))
        metrics: dict[str, float] = self.ranked[0]["metrics"]
        return metrics

    def _runs(self, study: Any, asked: dict[Path, Any]) -> Iterator[ScriptRun]:
        """Yield a run whenever a process can start it, and store its Optuna trial in `asked`, by folder."""
        fold, is_parallel = self.study.data_args.fold, self.args.workers > 1 or self.args.ray_address is not None
        while (number := len(self._begun(study))) < self.count:
            # Each trial has a new sampler with another seed, because a resumed sampler repeats its first draws.
            study.sampler = self.optuna.samplers.TPESampler(seed=self.args.seed + number, constant_liar=is_parallel)
            trial = study.ask(self.space)
            name = trial.user_attrs.get("folder") or f"trial-{trial.number}"
            trial.set_user_attr("folder", name)
            options = self.options_of(search_space.setting_of(trial.params, self.space))
            if not self.args.load_best_model_at_end:
                options["save_strategy"] = "no"
            options |= {"do_train": True, "do_eval": True, "do_predict": False, "output_dir": str(self.folder / name)}
            folder = self.folder / name if fold is None else self.folder / name / f"fold-{fold}"
            asked[folder] = trial
            yield self.study.run(folder, **options)

    def _begun(self, study: Any) -> list[Any]:
        """Return Optuna's trials that have a score or an error, or are running."""
        state = self.optuna.trial.TrialState
        trials = study.get_trials(deepcopy=False, states=(state.COMPLETE, state.RUNNING, state.FAIL))
        return [trial for trial in trials if trial.state != state.FAIL or "error" in trial.user_attrs]

    def _write(self, study: Any) -> dict[int, dict[str, Any]]:
        """Write the trials that have a score or an error, and return them by their number in Optuna's study."""
        trials: dict[int, dict[str, Any]] = {}
        for place, trial in enumerate(self._begun(study), start=1):  # running trials have a place, too
            if trial.duration is not None:
                own = {"trial": place, "setting": search_space.setting_of(trial.params, self.space)}
                known = {name: trial.user_attrs[name] for name in ("error", "metrics") if name in trial.user_attrs}
                own |= known if "error" in known else {"score": trial.value, **known}
                trials[trial.number] = {**own, "seconds": round(trial.duration.total_seconds(), 1)}
        scored = [trial for trial in trials.values() if "score" in trial]
        self.ranked = sorted(scored, key=lambda trial: trial["score"], reverse=self.maximizes)
        found = {
            "settings": self.arguments,
            "metric": self.metric,
            "direction": self.direction,
            "best": self.as_options(self.ranked[0]["setting"]) if self.ranked else None,
            "trials": scored,
            "failed": [trial for trial in trials.values() if "error" in trial],
        }
        write_results(self.study.folder / RESULTS, found)
        return trials

    def _failure(self, trial: Mapping[str, Any]) -> str:
        return f"Trial {trial['trial']} failed with {self.as_options(trial['setting'])}: {trial['error']}"
