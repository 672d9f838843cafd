"""Execution of the runs of tables. Tables share finished runs, and a killed run resumes."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml
from tqdm.auto import tqdm

from hf_localattn.families import FAMILIES
from hf_localattn.files import atomic_write, discard
from hf_localattn.hub.record import LIBRARIES
from hf_localattn.names import RUN
from hf_localattn.parsing import read_json
from hf_localattn.settings.model import ModelArguments
from hf_localattn.settings.option import options_of
from hf_localattn.studies.processes import RunFailed, ScriptRun, run_all
from hf_localattn.studies.results import finished, write_results
from hf_localattn.studies.search import RESULTS as SEARCHED
from hf_localattn.studies.search import Search
from hf_localattn.studies.search_space import SEARCHABLE
from reproduction.measures import MEASURES
from reproduction.plan import SET_OTHERWISE, UNUSUAL, TableRun, device_name, tokenizer_settings


def has_model(run: TableRun) -> bool:
    """Return True if the model of a finished run was kept."""
    return (run.folder / "config.json").is_file()


def result_of(run: TableRun) -> dict[str, Any] | None:
    """Return the record of a run, or None if the run is not finished, or lacks one of its tests."""
    path = _beside(run, ".result.json")
    if not path.is_file():
        return None
    record = read_json(path)
    return record if {*run.tests} <= {*record["tests"]} else None


def _beside(run: TableRun, suffix: str) -> Path:
    return run.folder.with_name(run.folder.name + suffix)


def execute(
    runs: Sequence[TableRun],
    *,
    keep_models: bool = False,
    workers: int = 1,
    ray_address: str | None = None,
) -> Iterator[tuple[TableRun, RunFailed | None]]:
    """Execute or resume runs, and yield each when it is finished or has failed.

    Of several runs with the same folder, one is executed. Those that measure times follow one by one after the others.
    """
    distinct = {run.folder: run for run in runs}.values()
    for run in distinct:
        if run.task.script in MEASURES:
            _, measure = MEASURES[run.task.script]
            _record(run, measure(run.script_command()), {})
            yield run, None
    trainings = [run for run in distinct if run.task.script not in MEASURES]
    timed = [run for run in trainings if run.has_ratios]
    untimed = [run for run in trainings if not run.has_ratios]
    yield from _train(untimed, keep_models, workers, ray_address)
    yield from _train(timed, keep_models)


def _train(
    runs: Sequence[TableRun], keep_models: bool, workers: int = 1, ray_address: str | None = None
) -> Iterator[tuple[TableRun, RunFailed | None]]:
    """Execute or resume runs of training scripts, and yield each when it is finished or has failed."""
    if not runs:
        return
    by_folder = {run.folder: run for run in runs}
    use_cpu = all(run.options.get("use_cpu") for run in runs)
    script_runs = [_script_run(run) for run in runs]
    with closing(run_all(script_runs, workers, ray_address, use_cpu=use_cpu)) as outcomes:
        for script_run, outcome in tqdm(outcomes, total=len(runs), unit="run"):
            run = by_folder[script_run.folder]
            if isinstance(outcome, RunFailed):
                yield run, outcome
            else:
                _finish(run, script_run, outcome, keep_models=keep_models)
                yield run, None


def _finish(run: TableRun, script_run: ScriptRun, metrics: dict[str, Any], *, keep_models: bool) -> None:
    """Write the record of a training, and remove its model unless it is kept."""
    was_kept = _beside(run, ".result.json").is_file()  # the model was tested on more corpora
    digests = {}
    for name, value in read_json(run.folder / RUN).items():
        if name.endswith(" data"):
            digests[name.removesuffix(" data")] = value
    metrics["train_seconds_per_epoch"] = metrics["train_runtime"] / metrics["epoch"]
    for title, test in zip(run.tests, script_run.then, strict=True):
        for name, value in (finished(test.folder) or {}).items():
            if name.startswith("predict_"):
                metrics[f"{name}@{title}"] = value
    _record(run, metrics, digests)
    if not (keep_models or was_kept):
        discard(run.folder)


def _script_run(run: TableRun) -> ScriptRun:
    """Return the run of the script, followed by its tests on other corpora."""
    record = _beside(run, ".result.json")
    lacks_model = record.is_file() and not has_model(run)  # for new tests, or a figure
    if lacks_model:
        record.unlink()
    if lacks_model or (run.has_ratios and finished(run.folder) is None):  # a resumed run has no time
        shutil.rmtree(run.folder, ignore_errors=True)
    tests = []
    for title, data in run.tests.items():
        folder = _beside(run, f"-on-{re.sub(UNUSUAL, '-', title)}")
        options = {**_test_options(run), **data, "output_dir": str(folder)}
        tests.append(ScriptRun(run.script, options, folder))
    output = run.folder.parent if run.task.folds else run.folder
    options = {**run.options, "output_dir": str(output)}
    return ScriptRun(run.script, options, run.folder, tuple(tests))


def _test_options(run: TableRun) -> dict[str, Any]:
    """Return the options that test the trained model of a run, without those of the data."""
    of_others = SET_OTHERWISE | options_of(ModelArguments).keys()
    options = {name: value for name, value in run.options.items() if name not in of_others}
    for name in ("early_stopping_patience", "eval_strategy", "load_best_model_at_end"):  # they need validation rows
        options.pop(name, None)
    options["model_name_or_path"] = str(run.folder)
    options["local_config"] = tokenizer_settings(run.options)
    options["do_predict"] = True
    return options


def _record(run: TableRun, metrics: Mapping[str, Any], digests: Mapping[str, Any]) -> None:
    """Write the record of a run: metrics, digests of data, device and versions of libraries."""
    record = {
        "script": run.task.script,
        "seed": run.index - 1,  # that of a fold, too, to which its number is added
        "fold": run.options.get("fold"),
        "data": digests,
        "tests": list(run.tests),
        "versions": {name: version(name) for name in LIBRARIES},
        "device": device_name(),
        "threads": torch.get_num_threads(),
        "metrics": metrics,
    }
    write_results(_beside(run, ".result.json"), record)


def used_fields(run: TableRun) -> set[str]:
    """Return the fields of a row's configuration that have an effect with its other fields."""
    family = FAMILIES.get(run.row.family or "")
    if family is None:
        return set()
    settings = {**run.task.local_config, **run.row.local_config}
    fields, _ = family.split_fields(settings)
    config = family.config(**fields)
    unused = {name for name, declared in family.fields.items() if not declared.takes_effect(config)}
    return {name for name in vars(config) if name not in unused}


