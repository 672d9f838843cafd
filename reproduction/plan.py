"""Plan of a table: the list of its runs, each with the options of its script."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from reproduction.measures import MEASURES
from reproduction.tables import Row, Table, TableTask, load_table

COMMON = {"disable_tqdm": True, "log_level": "error", "report_to": "none", "save_total_limit": 1}
"""Options of all runs."""

UNUSUAL = "[^A-Za-z0-9]+"
"""Characters that are replaced in names of folders."""

PARTS = {"train": "do_train", "validation": "do_eval", "test": "do_predict"}

SET_OTHERWISE = (
    *("seed", "num_folds", "fold", "dataset_name", "train_file", "validation_file", "test_file", "search_space"),
    *("workers", "ray_address", "output_dir", "resume_from_checkpoint", "streaming", *PARTS.values()),
)
"""Arguments that `--args` does not accept."""

digest = cache(content_digest)


@dataclass
class Selection:
    """Rows and tasks of a table, with options of `python -m reproduction` that replace settings of the table.

    Attributes:
        command: command line of the selection, without absolute paths.
        data: folder of each corpus, or `SAMPLES`, by name. Other corpora are read from the Hub.
        args: arguments of the scripts. None removes an argument.
    """

    table: Table
    rows: list[Row]
    tasks: list[TableTask]
    command: str
    data: dict[str, str]
    args: dict[str, Any]
    num_runs: int | None = None
    max_samples: int | None = None
    backbone: str | None = None
    parser: str | None = None


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
    table = load_table(name)
    for kind, given, there in (("row", rows, table.rows), ("task", tasks, table.tasks)):
        if unknown := [one for one in given or () if one not in there]:
            raise ValueError(f"{name} has no {kind} {unknown[0]!r}. It has {', '.join(there)}.")
    chosen = [task for task in table.tasks.values() if tasks is None or task.name in tasks]
    titles = dict.fromkeys(title for task in chosen for title in task.test_corpora)
    if unknown := [title for title in test_corpora or () if title not in titles]:
        raise ValueError(f"--test-corpora {unknown[0]}: the further test corpora are {', '.join(titles) or 'none'}.")
    for task in chosen if test_corpora is not None else ():
        task.test_corpora = {title: own for title, own in task.test_corpora.items() if title in (test_corpora or ())}
    places = dict[str, str]()
    for word in (one for one in data if one != SAMPLES):
        corpus, _, folder = word.partition("=")
        if not folder:
            raise ValueError(f"--data {word}: write CORPUS=FOLDER, or {SAMPLES}.")
        if corpus not in load_corpora():
            known = dict.fromkeys(own for task in chosen for own in (task.corpus, *task.test_corpora.values()))
            raise ValueError(f"--data {word}: there is no corpus {corpus!r}. {name} reads {', '.join(known)}.")
        places[corpus] = folder if folder == SAMPLES else str(Path(folder).expanduser().resolve())
    arguments = dict(map(parse_argument, args))
    options: dict[str, Any] = {"rows": rows, "tasks": tasks, **settings}
    options["data"] = [*([SAMPLES] if SAMPLES in data else []), *map("=".join, places.items())] or None
    options |= {"test_corpora": test_corpora, "args": format_assignments(arguments) or None}
    told = {key.replace("_", "-"): value for key, value in options.items() if value is not None}
    return Selection(
        table=table,
        rows=[row for row in table.rows.values() if rows is None or row.name in rows],
        tasks=chosen,
        command=f"python -m reproduction {name} {command_line(told)}".rstrip(),
        data=(dict.fromkeys(load_corpora(), SAMPLES) if SAMPLES in data else {}) | places,
        args=arguments,
        **settings,
    )


def parse_argument(word: str) -> tuple[str, Any]:
    """Return the name and the value of a word of `--args`."""
    name, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"--args {word}: write ARGUMENT=VALUE, such as num_train_epochs=1.")
    if name in SET_OTHERWISE:
        raise ValueError(f"--args {name}: the table sets it, or another option, such as --num-runs or --data.")
    return name, read_value(value, word)


@dataclass(frozen=True)
class TableRun:
    """One run of a row's model on a task of a table.

    Attributes:
        options: options of the script by name, except the output folder.
        tests: data options of each further test corpus, by title.
    """

    row: Row
    task: TableTask
    number: int
    options: Mapping[str, Any]
    tests: Mapping[str, Mapping[str, Any]]
    root: Path

    @property
    def key(self) -> tuple[str, str]:
        return self.row.name, self.task.name

    @property
    def name(self) -> str:
        kind = "seed" if self.task.folds is None else "fold"
        return f"{self.row.name}, {self.task.name}, {kind} {self.options[kind]}"

    @property
    def script(self) -> str:
        """Name of the script, also of a measure."""
        return MEASURES[self.task.script][0] if self.task.script in MEASURES else self.task.script.removeprefix("run_")

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
        told = {name: value for name, value in self.options.items() if value != [] and name not in COMMON}
        if self.task.script in MEASURES:
            return f"# {self.task.script} of {command_line(told)}"
        output = f"{self.row.name}-{self.task.name}" + (f"-{self.options['seed']}" if self.task.folds is None else "")
        return f"python {self.task.script}.py {command_line({**told, 'output_dir': output})}"

    def study(self, folder: Path = Path("unused"), **changes: Any) -> Study:
        """Return the command of the run with an output folder, and further options."""
        return Study.of(self.script, {**self.options, "output_dir": str(folder), **changes})


def _content(name: str, value: Any) -> Any:
    """Return the digest of the file or folder that an option names; return other values unchanged."""
    if name == "local_config":
        pairs = [word.partition("=")[::2] for word in value]
        return [[key, _content("backbone", own) if key == "parser" else own] for key, own in pairs]
    is_path = name.endswith("_file") or name in ("backbone", "dataset_name")
    return digest(Path(value)) if is_path and isinstance(value, str) and Path(value).exists() else value


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
        arguments = corpus_arguments(corpora[name], [split], selection.data.get(name))
        file = arguments.pop(f"{split}_file", None)
        tests[title] = arguments if file is None else {**arguments, "test_file": file}
    # A profile reads no data, but the arguments of a script must name a data source.
    where = SAMPLES if task.script == "profile" else selection.data.get(task.corpus)
    there = list(corpora[task.corpus].files)
    predicts = any(score.metric.startswith("predict_") for score in task.scores.values())
    parts = [split for split in there if split != "test" or predicts or task.script == "statistics"]
    needed = parts if task.folds is None else ["train"]  # of folds, missing splits are held out from the training data
    data = corpus_arguments(corpora[task.corpus], needed, where, there if task.folds else ())
    return data | {option: True for split, option in PARTS.items() if task.folds or split in parts}, tests


def _options(row: Row, task: TableTask, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the options of table, task and row, the data options, and the settings of the caller."""
    own = row.recipe(task)
    fields, family = own["local_config"], FAMILIES.get(own["family"])
    if family is not None and "parser" in family.tokenizer_settings:
        given, settings = family.split_fields(fields)
        if settings["parser"] is not None if "parser" in settings else family.needs_parse(family.config(**given)):
            parser = str(tiny_parser()) if selection.parser == "tiny" else selection.parser
            fields = {**fields, "parser": parser or settings.get("parser", DEFAULT_PARSER)}
    own |= {"local_config": format_assignments(fields), "backbone": selection.backbone or own["backbone"]}
    limited = LIMITS.values() if selection.max_samples else ()
    merged = own | dict(data) | dict.fromkeys(limited, selection.max_samples) | selection.args
    return {name: value for name, value in merged.items() if value is not None}


