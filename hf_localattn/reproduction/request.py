"""Read what `hf-localattn reproduce` asks for: rows and tasks of a table, with overrides."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_localattn.errors import exit_on_user_error
from hf_localattn.families import read_value
from hf_localattn.reproduction.corpora import SAMPLES, load_corpora
from hf_localattn.reproduction.loop import reproduce
from hf_localattn.reproduction.plan import Overrides, Selection
from hf_localattn.reproduction.scripts import argument_names
from hf_localattn.reproduction.tables import Table, Task, load_table, select_rows, table_names
from hf_localattn.studies.executors import TrialFailed

_BY_RECIPE = "the recipe says what is trained, evaluated and predicted."
SET_OTHERWISE = {
    "seed": "runs have the seeds 0, 1, ...: --num-runs says how many.",
    "folds": "the recipe's: --num-runs says how many of them.",
    "output_dir": "give -o.",
    "resume_from_checkpoint": "runs go on by themselves.",
    "search": "give --search, for the paper's grid.",
    "workers": "give --workers.",
    "ray_address": "give --ray-address.",
    "dataset_name": "data are given by --data.",
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), _BY_RECIPE),
}
"""Arguments that are not for `--args`, each with what is."""


@dataclass(frozen=True)
class Request:
    """The arguments of `hf-localattn reproduce`.

    Attributes:
        table: its name; None lists all.
        rows, tasks: names of those to run; by default all.
        num_runs: how many seeds, or folds of the recipe's number; by default the paper's.
        max_samples: rows of each split, at most.
        backbone, parser: in place of the recipe's.
        data: `corpus=folder` strings, or `SAMPLES`.
        test_corpora: titles of further test corpora; by default all of the task's.
        arguments: `argument=value` strings for the training scripts.
        search: whether the paper's grid is searched first.
        keep_models: whether trained models are kept.
        dry_run: whether the plan is only shown.
        output: folder to write.
        workers: how many runs are at work at a time.
        ray_address: of a Ray cluster that runs them.
    """

    table: str | None = None
    rows: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    num_runs: int | None = None
    max_samples: int | None = None
    backbone: str | None = None
    parser: str | None = None
    data: Sequence[str] = ()
    test_corpora: tuple[str, ...] | None = None
    arguments: Sequence[str] = ()
    search: bool = False
    keep_models: bool = False
    dry_run: bool = False
    output: Path = Path("reproduced")
    workers: int = 1
    ray_address: str | None = None


def run_request(request: Request) -> None:
    """Run what is asked of `hf-localattn reproduce`, or list what there is.

    Raises:
        ValueError, OSError, ImportError: an argument is wrong, or something cannot be run here.
    """
    if request.table is None:
        _list_tables()
        return
    table = load_table(request.table)
    rows, overrides = select_rows(table, request.rows), _overrides(table, request)
    tasks = _select_tasks(table, request.tasks, overrides.also)
    with exit_on_user_error(TrialFailed):
        reproduce(
            Selection(table, rows, tasks, overrides),
            request.output,
            searches=request.search,
            keep_models=request.keep_models,
            dry_run=request.dry_run,
            workers=request.workers,
            ray_address=request.ray_address,
        )


def _select_tasks(table: Table, names: Sequence[str] | None, also: Sequence[str] | None) -> list[Task]:
    """Return the tasks of these names, each with those of its further test corpora that have these titles."""
    for name in names or ():
        if name not in table.tasks:
            raise ValueError(f"{table.name} has no task {name!r}. It has {', '.join(table.tasks)}.")
    tasks = [task for task in table.tasks.values() if names is None or task.name in names]
    if also is None:
        return tasks
    titles = {title for task in tasks for title in task.also}
    if unknown := [title for title in also if title not in titles]:
        raise ValueError(
            f"--test-corpora {unknown[0]}: the further test corpora are {', '.join(sorted(titles)) or 'none'}."
        )
    return [
        task.model_copy(update={"also": {title: name for title, name in task.also.items() if title in also}})
        for task in tasks
    ]


def _overrides(table: Table, request: Request) -> Overrides:
    counts = {"--num-runs": request.num_runs, "--max-samples": request.max_samples, "--workers": request.workers}
    for option, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"{option} must be at least 1; got {value}.")
    return Overrides(
        backbone=request.backbone,
        parser=request.parser,
        runs=request.num_runs,
        limit=request.max_samples,
        also=request.test_corpora,
        data=dict(_data(table, word) for word in request.data),
        arguments=dict(_assignment(word) for word in request.arguments),
    )


def _data(table: Table, word: str) -> tuple[str, str]:
    if word == SAMPLES:
        return "", SAMPLES
    corpus, equals, folder = word.partition("=")
    if not equals or not folder:
        raise ValueError(f"--data {word}: write CORPUS=FOLDER, or {SAMPLES}.")
    if corpus not in load_corpora():
        own = dict.fromkeys(name for task in table.tasks.values() for name in (task.corpus, *task.also.values()))
        raise ValueError(f"--data {word}: there is no corpus {corpus!r}. {table.name} reads {', '.join(own)}.")
    return corpus, folder if folder == SAMPLES else str(Path(folder).expanduser().resolve())


def _assignment(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"--args {word}: write ARGUMENT=VALUE, such as num_train_epochs=1.")
    if name in SET_OTHERWISE or name.endswith("_file"):
        raise ValueError(f"--args {name}: {SET_OTHERWISE.get(name, 'data are given by --data.')}")
    known = argument_names()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        raise ValueError(f"--args {name}: the scripts have no such argument.{hint}")
    return name, read_value(value, word)


def _list_tables() -> None:
    width = max(map(len, table_names()))
    for name in table_names():
        table = load_table(name)
        print(f"{name:{width}}  {table.title}")
        print(f"{'':{width}}    rows: {', '.join(table.rows)}")
        print(f"{'':{width}}    tasks (corpora): {', '.join(f'{t.name} ({t.corpus})' for t in table.tasks.values())}")
