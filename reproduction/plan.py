"""Plan of a table: the list of its runs, each with the options of its script."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

import hf_localattn
from hf_localattn.assignments import format_assignments, format_value, read_value
from hf_localattn.models.sla_parser import load_pipeline
from hf_localattn.models.tokenization_sla_bert import DEFAULT_PARSER
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_parser
from hf_localattn.studies.study import Study, content_digest
from hf_localattn.tasks.task import LIMITS
from reproduction.corpora import SAMPLES, corpus_arguments, load_corpora
from reproduction.tables import Row, Table, TableTask, load_table

COMMON = {"disable_tqdm": True, "log_level": "error", "report_to": "none", "save_total_limit": 1}
"""Options of all runs."""

MEASURED = {"profile": "run_ner", "statistics": "run_glue"}
"""Measures without training, each with the script whose options it has."""

UNUSUAL = "[^A-Za-z0-9]+"
"""Characters that are replaced in names of folders."""

PARTS = {"train": "do_train", "validation": "do_eval", "test": "do_predict"}

SET_OTHERWISE = {
    **dict.fromkeys(("seed", "num_folds", "fold"), "--num-runs says how many seeds or folds are run."),
    **dict.fromkeys(("dataset_name", "train_file", "validation_file", "test_file"), "data are given by --data."),
    **dict.fromkeys(("search_space", "workers", "ray_address", "output_dir"), "it is an option of this command."),
    **dict.fromkeys((*PARTS.values(), "resume_from_checkpoint", "streaming"), "the recipe decides it."),
}
"""Arguments that `--args` does not accept, each with the reason."""


digest = cache(content_digest)


@dataclass
class Selection:
    """Rows and tasks of a table, with settings of the caller that replace those of the table.

    The settings are the options of `python -m reproduction`. `data` has the folder of each corpus, or `SAMPLES`, by
    name; its key "" applies to all other corpora. `args` has arguments of the scripts; None removes an argument.
    """

    table: Table
    rows: list[Row]
    tasks: list[TableTask]
    num_runs: int | None = None
    max_samples: int | None = None
    backbone: str | None = None
    parser: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    test_corpora: Sequence[str] | None = None
    args: dict[str, Any] = field(default_factory=dict)

    def where(self, corpus: str) -> str | None:
        """Return the folder of a corpus, `SAMPLES`, or None for the Hub."""
        return self.data.get(corpus, self.data.get(""))

    def as_data(self) -> dict[str, Any]:
        """Return the command line and the settings of the caller for a result file, without absolute paths."""
        rows, tasks = [row.name for row in self.rows], [task.name for task in self.tasks]
        models = {"backbone": self.backbone, "parser": self.parser}
        options = {
            "rows": None if len(rows) == len(self.table.rows) else rows,
            "tasks": None if len(tasks) == len(self.table.tasks) else tasks,
            **{"num-runs": self.num_runs, "max-samples": self.max_samples, **models},
            "data": [f"{name}={where}" if name else where for name, where in self.data.items()] or None,
            **{"test-corpora": self.test_corpora, "args": format_assignments(self.args) or None},
        }
        choices = {name: own and (Path(own).name if Path(own).exists() else own) for name, own in models.items()}
        limits = {"runs": self.num_runs, "limit": self.max_samples, "also": self.test_corpora}
        command = f"python -m reproduction {self.table.name} {command_line(options)}".rstrip()
        return {"command": command, "choices": {**choices, **limits, "arguments": self.args}}


def select(
    name: str,
    *,
    rows: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    data: Sequence[str] = (),
    test_corpora: Sequence[str] | None = None,
    args: Sequence[str] = (),
    **settings: Any,
) -> Selection:
    """Return the selection for the options of `python -m reproduction`, as words. Baselines of rows are not added.

    Raises:
        ValueError: an option has an invalid value.
    """
    for option in ("num_runs", "max_samples"):
        if (value := settings.get(option)) is not None and value < 1:
            raise ValueError(f"--{option.replace('_', '-')} must be at least 1; got {value}.")
    table = load_table(name)
    for kind, given, there in (("row", rows, table.rows), ("task", tasks, table.tasks)):
        if unknown := [one for one in given or () if one not in there]:
            raise ValueError(f"{name} has no {kind} {unknown[0]!r}. It has {', '.join(there)}.")
    chosen = [task for task in table.tasks.values() if tasks is None or task.name in tasks]
    titles = dict.fromkeys(title for task in chosen for title in task.test_corpora)
    if unknown := [title for title in test_corpora or () if title not in titles]:
        known = ", ".join(titles) or "none"
        raise ValueError(f"--test-corpora {unknown[0]}: the further test corpora are {known}.")
    for task in chosen if test_corpora is not None else ():
        task.test_corpora = {title: own for title, own in task.test_corpora.items() if title in (test_corpora or ())}
    places, arguments = dict(_place(table, word) for word in data), dict(parse_argument(word) for word in args)
    own = [row for row in table.rows.values() if rows is None or row.name in rows]
    return Selection(table, own, chosen, data=places, test_corpora=test_corpora, args=arguments, **settings)


def _place(table: Table, word: str) -> tuple[str, str]:
    corpus, equals, folder = word.partition("=")
    if word == SAMPLES:
        return "", SAMPLES
    if not equals or not folder:
        raise ValueError(f"--data {word}: write CORPUS=FOLDER, or {SAMPLES}.")
    if corpus not in load_corpora():
        known = dict.fromkeys(
            own for task in table.tasks.values() for own in (task.corpus, *task.test_corpora.values())
        )
        raise ValueError(f"--data {word}: there is no corpus {corpus!r}. {table.name} reads {', '.join(known)}.")
    return corpus, folder if folder == SAMPLES else str(Path(folder).expanduser().resolve())


def parse_argument(word: str) -> tuple[str, Any]:
    """Return the name and the value of a word of `--args`."""
    name, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"--args {word}: write ARGUMENT=VALUE, such as num_train_epochs=1.")
    if name in SET_OTHERWISE:
        raise ValueError(f"--args {name}: {SET_OTHERWISE[name]}")
    return name, read_value(value, word)


@dataclass(frozen=True)
class TableRun:
    """One run of a row's model on a task of a table.

    Attributes:
        row: row of the table.
        task: task of the table.
        number: number of the run, from 1.
        options: options of the script by name, except the output folder.
        tests: data options of each further test corpus, by title.
        root: folder of all runs.
    """

    row: Row
    task: TableTask
    number: int
    options: Mapping[str, Any]
    tests: Mapping[str, Mapping[str, Any]]
    root: Path

    @property
    def key(self) -> tuple[str, str]:
        """Names of row and task."""
        return self.row.name, self.task.name

    @property
    def name(self) -> str:
        """Name of the run in messages."""
        kind = "seed" if self.task.folds is None else "fold"
        return f"{self.row.name}, {self.task.name}, {kind} {self.options['fold' if self.task.folds else 'seed']}"

    @property
    def script(self) -> str:
        """Name of the script, also of a measure."""
        return MEASURED.get(self.task.script, self.task.script).removeprefix("run_")

    @property
    def has_ratios(self) -> bool:
        """True if a score is a ratio of times."""
        return any(score.ratio for score in self.task.scores.values())

    @cached_property
    def folder(self) -> Path:
        """Folder of the results. Runs with the same options have the same one, in any table, except for times.

        Files and folders are known by their content, so that they may move.
        """
        known = {name: _content(name, value) for name, value in self.options.items() if name != "fold"}
        text = json.dumps([self.task.script, known], sort_keys=True, default=str)
        name = f"{self.task.script}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        name += f"-{re.sub(UNUSUAL, '-', device_name())}" if self.has_ratios else ""
        return self.root / name / f"fold-{self.number}" if self.task.folds else self.root / name

    @property
    def command(self) -> str:
        """Command line of the run without absolute paths. For a measure, this is a comment."""
        last = ("seed", "num_folds", "fold")
        told = {name: value for name, value in self.options.items() if value != [] and name not in (*COMMON, *last)}
        if self.task.script in MEASURED:
            return f"# {self.task.script} of {command_line(told)}"
        told |= {name: self.options[name] for name in last if name in self.options}
        output = f"{self.row.name}-{self.task.name}" + (f"-{self.options['seed']}" if self.task.folds is None else "")
        return f"python {self.task.script}.py {command_line({**told, 'output_dir': output})}"

    def study(self, folder: Path, **changes: Any) -> Study:
        """Return the command of the run with an output folder, and further options."""
        return Study.of(self.script, {**self.options, "output_dir": str(folder), **changes})


def _content(name: str, value: Any) -> Any:
    """Return the digest of the file or folder that an option names; return other values unchanged."""
    if name == "local_config":
        pairs = [word.partition("=")[::2] for word in value]
        return [[key, _content("backbone", own) if key == "parser" else own] for key, own in pairs]
    is_path = name.endswith("_file") or name in ("backbone", "dataset_name")
    if not is_path or not isinstance(value, str) or not Path(value).exists():
        return value
    return digest(Path(value))


def plan(selection: Selection, root: Path = Path("runs")) -> list[TableRun]:
    """Return the runs of all rows that can be run: first run 1 of all rows and tasks, then run 2, and so on.

    `root` is the folder of all runs. If the data of some tasks is missing, a `ValueError` names all these tasks.
    """
    runs, problems = list[TableRun](), dict[str, None]()  # several tasks may have the same problem
    for task in selection.tasks:
        rows = [row for row in selection.rows if row.family is not None and task.name in (row.tasks or [task.name])]
        count = selection.num_runs or task.folds or selection.table.runs
        if task.folds is not None and count > task.folds:
            raise ValueError(f"--num-runs {count}: {task.name} is a cross-validation of {task.folds} folds, no more.")
        try:
            data, tests = _data(task, selection) if rows else ({}, {})
        except (ValueError, OSError) as error:
            problems[str(error)] = None
            continue
        for row in rows:
            options = {**_options(row, task, selection, data), **COMMON}
            for number in range(1, count + 1):
                folds = {"seed": 0, "num_folds": task.folds, "fold": number}
                own = options | ({"seed": number - 1} if task.folds is None else folds)
                runs.append(TableRun(row, task, number, own, tests, root))
    if problems:
        raise ValueError(" ".join(problems))
    rows = selection.rows
    return sorted(runs, key=lambda run: (run.number, rows.index(run.row), selection.tasks.index(run.task)))


def _data(task: TableTask, selection: Selection) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the data options of a task, and those of its further test corpora by title."""
    corpora, tests = load_corpora(), dict[str, dict[str, Any]]()
    for title, name in task.test_corpora.items():
        split = "test" if "test" in corpora[name].files else "train"  # without a test split, all rows are test rows
        arguments = corpus_arguments(corpora[name], [split], selection.where(name))
        file = arguments.pop(f"{split}_file", None)
        tests[title] = {**arguments, "test_file": file}
    # A profile reads no data, but the arguments of a script must name a data source.
    where = SAMPLES if task.script == "profile" else selection.where(task.corpus)
    there = list(corpora[task.corpus].files)
    predicts = any(score.metric.startswith("predict_") for score in task.scores.values())
    parts = [split for split in there if split != "test" or predicts or task.script == "statistics"]
    needed = parts if task.folds is None else ["train"]  # of folds, missing splits are held out from the training data
    data = corpus_arguments(corpora[task.corpus], needed, where, there if task.folds else ())
    return data | {option: True for split, option in PARTS.items() if task.folds or split in parts}, tests


