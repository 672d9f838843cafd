"""Hyperparameter search (`--search_space FILE`) with Optuna. Each trial is a run of the script."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import math
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from tqdm.auto import tqdm
from transformers import AutoConfig

from hf_localattn.assignments import format_assignments, format_value, parse_config_fields
from hf_localattn.errors import loading
from hf_localattn.extras import import_extra
from hf_localattn.names import PLAIN, resolve_backbone
from hf_localattn.registry import get_family
from hf_localattn.studies import search_space
from hf_localattn.studies.processes import RunFailed, in_parallel, open_workers
from hf_localattn.studies.study import Study, write_results
from hf_localattn.training.output_folder import save_arguments
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
        self.is_parallel = self.args.workers > 1 or self.args.ray_address is not None

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
        save_arguments(self.study.folder, self.arguments)
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # trials are logged here
        trials = self._write()
        remaining = [index for index in range(1, self.count + 1) if index not in trials]
        self._enqueue(remaining)
        place = open_workers(self.args.workers, self.args.ray_address, use_cpu=self.args.use_cpu)
        with place as self.workers, closing(in_parallel(self._try_next, remaining, self.workers)) as ended:
            for _ in tqdm(ended, "trials", len(remaining), disable=self.args.disable_tqdm):
                logged = trials
                trials = self._write()
                for index in trials.keys() - logged.keys():
                    self._log(trials[index])
        shutil.rmtree(self.folder, ignore_errors=True)
        return self._report(trials)

    def _load_study(self, seed: int) -> Any:
        """Return Optuna's study with a new sampler: a resumed one would repeat its first draws."""
        from sqlalchemy import URL  # which Optuna needs, too

        url = URL.create("sqlite", database=str(self.study.folder.resolve() / "search.db"))
        return self.optuna.create_study(
            storage=url.render_as_string(),
            sampler=self.optuna.samplers.TPESampler(seed=seed, constant_liar=self.is_parallel),
            direction=self.direction,
            study_name="search",
            load_if_exists=True,
        )

    def _enqueue(self, remaining: Sequence[int]) -> None:
        """Queue the settings of a finite search, and those of trials that were killed; Optuna draws the others."""
        study = self._load_study(self.args.seed)
        state = self.optuna.trial.TrialState
        for trial in study.get_trials(states=(state.RUNNING,)):
            study.tell(trial.number, state=state.FAIL)
        settings = dict(enumerate(self.settings or (), start=1))
        params = {index: search_space.params_of(setting, self.space) for index, setting in settings.items()}
        queued = set()
        for trial in study.get_trials():
            index = trial.user_attrs.get("index")
            if trial.state == state.WAITING:
                queued.add(index)
            elif trial.params.keys() == self.space.keys():
                params[index] = trial.params
        for index in remaining:
            if index in params and index not in queued:
                study.enqueue_trial(params[index], {"index": index})
        self.drawn = iter([index for index in remaining if index not in params])

    def _try_next(self, index: int) -> None:
        """Let Optuna choose the next setting, and try it."""
        # Each trial has a seed of its own: with one worker, a resumed search draws what it would have drawn.
        study = self._load_study(self.args.seed + index - 1)
        study.optimize(self.objective, n_trials=1, catch=RunFailed)

    def objective(self, trial: Any) -> float:
        """Train and evaluate a model with the setting of an Optuna trial, and return its score."""
        if "index" not in trial.user_attrs:
            trial.set_user_attr("index", next(self.drawn))
        params = {name: search_space.suggest(trial, name, values) for name, values in self.space.items()}
        folder = self.folder / f"trial-{trial.user_attrs['index']}"
        options = self.options_of(search_space.setting_of(params, self.space))
        if not self.args.load_best_model_at_end:
            options["save_strategy"] = "no"
        options |= {"do_train": True, "do_eval": True, "do_predict": False, "output_dir": str(folder)}
        fold = self.study.data_args.fold
        run = self.study.script_run(folder if fold is None else folder / f"fold-{fold}", **options)
        try:
            metrics = self.workers.run(run)
        except RunFailed as error:
            trial.set_user_attr("error", str(error))
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        trial.set_user_attr("metrics", scores_of(metrics))
        score: float = metrics[f"eval_{self.metric}"]
        worst = -math.inf if self.maximizes else math.inf
        return worst if math.isnan(score) else score  # Optuna does not accept NaN

    def _write(self) -> dict[int, dict[str, Any]]:
        """Write the trials that have a score or an error, and return them by their index."""
        trials: dict[int, dict[str, Any]] = {}
        for trial in self._load_study(self.args.seed).get_trials():
            attributes = trial.user_attrs
            if trial.duration is None or not {"metrics", "error"} & attributes.keys():
                continue
            entry: dict[str, Any] = {"trial": attributes["index"]}
            entry["setting"] = search_space.setting_of(trial.params, self.space)
            if "error" in attributes:
                entry["error"] = attributes["error"]
            else:
                entry["score"] = trial.value
                entry["metrics"] = attributes["metrics"]
            entry["seconds"] = round(trial.duration.total_seconds(), 1)
            trials[entry["trial"]] = entry
        scored = [trials[index] for index in sorted(trials) if "score" in trials[index]]
        self.ranked = sorted(scored, key=lambda trial: trial["score"], reverse=self.maximizes)
        results = {
            "settings": self.arguments,
            "metric": self.metric,
            "direction": self.direction,
            "best": self.as_options(self.ranked[0]["setting"]) if self.ranked else None,
            "trials": scored,
            "failed": [trials[index] for index in sorted(trials) if "error" in trials[index]],
        }
        write_results(self.study.folder / RESULTS, results)
        return trials

    def _log(self, trial: Mapping[str, Any]) -> None:
        if "error" in trial:
            logger.warning("%s It is not tried again.", self._failure(trial))
            return
        message = "Trial %d of %d: %s %.4f with %s; the best is %.4f, of trial %d."
        setting, best = self.as_options(trial["setting"]), self.ranked[0]
        logger.info(
            message, trial["trial"], self.count, self.metric, trial["score"], setting, best["score"], best["trial"]
        )

    def _report(self, trials: Mapping[int, Mapping[str, Any]]) -> dict[str, float]:
        """Log the trials, the best first, and return the metrics of the best one."""
        failures = [self._failure(trials[index]) for index in sorted(trials) if "error" in trials[index]]
        if not self.ranked:
            raise ValueError(f"{self.where}: no trial has a score, because all {len(failures)} failed. {failures[0]}")
        header = ["trial", self.metric, *self.space]
        table = [header, ["---"] * len(header)]
        for trial in self.ranked:
            values = map(format_value, trial["setting"].values())
            table.append([str(trial["trial"]), f"{trial['score']:.4f}", *values])
        lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
        logger.info("%d trials, the best first:\n%s", len(trials), lines)
        for failure in failures:
            logger.info(failure)
        best = self.ranked[0]
        logger.info("The best setting: %s", self.as_options(best["setting"]))
        metrics: dict[str, float] = best["metrics"]
        return metrics

    def _failure(self, trial: Mapping[str, Any]) -> str:
        return f"Trial {trial['trial']} failed with {self.as_options(trial['setting'])}: {trial['error']}"
