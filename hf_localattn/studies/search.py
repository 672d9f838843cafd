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

from hf_localattn.errors import loading
from hf_localattn.extras import import_extra
from hf_localattn.families import get_family
from hf_localattn.installed.configurations import load_config
from hf_localattn.names import NO_FAMILY, resolve_backbone
from hf_localattn.parsing import format_assignments, format_value
from hf_localattn.studies import search_space
from hf_localattn.studies.comparison_files import markdown_table
from hf_localattn.studies.processes import RunFailed, in_parallel, open_workers
from hf_localattn.studies.results import write_results
from hf_localattn.studies.script_command import ScriptCommand
from hf_localattn.training.output_folder import save_arguments
from hf_localattn.training.run_record import scores_of

logger = logging.getLogger(__name__)

RESULTS = "search.json"

Setting = dict[str, Any]
"""Values of the search space by name."""

Trial = dict[str, Any]
"""An entry of `search.json`: index, setting, score with metrics or error, and seconds."""


class Search:
    """A hyperparameter search. Each trial trains a model and evaluates it on the validation data; no model is kept.

    `search.json` contains the arguments of the command and all trials, `search.db` is Optuna's study. With one worker,
    the settings depend only on the scores and on `seed`. A setting that fails is recorded with its error, and is not
    tried again.
    """

    def __init__(self, command: ScriptCommand):
        self.optuna = import_extra("optuna", "search", "--search_space")
        self.command = command
        self.args = command.training_args
        self.option = f"--search_space {self.args.search_space}"
        model_args = command.model_args
        self.space = search_space.read_space(str(self.args.search_space), model_args)
        steps = {"max_steps", "min_train_steps"} & command.options.keys()
        if "num_train_epochs" in self.space and steps:
            raise ValueError(
                f"{self.option}: --{min(steps)} replaces num_train_epochs; search max_steps in its place."
            )
        self.family = None
        if model_args.family not in (None, NO_FAMILY):
            self.family = get_family(str(model_args.family))
            generates = command.task.model_task == "text2text-generation"
            backbone = resolve_backbone(model_args.source, generates=generates)
            with loading("backbone", backbone):
                self.backbone_config = load_config(backbone, hub=model_args.hub)
        self.settings = self._settings()  # None if Optuna draws them
        self.count = int(self.args.search_trials or 0) if self.settings is None else len(self.settings)
        self.folder = command.folder / "_trials"  # temporary
        space = {name: str(distribution) for name, distribution in self.space.items()}
        self.arguments = command.check_folder(search_space=space)
        checked_args = self._check()
        self.metric = str(checked_args.metric_for_best_model)
        self.maximizes = bool(checked_args.greater_is_better)
        self.is_parallel = self.args.workers > 1 or self.args.ray_address is not None

    def _check(self) -> Any:
        """Check arguments and data with a trial without a setting, and return its training arguments."""
        args = copy.copy(self.args)
        args.do_train = True
        args.do_eval = True
        args.do_predict = False
        args.output_dir = str(self.folder / "check")
        trial = dataclasses.replace(self.command, training_args=args)
        fold = self.command.data_args.fold
        if fold is not None:
            trial = trial.of_fold(fold)
        return trial.check()

    def _settings(self) -> list[Setting] | None:
        """Validate all settings of a finite search, and return them; or validate examples of the values."""
        combinations = search_space.combinations(self.space)
        count = self.args.search_trials
        if combinations is None and count is None:
            raise ValueError(f"{self.option} has endless combinations, or too many: give a number of --search_trials.")
        if combinations is None or (count is not None and count < len(combinations)):
            for setting in search_space.examples(self.space):
                self._validate(setting)
            return None
        distinct: dict[str, Setting] = {}
        for setting in combinations:
            distinct.setdefault(json.dumps(self._validate(setting)), setting)
        left_out = len(combinations) - len(distinct)
        if left_out:
            logger.info(
                "Leaving out %d of %d combinations: they differ only in fields without effect.",
                left_out,
                len(combinations),
            )
        return list(distinct.values())

    def _validate(self, setting: Setting) -> Setting:
        """Validate a setting, and return it with fields that have no effect at their defaults."""
        try:
            command = ScriptCommand.of(self.command.script, {**self.command.options, **self.options_of(setting)})
            if self.family is None:
                return setting
            fields, _ = self.family.split_fields(command.model_args.local_fields)
            config = self.family.config(backbone_config=self.backbone_config, **fields)
        except ValueError as error:
            words = ", ".join(format_assignments(setting))
            raise ValueError(f"{self.option}, with {words}: {error}") from None
        validated = dict(setting)
        for name in self.family.inactive_fields(config):
            if name in setting:
                validated[name] = getattr(type(config), name)
        return validated

    def options_of(self, setting: Setting) -> dict[str, Any]:
        """Return the options that a setting changes, by name."""
        options = {name: value for name, value in setting.items() if name in search_space.SEARCHABLE}
        fields = {name: value for name, value in setting.items() if name not in search_space.SEARCHABLE}
        if fields:
            words = self.command.model_args.local_config
            words = [word for word in words if word.partition("=")[0].strip() not in fields]
            options["local_config"] = [*words, *format_assignments(fields)]
        return options

    def as_options(self, setting: Setting) -> str:
        """Format a trial's setting as options of the command line."""
        words = []
        for name, value in self.options_of(setting).items():
            if value is not None:
                words.append(f"--{name}")
                words += value if isinstance(value, list) else [format_value(value)]
        return shlex.join(words)

    def execute(self) -> dict[str, float]:
        """Run the remaining trials, log all, and return the metrics of the best one."""
        save_arguments(self.command.folder, self.arguments)
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # trials are logged here
        self.storage = self._open_storage()
        self.study = self._study(self.args.seed)
        trials = self._write()
        remaining = [index for index in range(1, self.count + 1) if index not in trials]
        self._enqueue(remaining)
        with (
            open_workers(self.args.workers, self.args.ray_address, use_cpu=self.args.use_cpu) as self.workers,
            closing(in_parallel(self._try_next, remaining, self.workers)) as ended,
        ):
            for _ in tqdm(ended, "trials", len(remaining), disable=self.args.disable_tqdm):
                logged = trials
                trials = self._write()
                for index in trials.keys() - logged.keys():
                    self._log(trials[index])
        shutil.rmtree(self.folder, ignore_errors=True)
        return self._report(trials)

    def _open_storage(self) -> Any:
        from sqlalchemy import URL  # which Optuna needs, too

        url = URL.create("sqlite", database=str(self.command.folder.resolve() / "search.db"))
        return self.optuna.storages.RDBStorage(url.render_as_string())

    def _study(self, seed: int) -> Any:
        """Return Optuna's study with a sampler of its own."""
        return self.optuna.create_study(
            storage=self.storage,
            sampler=self.optuna.samplers.TPESampler(seed=seed, constant_liar=self.is_parallel),
            direction="maximize" if self.maximizes else "minimize",
            study_name="search",
            load_if_exists=True,
        )

    def _enqueue(self, remaining: Sequence[int]) -> None:
        """Queue the settings of a finite search, and those of trials that were killed; Optuna draws the others."""
        study = self.study
        state = self.optuna.trial.TrialState
        for trial in study.get_trials(states=(state.RUNNING,)):
            study.tell(trial.number, state=state.FAIL)
        params = {}
        for index, setting in enumerate(self.settings or (), start=1):
            params[index] = search_space.params_of(setting, self.space)
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
        self._study(self.args.seed + index - 1).optimize(self.objective, n_trials=1, catch=RunFailed)

    def objective(self, trial: Any) -> float:
        """Train and evaluate a model with the setting of an Optuna trial, and return its score."""
        if "index" not in trial.user_attrs:
            trial.set_user_attr("index", next(self.drawn))
        params = {name: search_space.suggest(trial, name, values) for name, values in self.space.items()}
        folder = self.folder / f"trial-{trial.user_attrs['index']}"
        options = self.options_of(search_space.setting_of(params, self.space))
        if not self.args.load_best_model_at_end:
            options |= {"save_strategy": "no", "save_steps": None}
        options |= {"do_train": True, "do_eval": True, "do_predict": False, "output_dir": str(folder)}
        fold = self.command.data_args.fold
        run = self.command.script_run(folder if fold is None else folder / f"fold-{fold}", **options)
        try:
            metrics = self.workers.run(run)
        except RunFailed as error:
            trial.set_user_attr("error", str(error))
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        trial.set_user_attr("metrics", scores_of(metrics))
        score: float = metrics[f"eval_{self.metric}"]
        if math.isnan(score):  # Optuna does not accept NaN
            return -math.inf if self.maximizes else math.inf
        return score

    def _trials(self) -> dict[int, Trial]:
        """Return the trials that have a score or an error, by their index."""
        trials: dict[int, Trial] = {}
        for trial in self.study.get_trials():
            attributes = trial.user_attrs
            if trial.duration is None or not {"metrics", "error"} & attributes.keys():
                continue
            entry: Trial = {"trial": attributes["index"]}
            entry["setting"] = search_space.setting_of(trial.params, self.space)
            if "error" in attributes:
                entry["error"] = attributes["error"]
            else:
                entry["score"] = trial.value
                entry["metrics"] = attributes["metrics"]
            entry["seconds"] = round(trial.duration.total_seconds(), 1)
            trials[entry["trial"]] = entry
        return dict(sorted(trials.items()))

    def _write(self) -> dict[int, Trial]:
        """Write the trials that have a score or an error, and return them by their index."""
        trials = self._trials()
        scored = [trial for trial in trials.values() if "score" in trial]
        self.ranked = sorted(scored, key=lambda trial: trial["score"], reverse=self.maximizes)
        results = {
            "settings": self.arguments,
            "metric": self.metric,
            "direction": "maximize" if self.maximizes else "minimize",
            "best": self.as_options(self.ranked[0]["setting"]) if self.ranked else None,
            "trials": scored,
            "failed": [trial for trial in trials.values() if "error" in trial],
        }
        write_results(self.command.folder / RESULTS, results)
        return trials

    def _log(self, trial: Trial) -> None:
        if "error" in trial:
            logger.warning("%s It is not tried again.", self._failure(trial))
            return
        best = self.ranked[0]
        logger.info(
            "Trial %d of %d: %s %.4f with %s; the best is %.4f, of trial %d.",
            trial["trial"],
            self.count,
            self.metric,
            trial["score"],
            self.as_options(trial["setting"]),
            best["score"],
            best["trial"],
        )

    def _report(self, trials: Mapping[int, Trial]) -> dict[str, float]:
        """Log the trials, the best first, and return the metrics of the best one."""
        failures = [self._failure(trial) for trial in trials.values() if "error" in trial]
        if not self.ranked:
            raise ValueError(f"{self.option}: no trial has a score, because all {len(failures)} failed. {failures[0]}")
        rows = []
        for trial in self.ranked:
            values = map(format_value, trial["setting"].values())
            rows.append([str(trial["trial"]), f"{trial['score']:.4f}", *values])
        table = markdown_table(["trial", self.metric, *self.space], rows)
        logger.info("%d trials, the best first:\n%s", len(trials), table)
        for failure in failures:
            logger.info(failure)
        best = self.ranked[0]
        logger.info("The best setting: %s", self.as_options(best["setting"]))
        metrics: dict[str, float] = best["metrics"]
        return metrics

    def _failure(self, trial: Trial) -> str:
        return f"Trial {trial['trial']} failed with {self.as_options(trial['setting'])}: {trial['error']}"