def check_runs(runs: Sequence[TableRun]) -> None:
    """Raise `ValueError` if the options or the parser of a run are wrong. The message names row and task."""
    for key, run in {run.key: run for run in runs}.items():
        try:
            run.study()
            for word in run.options["local_config"]:
                if word.startswith("parser="):
                    load_pipeline(word.removeprefix("parser="))
        except (ValueError, OSError, ImportError) as error:
            raise ValueError(f"{', '.join(key)}: {error}") from None


def device_name() -> str:
    """Return the name of the current GPU, or "CPU"."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def command_line(options: Mapping[str, Any]) -> str:
    """Format options for a shell, without absolute paths. A list becomes several words.

    `$DATA` stands for a folder of data, encoders and parsers. Files of this package are relative to the folder of the
    scripts.
    """
    words, package = [], Path(hf_localattn.__file__).resolve().parent
    for name, own in options.items():
        words.append(f"--{name}")
        for word in map(format_value, own if isinstance(own, list | tuple) else [own]):
            prefix, path = word[: word.find("=") + 1], Path(word.rpartition("=")[2])
            if not path.is_absolute():
                words.append(shlex.quote(word))
            elif path.is_relative_to(package):
                words.append(shlex.quote(f"{prefix}{path.relative_to(package.parent)}"))
            else:
                end = Path(path.parent.name, path.name) if path.is_file() else path.name
                words.append(f'"{prefix}$DATA/{end}"')
    return " ".join(words)
