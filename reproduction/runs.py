"""Runs of a table, in folders named by their options: tables share finished runs, and a killed run resumes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml
from tqdm.auto import tqdm

from hf_localattn.assignments import format_assignments
from hf_localattn.files import atomic_write, discard
from hf_localattn.hub.record import LIBRARIES
from hf_localattn.parsing import read_json
from hf_localattn.registry import FAMILIES
from hf_localattn.studies.processes import RunFailed, ScriptRun, finished, machine_of, run_all
from hf_localattn.studies.search import RESULTS as SEARCHED
from hf_localattn.studies.search import Search
from hf_localattn.studies.search_space import SEARCHABLE
from hf_localattn.studies.study import write_results
from hf_localattn.training.output_folder import RUN
from reproduction.measures import MEASURES
from reproduction.plan import SCRIPTS, TableRun

RESULT = "result.json"

NOT_TESTED = (
    *("family", "backbone", "dataset_name", "dataset_config_name", "train_file", "validation_file", "num_folds"),
    *("do_train", "do_eval", "early_stopping_patience", "eval_strategy", "load_best_model_at_end", "fold"),
)
"""Options that do not apply when a trained model is tested on other corpora."""


@dataclass(frozen=True)
class Runner:
    """Executes the runs of tables in a folder, and finds finished runs there.

    Attributes:
        folder: folder of all runs, with a subfolder for each.
        keep_models: keep the trained models.
        workers: number of runs at a time.
        ray_address: address of a Ray cluster for the runs.
    """

    folder: Path
    keep_models: bool = False
    workers: int = 1
    ray_address: str | None = None

    def folder_of(self, run: TableRun) -> Path:
        """Return the folder of a run. Runs with the same options have the same folder, in any table."""
        machine = f"-{re.sub('[^A-Za-z0-9]+', '-', device_name())}" if run.has_ratios else ""  # of which times are
        folder = self.folder / f"{run.task.script}-{run.digest}{machine}"
        return folder if run.task.folds is None else folder / f"fold-{run.number}"

    def result_of(self, run: TableRun) -> dict[str, Any] | None:
        """Return the record of a run, or None if the run is not finished, or lacks one of its tests."""
        path = self._path(run)
        found = read_json(path) if path.is_file() else None
        return found if found is not None and run.tests.keys() <= found["tests"].keys() else None

    def model_of(self, run: TableRun) -> Path | None:
        """Return the folder of a run's model, or None if the model was not kept."""
        folder = self.folder_of(run)
        return folder if (folder / "config.json").is_file() else None

    def execute(self, runs: Sequence[TableRun]) -> Iterator[tuple[TableRun, RunFailed | None]]:
        """Execute or resume runs, and yield each when it is finished or has failed.

        Runs that measure times are executed one by one after the others.
        """
        known = {self.folder_of(run): run for run in runs if self.result_of(run) is None}  # rows may share a run
        for run in known.values():
            if not run.trains:
                write_results(self._path(run), self._record(run, MEASURES[run.task.script](run)))
                yield run, None
        for timed in (False, True):
            own = {folder: run for folder, run in known.items() if run.trains and run.has_ratios == timed}
            use_cpu = all(run.arguments.get("use_cpu") for run in own.values())
            machine = machine_of(1 if timed else self.workers, None if timed else self.ray_address, use_cpu=use_cpu)
            jobs = [self._script_run(run) for run in own.values()]
            for job, metrics in tqdm(run_all(jobs, machine), total=len(jobs), unit="run", disable=not jobs):
                run = own[job.folder]
                if isinstance(metrics, RunFailed):
                    yield run, metrics
                else:
                    self._finish(run, metrics)
                    yield run, None

    def _path(self, run: TableRun) -> Path:
        folder = self.folder_of(run)
        return folder.with_name(f"{folder.name}.{RESULT}")

    def _script_run(self, run: TableRun) -> ScriptRun:
        """Return the run of the script, followed by its tests on other corpora."""
        folder = self.folder_of(run)
        if self._path(run).is_file() and self.model_of(run) is None:  # without a model for its new tests
            shutil.rmtree(folder, ignore_errors=True)
        if run.has_ratios and finished(folder) is None:  # a resumed run has no time
            shutil.rmtree(folder, ignore_errors=True)
        task = SCRIPTS[run.task.script].name
        tests = [
            ScriptRun(
                task, self._test_options(run, arguments, self._test_folder(run, title)), self._test_folder(run, title)
            )
            for title, arguments in run.tests.items()
        ]
        output = folder if run.task.folds is None else folder.parent
        return ScriptRun(task, {**run.options, "output_dir": str(output)}, folder, tuple(tests))

    def _test_folder(self, run: TableRun, title: str) -> Path:
        folder = self.folder_of(run)
        return folder.with_name(f"{folder.name}-on-{re.sub('[^A-Za-z0-9]+', '-', title)}")

    def _test_options(self, run: TableRun, arguments: Mapping[str, Any], output: Path) -> dict[str, Any]:
        """Return the options that test a trained model on another corpus."""
        kept = {name: value for name, value in run.options.items() if name not in NOT_TESTED}
        family = FAMILIES.get(run.arguments["family"])
        # Settings of the tokenizer, such as the parser, are not saved in a checkpoint.
        names = () if family is None else family.tokenizer_settings
        settings = {name: value for name, value in run.arguments["local_config"].items() if name in names}
        own = {"model_name_or_path": str(self.folder_of(run)), "local_config": format_assignments(settings)}
        given = {name: value for name, value in arguments.items() if value is not None}
        return {**kept, **given, **own, "do_predict": True, "output_dir": str(output)}

    def _finish(self, run: TableRun, metrics: dict[str, Any]) -> None:
        """Write the record of a run and of its tests; remove the model if it is not kept."""
        folder = self.folder_of(run)
        arguments = read_json(folder / RUN)
        data = {name.removesuffix(" data"): own for name, own in arguments.items() if name.endswith(" data")}
        metrics["train_seconds_per_epoch"] = metrics["train_runtime"] / metrics["epoch"]
        for title in run.tests:
            tested = finished(self._test_folder(run, title)) or {}
            metrics |= {f"{name}@{title}": value for name, value in tested.items() if name.startswith("predict_")}
        was_kept = self._path(run).is_file()  # the model was tested on more corpora
        write_results(self._path(run), self._record(run, metrics, data))
        if not (self.keep_models or was_kept):
            discard(folder)

    def _record(
        self, run: TableRun, metrics: Mapping[str, Any], data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the record of a run: metrics, data, device and versions of libraries."""
        return {
            "script": run.task.script,
            "seed": run.seed,
            "fold": None if run.task.folds is None else run.number,
            "data": data or {},
            "tests": run.tests,
            "versions": {name: version(name) for name in LIBRARIES},
            "device": device_name(),
            "threads": torch.get_num_threads(),
            "metrics": metrics,
        }

    def best(self, run: TableRun, given: Collection[str]) -> tuple[TableRun, dict[str, Any] | None]:
        """Search the paper's grid for a run.

        Args:
            run: the first run of a row and task.
            given: names of arguments that the caller has set. They are not searched.

        Returns:
            The run with the best setting, and the result of the search; the run and None if nothing is searched.
        """
        space = space_of(run, given)
        if not space:
            return run, None
        folder = self.folder / f"search-{replace(run, arguments={**run.arguments, 'grid': space}).digest}"
        grid = folder / "grid.yaml"
        atomic_write(grid, yaml.safe_dump(space))
        study = run.study(
            folder / "trials", search_space=str(grid), workers=self.workers, ray_address=self.ray_address
        )
        Search(study).execute()
        found = read_json(folder / "trials" / SEARCHED)
        choose = max if found["direction"] == "maximize" else min
        scored = [one for one in found["trials"] if one["score"] is not None]  # null stands for NaN
        if not scored:
            raise ValueError(f"{run.name}: no setting of the grid has a score that is a number.")
        best = choose(scored, key=lambda one: one["score"])
        return replace(run, arguments=with_setting(run.arguments, best["setting"])), {
            "row": run.row.name,
            "task": run.task.name,
            "best": best["setting"],
            "metric": found["metric"],
            "score": best["score"],
            "tried": [{"setting": one["setting"], "score": one.get("score")} for one in found["trials"]],
            "failed": [one["setting"] for one in found["failed"]],
        }


def space_of(run: TableRun, given: Collection[str] = ()) -> dict[str, Any]:
    """Return the paper's grid without what the caller has set, and without fields that the model of the row lacks."""
    config = FAMILIES[run.row.family].config if run.row.family in FAMILIES else None
    return {
        name: values
        for name, values in run.task.search.items()
        if name not in given and (name in SEARCHABLE or hasattr(config, name))
    }


def with_setting(arguments: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a script, overridden by a searched setting."""
    searched = {name: value for name, value in setting.items() if name in SEARCHABLE and value is not None}
    fields = {name: value for name, value in setting.items() if name not in SEARCHABLE}
    return {**arguments, **searched, "local_config": {**arguments["local_config"], **fields}}


def device_name() -> str:
    """Return the name of the current GPU, or "CPU"."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