def _options(row: Row, task: TableTask, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the options of table, task and row, the data options, and the settings of the caller."""
    own = selection.table.recipe(row, task)
    fields, family = own["local_config"], FAMILIES.get(own["family"])
    if family is not None and "parser" in family.tokenizer_settings:
        given, settings = family.split_fields(fields)
        if settings["parser"] is not None if "parser" in settings else family.needs_parse(family.config(**given)):
            parser = str(tiny_parser()) if selection.parser == "tiny" else selection.parser
            fields = {**fields, "parser": parser or settings.get("parser", DEFAULT_PARSER)}
    parts = {name: value for name, value in data.items() if name in PARTS.values()}
    limits = {} if selection.max_samples is None else dict.fromkeys(LIMITS.values(), selection.max_samples)
    own |= {"local_config": format_assignments(fields), "backbone": selection.backbone or own["backbone"]}
    merged = own | {name: value for name, value in data.items() if name not in parts} | limits | selection.args | parts
    return {name: value for name, value in merged.items() if value is not None}


def first_of_each(runs: Sequence[TableRun]) -> list[TableRun]:
    """Return the first run of each row and task."""
    return list({run.key: run for run in reversed(runs)}.values())[::-1]


def check_runs(runs: Sequence[TableRun]) -> None:
    """Check runs as far as possible without data and weights: options, fields, parsers.

    Raises:
        ValueError: a run cannot be run. The message names it.
    """
    for run in (own for own in first_of_each(runs) if own.task.script not in MEASURED):
        try:
            run.study(Path("unused")).config()
            for word in run.options["local_config"]:
                if word.startswith("parser="):
                    load_pipeline(word.removeprefix("parser="))
        except (ValueError, OSError, ImportError) as error:
            raise ValueError(f"{run.name}: {error}") from None


def device_name() -> str:
    """Return the name of the current GPU, or "CPU"."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def command_line(options: Mapping[str, Any]) -> str:
    """Format options for a shell, without absolute paths. A list becomes several words, None is left out.

    `$DATA` stands for a folder of data, encoders and parsers. Files of this package are relative to the folder of the
    scripts.
    """
    words, package = [], Path(hf_localattn.__file__).resolve().parent
    for name, own in options.items():
        values = [] if own is None else own if isinstance(own, list | tuple) else [own]
        words += [] if own is None else [f"--{name}"]
        for word in map(format_value, values):
            prefix, path = word[: word.find("=") + 1], Path(word.rpartition("=")[2])
            if not path.is_absolute():
                words.append(shlex.quote(word))
            elif path.is_relative_to(package):
                words.append(shlex.quote(f"{prefix}{path.relative_to(package.parent)}"))
            else:
                end = Path(path.parent.name, path.name) if path.is_file() else path.name
                words.append(f'"{prefix}$DATA/{end}"')
    return " ".join(words)
