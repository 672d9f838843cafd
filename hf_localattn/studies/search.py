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
from hf_localattn.names import PLAIN
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.registry import get_family
from hf_localattn.studies.processes import RunFailed, ScriptRun, machine_of, run_all
from hf_localattn.studies.search_space import MOST_SETTINGS, SEARCHABLE, read_space
from hf_localattn.studies.study import Study, write_results
from hf_localattn.training.optimizers import import_lookahead
from hf_localattn.training.run_record import scores_of

logger = logging.getLogger(__name__)

RESULTS = "search.json"
STORAGE = "search.db"
STUDY = "search"


class Search:
    """A hyperparameter search. Each trial trains a model and evaluates it on the validation data; no model is kept.

    `output_dir/search.json` contains the arguments of the command and all trials. `output_dir/search.db` contains
    Optuna's study. To resume a killed search with its unfinished trials, repeat the command. To extend a finished
    search, repeat it with a larger `search_trials`. With one worker, the settings depend only on the scores and on
    `seed`. A setting that fails is recorded with its error, and is not tried again.

    Args:
        study: the command.

    Raises:
        ImportError: Optuna, or a library that a setting needs, is not installed.
        ValueError, OSError: an argument cannot be used with a search, the search space is invalid, the output folder
            holds other files, or arguments, data or model are invalid or cannot be loaded.
    """

    def __init__(self, study: Study):
        self.optuna = import_extra("optuna", "search", "--search_space")
        self.study, self.args = study, study.training_args
        _check_arguments(study)
        self.space = read_space(str(self.args.search_space), study.model_args)
        self.combinations: list[dict[str, Any]] | None = None  # None if the search does not try all combinations
        self.count = self._plan()
        self.trials_folder = study.folder / "_trials"  # temporary
        space = {name: str(own.distribution) for name, own in self.space.items()}
        self.arguments = study.arguments(search_space=space)
        study.check_folder(self.arguments)
        self.machine = machine_of(self.args.workers, self.args.ray_address, use_cpu=self.args.use_cpu)
        metric, greater_is_better = self._example().check()
        self.metric, self.direction = str(metric), "maximize" if greater_is_better else "minimize"

    def execute(self) -> dict[str, float]:
        """Run the remaining trials and return the metrics of the best trial.

        Raises:
            ValueError: all trials have failed.
        """
        self.study.save(self.arguments)
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # trials are logged below
        storage = f"sqlite:///{self.study.folder.resolve() / STORAGE}"
        study = self.optuna.create_study(
            study_name=STUDY, storage=storage, direction=self.direction, load_if_exists=True
        )
        self._take_up(study)
        trials = self._write(study)
        asked: dict[Path, Any] = {}
        left = self.count - len(trials)
        for run, outcome in tqdm(
            run_all(self._runs(study, asked), self.machine), "trials", left, disable=self.args.disable_tqdm
        ):
            trial = asked[run.folder]
            if isinstance(outcome, RunFailed):
                trial.set_user_attr("error", str(outcome))
                study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
            else:
                trial.set_user_attr("metrics", json.loads(json.dumps(scores_of(outcome))))
                study.tell(trial, self._score(outcome))
            shutil.rmtree(run.folder, ignore_errors=True)
            trials = self._write(study)
            self._report(next(own for own in trials if own["number"] == trial.number), trials)
        shutil.rmtree(self.trials_folder, ignore_errors=True)
        ranked = self._ranked(trials)
        if not ranked:
            raise ValueError(
                f"--search_space {self.args.search_space}: no trial has a score, because all {len(trials)} failed."
                f" {self._failure(trials[0])}"
            )
        logger.info("%d trials, the best first:\n%s", len(trials), self._table(ranked))
        for own in trials:
            if "error" in own:
                logger.info(self._failure(own))
        logger.info("The best setting: %s", self.as_options(ranked[0]["setting"]))
        return ranked[0]["metrics"]

    def _plan(self) -> int:
        """Validate all settings, or example settings, and return the number of trials."""
        combinations, asked = self.space.combinations(), self.args.search_trials
        config = self._backbone_config()
        if combinations is None and asked is None:
            endless = any(own.values is None for own in self.space.values())
            cause = "a range without a step" if endless else f"more than {MOST_SETTINGS:,} combinations of values"
            raise ValueError(f"--search_space has {cause}: give the number of trials with --search_trials.")
        if asked is not None and (combinations is None or asked < len(combinations)):
            for setting in self.space.examples():
                self._checked(setting, config)
            return asked
        assert combinations is not None
        distinct: dict[str, dict[str, Any]] = {}
        for setting in combinations:
            distinct.setdefault(json.dumps(self._checked(setting, config)), setting)
        if same := len(combinations) - len(distinct):
            logger.info(
                "Leaving out %d of %d combinations, which differ from another one only in fields without effect.",
                *(same, len(combinations)),
            )
        self.combinations = list(distinct.values())
        return len(self.combinations)

    def _backbone_config(self) -> Any:
        """Return the configuration of the backbone; None if the model has no family."""
        model = self.study.model_args
        if model.family in (None, PLAIN):
            return None
        source = resolve_backbone(model.source)
        hub = {"cache_dir": model.cache_dir, "revision": model.model_revision, "token": model.token}
        with loading("backbone", source):
            return AutoConfig.from_pretrained(source, **hub)

    def _checked(self, setting: Mapping[str, Any], backbone_config: Any) -> dict[str, Any]:
        """Validate a setting, and return it with fields that have no effect at their defaults.

        Raises:
            ValueError: an argument or a field is invalid. The message names the setting.
            ImportError: the setting needs an extra that is not installed.
        """
        arguments = {name: value for name, value in setting.items() if name in SEARCHABLE}
        fields = {name: value for name, value in setting.items() if name not in SEARCHABLE}
        try:
            changed = dataclasses.replace(self.args, **arguments)
            if changed.lookahead_steps is not None:
                import_lookahead()
            if backbone_config is None:
                return dict(setting)
            family = get_family(str(self.study.model_args.family))
            given, _ = family.split_fields(parse_config_fields(family.name, self.study.model_args.local_config))
            config = family.config(backbone_config=backbone_config, **{**given, **fields})
            if changed.local_learning_rate is not None and not family.trains_backbone(config):
                raise ValueError(
                    "the backbone is frozen, so that local_learning_rate would apply to all trained parameters: search"
                    " learning_rate alone."
                )
        except ValueError as error:
            values = ", ".join(format_assignments(setting))
            raise ValueError(f"--search_space {self.args.search_space}, with {values}: {error}") from None
        idle = {name: getattr(type(config), name) for name in family.inactive_fields(config) if name in fields}
        return {**setting, **idle}

    def _example(self) -> Study:
        """Return the command of a trial without a setting, to check arguments and data."""
        args = copy.copy(self.args)
        args.do_train, args.do_eval, args.do_predict = True, True, False
        args.output_dir = str(self.trials_folder / "check")
        fold, study = self.study.data_args.fold, dataclasses.replace(self.study, training_args=args)
        return study if fold is None else study.of_fold(fold)

    def _take_up(self, study: Any) -> None:
        """Queue the trials that were running when the search was killed, and all combinations of a finite search."""
        state = self.optuna.trial.TrialState
        for trial in study.get_trials(states=(state.RUNNING,)):
            study.tell(trial.number, state=state.FAIL)
            if trial.params.keys() == self.space.keys():
                study.enqueue_trial(trial.params, {"folder": trial.user_attrs.get("folder")})
        for setting in self.combinations or ():
            study.enqueue_trial(self.space.stored(setting), skip_if_exists=True)

    def _runs(self, study: Any, asked: dict[Path, Any]) -> Iterator[ScriptRun]:
        """Yield a run whenever a process can start it, and store its Optuna trial in `asked`, by folder."""
        while (number := len(self._begun(study))) < self.count:
            # Each trial has a new sampler with another seed, because a resumed sampler repeats its first draws.
            is_parallel = self.args.workers > 1 or self.args.ray_address is not None
            study.sampler = self.optuna.samplers.TPESampler(seed=self.args.seed + number, constant_liar=is_parallel)
            trial = study.ask({name: own.distribution for name, own in self.space.items()})
            folder = trial.user_attrs.get("folder") or f"trial-{trial.number}"
            trial.set_user_attr("folder", folder)
            run = self._run(self.space.setting(trial.params), self.trials_folder / folder)
            asked[run.folder] = trial
            yield run

    def _run(self, setting: Mapping[str, Any], folder: Path) -> ScriptRun:
        """Return the run of a trial."""
        changes = {name: value for name, value in setting.items() if name in SEARCHABLE}
        if self.space.fields:
            changes["local_config"] = self._local_config(setting)
        if not self.args.load_best_model_at_end:
            changes["save_strategy"] = "no"
        parts = {"do_train": True, "do_eval": True, "do_predict": False}
        fold = self.study.data_args.fold
        run = folder if fold is None else folder / f"fold-{fold}"
        return self.study.run(run, **changes, **parts, output_dir=str(folder))

    def _begun(self, study: Any) -> list[Any]:
        """Return Optuna's trials that have a score or an error, or are running."""
        state = self.optuna.trial.TrialState
        return [
            trial
            for trial in study.get_trials(deepcopy=False)
            if trial.state in (state.COMPLETE, state.RUNNING) or "error" in trial.user_attrs
        ]

    def _score(self, metrics: Mapping[str, float]) -> float:
        value = metrics[f"eval_{self.metric}"]
        worst = -math.inf if self.direction == "maximize" else math.inf
        return worst if math.isnan(value) else value  # Optuna does not accept NaN

    def _write(self, study: Any) -> list[dict[str, Any]]:
        """Write and return the trials that have a score or an error, in the order of their start."""
        trials = [
            {
                "trial": place,
                "setting": self.space.setting(trial.params),
                **(
                    {"error": trial.user_attrs["error"]}
                    if "error" in trial.user_attrs
                    else {"score": trial.value, "metrics": trial.user_attrs["metrics"]}
                ),
                "seconds": round(trial.duration.total_seconds(), 1),
                "number": trial.number,
            }
            for place, trial in enumerate(self._begun(study), start=1)  # running trials have a place, too
            if trial.duration is not None
        ]
        ranked = self._ranked(trials)
        told = [{name: value for name, value in trial.items() if name != "number"} for trial in trials]
        found = {
            "settings": self.arguments,
            "metric": self.metric,
            "direction": self.direction,
            "best": self.as_options(ranked[0]["setting"]) if ranked else None,
            "trials": [trial for trial in told if "score" in trial],
            "failed": [trial for trial in told if "error" in trial],
        }
        write_results(self.study.folder / RESULTS, found)
        return trials

    def as_options(self, setting: Mapping[str, Any]) -> str:
        """Format a trial's setting as options of the command line."""
        given = {name: value for name, value in setting.items() if name in SEARCHABLE and value is not None}
        words = [word for name, value in given.items() for word in (f"--{name}", format_value(value))]
        if self.space.fields:
            words += ["--local_config", *self._local_config(setting)]
        return shlex.join(words)

    def _local_config(self, setting: Mapping[str, Any]) -> list[str]:
        """Return the values of `--local_config`, overridden by the values of a trial."""
        fields = {name: setting[name] for name in self.space.fields}
        given = [word for word in self.study.model_args.local_config if word.partition("=")[0].strip() not in fields]
        return [*given, *format_assignments(fields)]

    def _ranked(self, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the trials with a score, best first."""
        scored = [trial for trial in trials if "score" in trial]
        return sorted(scored, key=lambda trial: trial["score"], reverse=self.direction == "maximize")

    def _report(self, last: dict[str, Any], trials: list[dict[str, Any]]) -> None:
        if "error" in last:
            logger.warning("%s It is not tried again.", self._failure(last))
            return
        best = self._ranked(trials)[0]
        logger.info(
            "Trial %d of %d: %s %.4f with %s; the best is %.4f, of trial %d.",
            *(last["trial"], self.count, self.metric, last["score"], self.as_options(last["setting"])),
            *(best["score"], best["trial"]),
        )

    def _failure(self, trial: dict[str, Any]) -> str:
        return f"Trial {trial['trial']} failed with {self.as_options(trial['setting'])}: {trial['error']}"

    def _table(self, ranked: list[dict[str, Any]]) -> str:
        """Format trials as a Markdown table."""
        rows = [
            [str(trial["trial"]), f"{trial['score']:.4f}", *map(format_value, trial["setting"].values())]
            for trial in ranked
        ]
        header = ["trial", self.metric, *self.space]
        return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def _check_arguments(study: Study) -> None:
    training_args = study.training_args
    if study.data_args.num_folds is not None and study.data_args.fold is None:
        raise ValueError(
            "--num_folds cannot be used with --search_space: give one --fold, or use it later with the best setting."
        )
    if training_args.push_to_hub:
        raise ValueError(
            "--push_to_hub cannot be used with --search_space, which keeps no model: leave it out, and train with the"
            " best setting afterwards."
        )
    wanted = training_args.resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() not in ("true", "false", ""):
        raise ValueError(
            f"--resume_from_checkpoint {wanted} cannot be used with --search_space: leave it out. A search is resumed"
            " when the same command is repeated."
        )
