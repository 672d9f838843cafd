"""Request of `python -m reproduction`: rows and tasks of a table, with overrides of their settings."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hf_localattn
from hf_localattn.assignments import format_assignments, format_value, read_value
from reproduction.corpora import SAMPLES, load_corpora
from reproduction.tables import Row, Table, TableTask, load_table, select_rows

_BY_RECIPE = "the recipe says what is trained, evaluated and predicted."
SET_OTHERWISE = {
    "seed": "runs have the seeds 0, 1, ...: --num-runs says how many.",
    **dict.fromkeys(("num_folds", "fold"), "the recipe's: --num-runs says how many of them."),
    "output_dir": "give -o.",
    "resume_from_checkpoint": "runs go on by themselves.",
    "search_space": "give --search, for the paper's grid.",
    "streaming": "tables read all rows.",
    "workers": "give --workers.",
    "ray_address": "give --ray-address.",
    "dataset_name": "data are given by --data.",
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), _BY_RECIPE),
}
"""Arguments that `--args` does not accept, each with another way to set it."""

NAMES_IN_RESULTS = {"num_runs": "runs", "max_samples": "limit", "test_corpora": "also"}
"""Overrides that have other names in result files."""

PACKAGE = Path(hf_localattn.__file__).resolve().parent


@dataclass(frozen=True)
class Overrides:
    """Settings of the caller that replace those of a table.

    Attributes:
        backbone: backbone of all rows: Hub id, folder or "tiny".
        parser: spaCy pipeline of rows that need a parser, or "tiny" for the pipeline of this package.
        num_runs: number of seeds or folds to run.
        max_samples: maximum number of rows of each split.
        data: folder of each corpus, or `SAMPLES`, by name. The key "" applies to all other corpora.
        test_corpora: titles of further test corpora. Defaults to all test corpora of the task.
        arguments: arguments of the scripts by name, such as `num_train_epochs`. None removes an argument.
    """

    backbone: str | None = None
    parser: str | None = None
    num_runs: int | None = None
    max_samples: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    test_corpora: tuple[str, ...] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def where(self, corpus: str) -> str | None:
        """Return the folder of a corpus, `SAMPLES`, or None for the Hub."""
        return self.data.get(corpus, self.data.get(""))

    def as_data(self) -> dict[str, Any]:
        """Return the overrides for a result file, without absolute paths."""
        found = {NAMES_IN_RESULTS.get(name, name): value for name, value in dataclasses.asdict(self).items()}
        for name in ("backbone", "parser"):
            if found[name] is not None and Path(found[name]).exists():
                found[name] = Path(found[name]).name
        found["data"] = {
            name or "all": where if where == SAMPLES else "local files" for name, where in self.data.items()
        }
        return found


@dataclass(frozen=True)
class Selection:
    """Rows and tasks of a table, with overrides."""

    table: Table
    rows: Sequence[Row]
    tasks: Sequence[TableTask]
    overrides: Overrides

    @property
    def command(self) -> str:
        """Command line of the selection, without absolute paths."""
        own = self.overrides
        options: dict[str, Any] = {
            "rows": None if len(self.rows) == len(self.table.rows) else [row.name for row in self.rows],
            "tasks": None if len(self.tasks) == len(self.table.tasks) else [task.name for task in self.tasks],
            "num-runs": own.num_runs,
            "max-samples": own.max_samples,
            "backbone": own.backbone,
            "parser": own.parser,
            "data": [f"{name}={where}" if name else where for name, where in own.data.items()] or None,
            "test-corpora": own.test_corpora,
            "args": own.arguments,
        }
        return f"python -m reproduction {self.table.name} {command_line(options)}".rstrip()

    def with_rows(self, names: set[str]) -> Selection:
        """Return the selection with other rows."""
        return dataclasses.replace(self, rows=[row for row in self.table.rows.values() if row.name in names])


def select(
    table: str,
    *,
    rows: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    data: Sequence[str] = (),
    arguments: Sequence[str] = (),
    **overrides: Any,
) -> Selection:
    """Return the selection for the options of `python -m reproduction`.

    Args:
        table: name of the table.
        rows: names of the rows to run. Defaults to all rows.
        tasks: names of the tasks to run. Defaults to all tasks.
        data: `corpus=folder` strings, or `SAMPLES`.
        arguments: `argument=value` strings for the training scripts.
        **overrides: further fields of `Overrides`.

    Raises:
        ValueError: an option has an invalid value.
    """
    for option in ("num_runs", "max_samples"):
        if (value := overrides.get(option)) is not None and value < 1:
            raise ValueError(f"--{option.replace('_', '-')} must be at least 1; got {value}.")
    chosen = load_table(table)
    places, given = dict(_data(chosen, word) for word in data), dict(_assignment(word) for word in arguments)
    own = _select_tasks(chosen, tasks, overrides.get("test_corpora"))
    return Selection(chosen, select_rows(chosen, rows), own, Overrides(data=places, arguments=given, **overrides))


def _select_tasks(table: Table, names: Sequence[str] | None, titles: tuple[str, ...] | None) -> list[TableTask]:
    """Return tasks of a table, with the further test corpora that have one of the titles."""
    for name in names or ():
        if name not in table.tasks:
            raise ValueError(f"{table.name} has no task {name!r}. It has {', '.join(table.tasks)}.")
    tasks = [task for task in table.tasks.values() if names is None or task.name in names]
    if titles is None:
        return tasks
    known = list(dict.fromkeys(title for task in tasks for title in task.test_corpora))
    if unknown := [title for title in titles if title not in known]:
        raise ValueError(f"--test-corpora {unknown[0]}: the further test corpora are {', '.join(known) or 'none'}.")
    chosen = [{title: own for title, own in task.test_corpora.items() if title in titles} for task in tasks]
    return [task.model_copy(update={"test_corpora": own}) for task, own in zip(tasks, chosen, strict=True)]


def _data(table: Table, word: str) -> tuple[str, str]:
    if word == SAMPLES:
        return "", SAMPLES
    corpus, equals, folder = word.partition("=")
    if not equals or not folder:
        raise ValueError(f"--data {word}: write CORPUS=FOLDER, or {SAMPLES}.")
    if corpus not in load_corpora():
        own = dict.fromkeys(
            name for task in table.tasks.values() for name in (task.corpus, *task.test_corpora.values())
        )
        raise ValueError(f"--data {word}: there is no corpus {corpus!r}. {table.name} reads {', '.join(own)}.")
    return corpus, folder if folder == SAMPLES else str(Path(folder).expanduser().resolve())


def _assignment(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"--args {word}: write ARGUMENT=VALUE, such as num_train_epochs=1.")
    if name in SET_OTHERWISE or name.endswith("_file"):
        raise ValueError(f"--args {name}: {SET_OTHERWISE.get(name, 'data are given by --data.')}")
    return name, read_value(value, word)


def command_line(arguments: Mapping[str, Any]) -> str:
    """Format options for a shell, without absolute paths.

    A list becomes several words, a mapping one `name=value` word per entry. None and empty mappings are left out.
    `$DATA` stands for a folder of data, encoders and parsers. Files of this package are relative to the folder of the
    scripts.
    """
    words = []
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            words += [f"--{name}", *format_assignments(value)] if value else []
        elif value is not None:
            words += [f"--{name}", *map(format_value, value if isinstance(value, list | tuple) else [value])]
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    name, equals, value = word.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return shlex.quote(word)
    if path.is_relative_to(PACKAGE):
        return shlex.quote(f"{name}{equals}{path.relative_to(PACKAGE.parent)}")
    end = Path(path.parent.name, path.name) if path.is_file() else path.name
    return f'"{name}{equals}$DATA/{end}"'
