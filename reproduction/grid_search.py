"""Search of the papers' hyperparameter grids, for each row and task, with the first seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json
from hf_localattn.registry import FAMILIES
from hf_localattn.studies.search import RESULTS, Search
from hf_localattn.studies.search_space import SEARCHABLE
from hf_localattn.tasks import get_task
from reproduction.plan import TableRun
from reproduction.runs import Runner, named, quiet


class GridSearch:
    """Searches the grid of each row and task once. Killed searches are resumed.

    Args:
        runner: the runner of the table. Its folder also contains the searches.
        given: names of arguments that the caller has set. They are not searched.
        spread: arguments `workers` and `ray_address` of the searches.
    """

    def __init__(self, runner: Runner, given: Collection[str] = (), spread: Mapping[str, Any] | None = None):
        self.runner, self.given, self.spread = runner, given, spread or {}
        self.found: dict[tuple[str, str], dict[str, Any]] = {}
        """The best setting of each row and task with its score, and all other settings."""

    def space_of(self, run: TableRun) -> dict[str, Any]:
        """Return the paper's grid without fields that the model of the row lacks."""
        fields: set[str] = set()
        if run.row.family in FAMILIES:
            fields = {field.name for field in dataclasses.fields(FAMILIES[run.row.family].config)}
        return {
            name: values
            for name, values in run.task.search.items()
            if name in {*SEARCHABLE, *fields} and name not in self.given
        }

    def best(self, run: TableRun) -> TableRun:
        """Return the run with the best setting of its row and task. If nothing is searched, return the run unchanged.

        Raises:
            ValueError, OSError, ImportError: the search cannot be run.
        """
        space = self.space_of(run)
        if not space:
            return run
        if run.key not in self.found:
            self.found[run.key] = self._search(dataclasses.replace(run, number=1), space)
        return run.with_arguments(**with_setting(run.arguments, self.found[run.key]["best"]))

    def _search(self, run: TableRun, space: dict[str, Any]) -> dict[str, Any]:
        fold = run.fold and [run.fold.number, run.fold.count]
        content = [run.task.script, run.settings, fold, space]
        folder = self.runner.folder / named("search", content)
        grid = folder / "grid.yaml"
        atomic_write(grid, yaml.safe_dump(space))
        output = folder / "trials"
        searching = run.with_arguments(**self.spread, search_space=str(grid)).trial
        with quiet():
            Search(get_task(searching.task), *searching.arguments(output)).execute()
        found = read_json(Path(output, RESULTS))
        choose = max if found["direction"] == "maximize" else min
        scored = [one for one in found["trials"] if one["score"] is not None]  # null stands for NaN
        if not scored:
            raise ValueError(f"{run.name}: no setting of the grid has a score that is a number.")
        best = choose(scored, key=lambda one: one["score"])
        return {
            "row": run.row.name,
            "task": run.task.name,
            "best": best["setting"],
            "metric": found["metric"],
            "score": best["score"],
            "tried": [{"setting": one["setting"], "score": one.get("score")} for one in found["trials"]],
            "failed": [one["setting"] for one in found["failed"]],
        }


def with_setting(arguments: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a script, overridden by a searched setting."""
    searched = {name: value for name, value in setting.items() if name in SEARCHABLE and value is not None}
    fields = {name: value for name, value in setting.items() if name not in SEARCHABLE}
    if fields:
        own = arguments["local_config"].items()
        searched["local_config"] = {**{name: value for name, value in own if name not in fields}, **fields}
    return {**arguments, **searched}