def best_setting(
    run: TableRun, arguments: Collection[str], **place: Any
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Search the paper's grid for a row and task.

    Fields that the row's model lacks or does not use are left out, and so are `arguments` of the command.

    Returns:
        The options of the best setting, and the result of the search; nothing and None if nothing is searched.
    """
    used = used_fields(run)
    space = {}
    for name, values in run.task.search.items():
        if name not in arguments and (name in SEARCHABLE or name in used):
            space[name] = values
    if not space:
        return {}, None
    searched = dataclasses.replace(run, options={**run.options, "grid": space})
    folder = run.root / f"search-{searched.folder.relative_to(run.root).parts[0]}"
    grid = folder / "grid.yaml"
    atomic_write(grid, yaml.safe_dump(space))
    search = Search(run.script_command(folder / "trials", search_space=str(grid), **place))
    search.execute()
    results = read_json(folder / "trials" / SEARCHED)
    best = search.ranked[0]
    options = search.options_of(best["setting"])
    return {name: value for name, value in options.items() if value is not None}, {
        "row": run.row.name,
        "task": run.task.name,
        "best": best["setting"],
        "metric": results["metric"],
        "score": best["score"],
        "tried": [{"setting": trial["setting"], "score": trial.get("score")} for trial in results["trials"]],
        "failed": [trial["setting"] for trial in results["failed"]],
    }
