"""Searches (`--search FILE`): Trainer's hyper-parameter search with Optuna, resumable; all trials in a table."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import math
import shlex
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedModel, set_seed
from transformers.trainer_utils import SaveStrategy

from hf_localattn.errors import loading
from hf_localattn.families import get_family, parse_config_fields
from hf_localattn.files import write_whole
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.extras import import_extra
from hf_localattn.training.lookahead import import_lookahead
from hf_localattn.training.models import load_model_and_tokenizer
from hf_localattn.training.output_folder import ASIDE
from hf_localattn.training.results import read_results, scores_of, settings_of
from hf_localattn.training.run import Prepare
from hf_localattn.training.search_space import SEARCHABLE, read_space

logger = logging.getLogger(__name__)

RESULTS = "search.json"
STUDY = "search"


class Search:
    """Trials of settings, each a model trained from its start and scored on the validation data; none is kept.

    `output_dir/search.json` has the settings of the command and all trials, `output_dir/search.db` Optuna's study.
    Given again, the same command goes on where it was killed, with the trial that it was at; with more
    `search_trials` it adds to them. Which settings are tried depends on the scores and on `seed` alone.

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
        self.combinations = self.space.combinations()
        self.count = training_args.search_trials or len(self.combinations or ())
        if self.count == 0:
            raise ValueError("--search has a range without a step, and so no end of settings: give --search_trials.")
        if self.combinations is not None and self.count >= len(self.combinations):
            self.count = len(self.combinations)
        else:
            self.combinations = None  # too many for all of them
        self.base = copy.copy(training_args)
        self._check_settings(model_args)
        self.folder = Path(training_args.output_dir)
        self.settings = settings_of(model_args, data_args, training_args)
        self.settings["search"] = {name: dataclasses.asdict(own) for name, own in self.space.dimensions.items()}
        self.settings = json.loads(json.dumps(self.settings))  # as it will be read
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
        """Run the trials that are left, and return the metrics of the best one."""
        self.optuna.logging.set_verbosity(self.optuna.logging.WARNING)  # each trial is reported below
        if not (self.folder / RESULTS).is_file():
            self._write([])
        storage = f"sqlite:///{(self.folder / 'search.db').resolve()}"
        study = self.optuna.create_study(
            study_name=STUDY, storage=storage, direction=self.direction, load_if_exists=True
        )
        for trial in study.get_trials(states=(self.optuna.trial.TrialState.RUNNING,)):
            study.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)  # killed: it is tried again
        trials = self._done(study)
        begun, old = time.perf_counter(), len(trials)
        while len(trials) < self.count:
            self._queue(study, trials)
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
                sampler=self.optuna.samplers.TPESampler(seed=self.base.seed + len(trials)),
                pruner=self.optuna.pruners.NopPruner(),
            )
            shutil.rmtree(self.trainer.args.output_dir, ignore_errors=True)
            trials = self._done(study)
            self._write(trials)
            self._report(trials, (time.perf_counter() - begun) / (len(trials) - old))
        ranked = self._ranked(trials)
        logger.info("%d trials, the best first:\n%s", len(trials), self._table(ranked))
        logger.info("The best setting: %s", self.as_options(ranked[0]["setting"]))
        return ranked[0]["metrics"]

    def as_options(self, setting: dict[str, Any]) -> str:
        """Return a trial's setting as the options to give again, beside those of the command."""
        given = {name: setting[name] for name in self.space.arguments if setting[name] is not None}
        words = [word for name, value in given.items() for word in (f"--{name}", _spoken(value))]
        if self.space.fields:
            words += ["--local_config", *self._local_config(setting)]
        return shlex.join(words)

    def _check_settings(self, model_args: ModelArguments) -> None:
        """Raise `ValueError` if arguments, configuration or an extra refuse a value, before anything is loaded."""
        config = None
        if self.space.fields:
            source = resolve_backbone(model_args.source)
            hub = {"cache_dir": model_args.cache_dir, "revision": model_args.model_revision, "token": model_args.token}
            with loading("backbone", source):
                config = AutoConfig.from_pretrained(source, **hub)
        for arguments, fields in self.space.examples():
            setting = ", ".join(f"{name}={_spoken(value)}" for name, value in {**arguments, **fields}.items())
            try:
                changed = dataclasses.replace(self.base, **arguments)
                if changed.lookahead_steps is not None:
                    import_lookahead()
                if config is not None:
                    family = get_family(str(model_args.family))
                    own, _ = family.split_fields(
                        parse_config_fields(family.config.model_type, model_args.local_config)
                    )
                    family.config(backbone_config=copy.deepcopy(config), **{**own, **fields})
            except ValueError as error:
                raise ValueError(f"--search {self.base.search}, with {setting}: {error}") from None

    def _model_of(self, trial: Any) -> PreTrainedModel:
        """A fresh model with a trial's fields. Without a trial Trainer wants one too: any."""
        model_args = self.model_args
        if self.space.fields and trial is not None:
            _, fields = self.space.suggest(trial)
            model_args = dataclasses.replace(model_args, local_config=self._local_config(fields))
        model, _ = load_model_and_tokenizer(self.run.task, model_args, self.trainer.args, **self.run.config_fields)
        set_seed(self.base.seed)  # as a trainer that is given its model begins, so that a command repeats the trial
        return model

    def _local_config(self, setting: dict[str, Any]) -> list[str]:
        """`--local_config` of the command, with a trial's fields in place of its own."""
        given = [own for own in self.model_args.local_config if own.partition("=")[0].strip() not in self.space.fields]
        return [*given, *(f"{name}={_spoken(setting[name])}" for name in self.space.fields)]

    def _set_arguments(self, trial: Any) -> dict[str, Any]:
        # Trainer would turn a value into the type of the one before: 0.1 into a whole number after the default 0.
        arguments, _ = self.space.suggest(trial)
        changed = dataclasses.replace(self.base, **arguments)
        for name in SEARCHABLE:
            setattr(self.trainer.args, name, getattr(changed, name))
        self._trial = trial
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
        study.enqueue_trial(next(setting for setting in self.combinations if setting not in tried))

    def _done(self, study: Any) -> list[dict[str, Any]]:
        """What is known of the finished trials, in their order."""
        done = study.get_trials(states=(self.optuna.trial.TrialState.COMPLETE,))
        return [
            {
                "trial": number,
                "score": trial.value,
                "setting": self._setting_of(trial),
                "metrics": trial.user_attrs["metrics"],
                "seconds": round(trial.duration.total_seconds(), 1),
                "stored": trial.params,
            }
            for number, trial in enumerate(done, start=1)
        ]

    def _setting_of(self, trial: Any) -> dict[str, Any]:
        arguments, fields = self.space.suggest(self.optuna.trial.FixedTrial(trial.params))
        return {**arguments, **fields}

    def _ranked(self, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(trials, key=lambda trial: trial["score"], reverse=self.direction == "maximize")

    def _report(self, trials: list[dict[str, Any]], each: float) -> None:
        last, best = trials[-1], self._ranked(trials)[0]
        logger.info(
            "Trial %d of %d: %s %.4f with %s; the best is %.4f, of trial %d; about %s left.",
            *(last["trial"], self.count, self.metric, last["score"], self.as_options(last["setting"])),
            *(best["score"], best["trial"], timedelta(seconds=round(each * (self.count - len(trials))))),
        )

    def _table(self, ranked: list[dict[str, Any]]) -> str:
        """The trials in Markdown."""
        names = list(self.space.dimensions)
        rows = [
            [str(trial["trial"]), f"{trial['score']:.4f}", *(_spoken(trial["setting"][name]) for name in names)]
            for trial in ranked
        ]
        header = ["trial", self.metric, *names]
        return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])

    def _write(self, trials: list[dict[str, Any]]) -> None:
        found = {
            "settings": self.settings,
            "metric": self.metric,
            "direction": self.direction,
            "best": self.as_options(self._ranked(trials)[0]["setting"]) if trials else None,
            "trials": [{name: value for name, value in trial.items() if name != "stored"} for trial in trials],
        }
        write_whole(self.folder / RESULTS, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


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


def _spoken(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
