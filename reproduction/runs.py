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

from hf_localattn.files import atomic_write, discard
from hf_localattn.hub.record import LIBRARIES
from hf_localattn.parsing import read_json
from hf_localattn.registry import FAMILIES
from hf_localattn.studies.processes import RunFailed, ScriptRun, finished, run_all
from hf_localattn.studies.search import RESULTS as SEARCHED
from hf_localattn.studies.search import Search
from hf_localattn.studies.search_space import SEARCHABLE
from hf_localattn.studies.study import write_results
from hf_localattn.training.output_folder import RUN
from reproduction.measures import MEASURES
from reproduction.plan import UNUSUAL, TableRun, device_name

NOT_TESTED = (
    *("family", "backbone", "dataset_name", "dataset_config_name", "train_file", "validation_file", "test_file"),
    *("do_train", "do_eval", "early_stopping_patience", "eval_strategy", "load_best_model_at_end"),
    *("num_folds", "fold"),
)
"""Options that do not apply when a trained model is tested on other corpora."""


def result_of(run: TableRun) -> dict[str, Any] | None:
    """Return the record of a run, or None if the run is not finished, or lacks one of its tests."""
    path = _beside(run, ".result.json")
    found = read_json(path) if path.is_file() else None
    return found if found is not None and {*run.tests} <= {*found["tests"]} else None


def _beside(run: TableRun, suffix: str) -> Path:
    return run.folder.with_name(run.folder.name + suffix)


def execute(
    runs: Sequence[TableRun], *, keep_models: bool = False, workers: int = 1, ray_address: str | None = None
) -> Iterator[tuple[TableRun, RunFailed | None]]:
    """Execute or resume runs, and yield each when it is finished or has failed.

    Of several runs with the same folder, one is executed. Those that measure times follow one by one after the others.
    """
    left = {run.folder: run for run in runs}
    for run in left.values():
        if run.task.script in MEASURES:
            _record(run, MEASURES[run.task.script][1](run.study()), {})
            yield run, None
    for is_timed in (False, True):
        trainings = [run for run in left.values() if run.task.script not in MEASURES and run.has_ratios == is_timed]
        if not trainings:
            continue
        place = (1, None) if is_timed else (workers, ray_address)
        use_cpu = all(run.options.get("use_cpu") for run in trainings)
        script_runs = [_script_run(run) for run in trainings]
        with closing(run_all(script_runs, *place, use_cpu=use_cpu)) as ended:
            for script_run, metrics in tqdm(ended, total=len(trainings), unit="run"):
                run = left[script_run.folder]
                if isinstance(metrics, RunFailed):
                    yield run, metrics
                else:
                    _finish(run, script_run, metrics, keep_models=keep_models)
                    yield run, None


def _finish(run: TableRun, script_run: ScriptRun, metrics: dict[str, Any], *, keep_models: bool) -> None:
    """Write the record of a training, and remove its model unless it is kept."""
    was_kept = _beside(run, ".result.json").is_file()  # the model was tested on more corpora
    record = read_json(run.folder / RUN)
    data = {name.removesuffix(" data"): value for name, value in record.items() if name.endswith(" data")}
    metrics["train_seconds_per_epoch"] = metrics["train_runtime"] / metrics["epoch"]
    for title, test in zip(run.tests, script_run.then, strict=True):
        scores = finished(test.folder) or {}
        metrics |= {f"{name}@{title}": value for name, value in scores.items() if name.startswith("predict_")}
    _record(run, metrics, data)
    if not (keep_models or was_kept):
        discard(run.folder)


def _script_run(run: TableRun) -> ScriptRun:
    """Return the run of the script, followed by its tests on other corpora."""
    record = _beside(run, ".result.json")
    lacks_model = record.is_file() and not (run.folder / "config.json").is_file()  # for new tests
    if lacks_model:
        record.unlink()
    if lacks_model or (run.has_ratios and finished(run.folder) is None):  # a resumed run has no time
        shutil.rmtree(run.folder, ignore_errors=True)
    kept = {name: value for name, value in run.options.items() if name not in NOT_TESTED}
    # Settings of the tokenizer, such as the parser, are not saved in a checkpoint.
    names = getattr(FAMILIES.get(run.options["family"]), "tokenizer_settings", ())
    settings = [word for word in run.options["local_config"] if word.partition("=")[0] in names]
    kept |= {"model_name_or_path": str(run.folder), "local_config": settings, "do_predict": True}
    tests = []
    for title, data in run.tests.items():
        place = _beside(run, f"-on-{re.sub(UNUSUAL, '-', title)}")
        tests.append(ScriptRun(run.script, {**kept, **data, "output_dir": str(place)}, place))
    output = run.folder.parent if run.task.folds else run.folder
    return ScriptRun(run.script, {**run.options, "output_dir": str(output)}, run.folder, tuple(tests))


def _record(run: TableRun, metrics: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Write the record of a run: metrics, data, device and versions of libraries."""
    found = {
        "script": run.task.script,
        "seed": run.number - 1,  # that of a fold, too, to which its number is added
        "fold": run.options.get("fold"),
        "data": data,
        "tests": list(run.tests),
        "versions": {name: version(name) for name in LIBRARIES},
        "device": device_name(),
        "threads": torch.get_num_threads(),
        "metrics": metrics,
    }
    write_results(_beside(run, ".result.json"), found)


def best_setting(run: TableRun, given: Collection[str], **place: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Search the paper's grid for a row and task, without fields that its model lacks and arguments that are given.

    Returns:
        The options of the best setting, and the result of the search; nothing and None if nothing is searched.
    """
    config = FAMILIES[run.row.family].config if run.row.family in FAMILIES else None
    space = {
        name: values
        for name, values in run.task.search.items()
        if name not in given and (name in SEARCHABLE or hasattr(config, name))
    }
    if not space:
        return {}, None
    searched = dataclasses.replace(run, options={**run.options, "grid": space})
    folder = run.root / f"search-{searched.folder.relative_to(run.root).parts[0]}"
    atomic_write(folder / "grid.yaml", yaml.safe_dump(space))
    search = Search(run.study(folder / "trials", search_space=str(folder / "grid.yaml"), **place))
    search.execute()
    found, best = read_json(folder / "trials" / SEARCHED), search.ranked[0]
    options = {name: value for name, value in search.options_of(best["setting"]).items() if value is not None}
    return options, {
        "row": run.row.name,
        "task": run.task.name,
        "best": best["setting"],
        "metric": found["metric"],
        "score": best["score"],
        "tried": [{"setting": one["setting"], "score": one.get("score")} for one in found["trials"]],
        "failed": [one["setting"] for one in found["failed"]],
    }
