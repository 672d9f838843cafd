"""Read the arguments of `hf-localattn reproduce`: which rows and tasks of a table, with which overrides."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hf_localattn.families import read_value
from hf_localattn.reproduction.corpora import SAMPLES, load_corpora
from hf_localattn.reproduction.loop import reproduce
from hf_localattn.reproduction.plan import Overrides, Selection
from hf_localattn.reproduction.scripts import argument_names
from hf_localattn.reproduction.tables import Table, Task, load_table, select_rows, table_names

_BY_RECIPE = "the recipe says what is trained, evaluated and predicted."
SET_OTHERWISE = {
    "seed": "runs have the seeds 0, 1, ...: --seeds says how many.",
    "folds": "the recipe's: --seeds says how many of them.",
    "output_dir": "give -o.",
    "resume_from_checkpoint": "runs go on by themselves.",
    "search": "give --search, for the paper's grid.",
    "dataset_name": "data are given by --data.",
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), _BY_RECIPE),
}
"""Arguments that are not for `--set`, each with what is."""


def run_request(arguments: argparse.Namespace) -> None:
    """Run what the arguments of `hf-localattn reproduce` ask for, or list what there is.

    Raises:
        ValueError, OSError, ImportError: an argument is wrong, or something cannot be run here.
    """
    if arguments.table is None:
        _list_tables()
        return
    table = load_table(arguments.table)
    rows, overrides = select_rows(table, arguments.rows), _overrides(table, arguments)
    tasks = _select_tasks(table, arguments.tasks, overrides.also)
    reproduce(
        Selection(table, rows, tasks, overrides),
        arguments.output,
        searches=arguments.search,
        keep_models=arguments.keep_models,
        dry_run=arguments.dry_run,
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
        raise ValueError(f"--also {unknown[0]}: the further test corpora are {', '.join(sorted(titles)) or 'none'}.")
    return [
        task.model_copy(update={"also": {title: name for title, name in task.also.items() if title in also}})
        for task in tasks
    ]


def _overrides(table: Table, arguments: argparse.Namespace) -> Overrides:
    for name in ("seeds", "limit"):
        if (value := getattr(arguments, name)) is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1; got {value}.")
    return Overrides(
        backbone=arguments.backbone,
        parser=arguments.parser,
        runs=arguments.seeds,
        limit=arguments.limit,
        also=None if arguments.also is None else tuple(arguments.also),
        data=dict(_data(table, word) for word in arguments.data),
        arguments=dict(_assignment(word) for word in arguments.arguments),
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
        raise ValueError(f"--set {word}: write ARGUMENT=VALUE, such as num_train_epochs=1.")
    if name in SET_OTHERWISE or name.endswith("_file"):
        raise ValueError(f"--set {name}: {SET_OTHERWISE.get(name, 'data are given by --data.')}")
    known = argument_names()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        raise ValueError(f"--set {name}: the scripts have no such argument.{hint}")
    return name, read_value(value, word)


def _list_tables() -> None:
    width = max(map(len, table_names()))
    for name in table_names():
        table = load_table(name)
        print(f"{name:{width}}  {table.title}")
        print(f"{'':{width}}    rows: {', '.join(table.rows)}")
        print(f"{'':{width}}    tasks (corpora): {', '.join(f'{t.name} ({t.corpus})' for t in table.tasks.values())}")
