"""The papers' grids: the best setting of each row and task, searched with the first seed before any run counts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from hf_localattn.families import FAMILIES
from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json
from hf_localattn.reproduction.plan import Trial
from hf_localattn.reproduction.runs import Runner, named, quiet
from hf_localattn.reproduction.scripts import QUIET, SCRIPTS, make_arguments
from hf_localattn.studies.search import RESULTS, Search
from hf_localattn.studies.search_space import SEARCHABLE


class GridSearch:
    """Searches the grid of each row and task once; a search that was killed goes on.

    Args:
        runner: its folder has the searches and the runs.
        given: names of arguments that the caller has set; they are not searched.
        spread: `workers` and `ray_address` of the searches.
    """

    def __init__(self, runner: Runner, given: Collection[str] = (), spread: Mapping[str, Any] | None = None):
        self.runner, self.given, self.spread = runner, given, spread or {}
        self.found: dict[tuple[str, str], dict[str, Any]] = {}
        """The best setting of each row and task, its score, and all others."""

    def space_of(self, trial: Trial) -> dict[str, Any]:
        """Return the paper's grid as far as the row has what is varied: a plain encoder has no fields of a family."""
        fields: set[str] = set()
        if trial.row.family in FAMILIES:
            fields = {field.name for field in dataclasses.fields(FAMILIES[trial.row.family].config)}
        return {
            name: values
            for name, values in trial.task.search.items()
            if name in {*SEARCHABLE, *fields} and name not in self.given
        }

    def count(self, trial: Trial) -> int:
        """Return how many settings are tried for a trial's row and task, at most; 0 without a search."""
        space = self.space_of(trial)
        return math.prod(len(values) if isinstance(values, list) else 1 for values in space.values()) if space else 0

    def best(self, trial: Trial) -> Trial:
        """Return the trial with the best setting of its row and task; itself, if there is nothing to search.

        Raises:
            ValueError, OSError, ImportError: it cannot be searched here.
        """
        space = self.space_of(trial)
        if not space:
            return trial
        if trial.key not in self.found:
            self.found[trial.key] = self._search(dataclasses.replace(trial, number=1), space)
        return dataclasses.replace(trial, arguments=with_setting(trial.arguments, self.found[trial.key]["best"]))

    def _search(self, trial: Trial, space: dict[str, Any]) -> dict[str, Any]:
        fold = trial.fold and [trial.fold.number, trial.fold.count]
        content = [trial.task.script, self.runner.settings(trial), fold, space]
        folder = self.runner.folder / named("search", content)
        grid = folder / "grid.yaml"
        atomic_write(grid, yaml.safe_dump(space))
        output = folder / "trials"
        own = {**QUIET, **self.spread, "search": str(grid), "output_dir": str(output), "seed": trial.seed}
        model_args, data_args, training_args = make_arguments(trial.task.script, {**trial.arguments, **own})
        data_args.fold = trial.fold
        with quiet():
            Search(SCRIPTS[trial.task.script], model_args, data_args, training_args).execute()
        found = read_json(Path(output, RESULTS))
        choose = max if found["direction"] == "maximize" else min
        scored = [one for one in found["trials"] if one["score"] is not None]  # null: not a number
        if not scored:
            raise ValueError(f"{trial.name}: no setting of the grid has a score that is a number.")
        best = choose(scored, key=lambda one: one["score"])
        return {
            "row": trial.row.name,
            "task": trial.task.name,
            "best": best["setting"],
            "metric": found["metric"],
            "score": best["score"],
            "tried": [{"setting": one["setting"], "score": one.get("score")} for one in found["trials"]],
            "failed": [one["setting"] for one in found["failed"]],
        }


def with_setting(arguments: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a script with a searched setting in place of their own; its fields come last."""
    searched = {name: value for name, value in setting.items() if name in SEARCHABLE and value is not None}
    fields = {name: value for name, value in setting.items() if name not in SEARCHABLE}
    if fields:
        own = arguments["local_config"].items()
        searched["local_config"] = {**{name: value for name, value in own if name not in fields}, **fields}
    return {**arguments, **searched}
