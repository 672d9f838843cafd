"""Plan of a table: the list of its runs, each with the options of its script."""

from __future__ import annotations

import hashlib
import itertools
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
from hf_localattn.families import FAMILIES
from hf_localattn.models.sla_parser import load_pipeline
from hf_localattn.names import default_settings
from hf_localattn.parsing import format_assignments, format_value, read_value
from hf_localattn.resources import tiny_parser
from hf_localattn.settings.data import DATA_ARGUMENTS
from hf_localattn.settings.stock import all_options
from hf_localattn.settings.training import NewGenerationArguments
from hf_localattn.studies.script_command import ScriptCommand, content_digest
from hf_localattn.tasks.task import LIMITS, PARTS
from reproduction.corpora import SAMPLES, corpus_arguments, load_corpora
from reproduction.measures import MEASURES, UNREAD
from reproduction.tables import Row, Table, TableTask, check_names, load_table

COMMON = {"disable_tqdm": True, "log_level": "error", "report_to": "none", "save_total_limit": 1}
"""Options of all runs."""

UNUSUAL = "[^A-Za-z0-9]+"
"""Characters that are replaced in names of folders."""

OPTIONS = all_options(*DATA_ARGUMENTS.values(), NewGenerationArguments)

SET_OTHERWISE = {name for name, option in OPTIONS.items() if option.planned or not option.shared}
"""Arguments that `--args` does not accept."""

digest = cache(content_digest)


@dataclass
class Selection:
    """Rows and tasks of a table, with options of `python -m reproduction` that replace settings of the table.

    Attributes:
        command: Command line of the selection, without absolute paths.
        data: Folder of each corpus, or `SAMPLES`, by name. Other corpora are read from the Hub.
        args: Arguments of the scripts. None removes an argument.
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

    @property
    def encoder(self) -> str | None:
        """Name of the encoder that replaces another one of the paper's, or None."""
        name = "" if self.backbone is None else Path(self.backbone).name
        is_other = any(Path(str(recipe["backbone"])).name != name for recipe in self.recipes)
        return name if name and is_other else None

    @property
    def recipes(self) -> list[dict[str, Any]]:
        """Recipes of the rows that can be run, for each task."""
        pairs = itertools.product(self.rows, self.tasks)
        return [row.recipe(task) for row, task in pairs if row.family is not None]


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
        ValueError: An option has an invalid value.
    """
    table = load_table(name)
    check_names(rows or (), table.rows, f"{name} has no row")
    check_names(tasks or (), table.tasks, f"{name} has no task")
    chosen = [task for task in table.tasks.values() if tasks is None or task.name in tasks]
    if test_corpora is not None:
        titles = dict.fromkeys(title for task in chosen for title in task.test_corpora)
        check_names(test_corpora, titles, f"--test-corpora: {name} has no further corpus")
        for task in chosen:
            corpora = task.test_corpora.items()
            task.test_corpora = {title: corpus for title, corpus in corpora if title in test_corpora}
    folders = _folders([word for word in data if word != SAMPLES], name, chosen)
    arguments = dict(map(parse_argument, args))
    options: dict[str, Any] = {"rows": rows, "tasks": tasks, **settings}
    samples = [SAMPLES] if SAMPLES in data else []
    options["data"] = [*samples, *map("=".join, folders.items())] or None
    options["test_corpora"] = test_corpora
    options["args"] = format_assignments(arguments) or None
    words = {key.replace("_", "-"): value for key, value in options.items() if value is not None}
    selection = Selection(
        table=table,
        rows=[row for row in table.rows.values() if rows is None or row.name in rows],
        tasks=chosen,
        command=f"python -m reproduction {name} {format_options(words)}".rstrip(),
        data=(dict.fromkeys(load_corpora(), SAMPLES) if samples else {}) | folders,
        args=arguments,
        **settings,
    )
    if selection.encoder is not None:
        table.rename_encoder(selection.encoder)
    return selection


def _folders(words: Sequence[str], table: str, tasks: Sequence[TableTask]) -> dict[str, str]:
    """Return the folder of each corpus in words CORPUS=FOLDER."""
    folders: dict[str, str] = {}
    for word in words:
        corpus, _, folder = word.partition("=")
        if not folder:
            raise ValueError(f"--data {word}: write CORPUS=FOLDER, or {SAMPLES}.")
        if corpus not in load_corpora():
            corpora = dict.fromkeys(name for task in tasks for name in (task.corpus, *task.test_corpora.values()))
            raise ValueError(f"--data {word}: there is no corpus {corpus!r}. {table} reads {', '.join(corpora)}.")
        folders[corpus] = folder if folder == SAMPLES else str(Path(folder).expanduser().resolve())
    return folders


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
        index: Index of the run, from 1.
        options: Options of the script by name, except the output folder.
        tests: Data options of each further test corpus, by title.
    """

    row: Row
    task: TableTask
    index: int
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
        return script_of(self.task)

    @property
    def has_ratios(self) -> bool:
        """True if a score is a ratio of times."""
        return any(score.ratio for score in self.task.scores.values())

    @cached_property
    def folder(self) -> Path:
        """Folder of the results. Runs with the same options have the same one, in any table, except for times.

        Files and folders are known by their content, so that they may move.
        """
        options = {name: _content(name, value) for name, value in self.options.items() if name != "fold"}
        text = json.dumps([self.task.script, options], sort_keys=True, default=str)
        name = f"{self.task.script}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if self.has_ratios:
            name += f"-{re.sub(UNUSUAL, '-', device_name())}"
        folder = self.root / name
        return folder / f"fold-{self.index}" if self.task.folds else folder

    @property
    def command(self) -> str:
        """Command line of the run without absolute paths. For a measure, this is a comment."""
        options = {name: value for name, value in self.options.items() if value != [] and name not in COMMON}
        if self.task.script in MEASURES:
            return f"# {self.task.script} of {format_options(options)}"
        output = f"{self.row.name}-{self.task.name}"
        if self.task.folds is None:
            output += f"-{self.options['seed']}"
        return f"python {self.task.script}.py {format_options({**options, 'output_dir': output})}"

    def script_command(self, folder: Path = Path("unused"), **changes: Any) -> ScriptCommand:
        """Return the command of the run with an output folder, and further options."""
        return ScriptCommand.of(self.script, {**self.options, "output_dir": str(folder), **changes})


def script_of(task: TableTask) -> str:
    """Return the name of the script of a task, also of a measure."""
    if task.script in MEASURES:
        script, _ = MEASURES[task.script]
        return script
    return task.script.removeprefix("run_")


def tokenizer_settings(options: Mapping[str, Any]) -> list[str]:
    """Return the settings of the tokenizer, such as the parser, which a checkpoint does not have."""
    family = FAMILIES.get(options["family"])
    names = () if family is None else family.tokenizer_settings
    return [word for word in options["local_config"] if word.partition("=")[0] in names]


def _content(name: str, value: Any) -> Any:
    """Return the digest of the file or folder that an option names; return other values unchanged."""
    if name == "local_config":
        pairs = []
        for word in value:
            key, _, setting = word.partition("=")
            pairs.append([key, _content(key, setting)])
        return pairs
    may_be_path = name.endswith("_file") or name in ("backbone", "dataset_name", "parser")
    is_path = may_be_path and isinstance(value, str) and Path(value).exists()
    return digest(Path(value)) if is_path else value


def plan(selection: Selection, root: Path = Path("runs")) -> list[TableRun]:
    """Return the runs of all rows that can be run: first run 1 of all rows and tasks, then run 2, and so on.

    `root` is the folder of all runs. If the data of some tasks is missing, a `ValueError` names all these tasks.
    """
    runs: list[TableRun] = []
    problems: dict[str, None] = {}  # several tasks may have the same problem
    for task in selection.tasks:
        rows = [row for row in selection.rows if row.family is not None and task.name in (row.tasks or [task.name])]
        count = selection.num_runs or task.folds or selection.table.runs
        if task.folds is not None and count > task.folds:
            raise ValueError(f"--num-runs {count}: {task.name} is a cross-validation of {task.folds} folds, no more.")
        if not rows:
            continue
        try:
            data = data_of(task, selection)
            tests = _test_data(task, selection)
        except (ValueError, OSError) as error:
            problems[str(error)] = None
            continue
        for row in rows:
            common = {**options_of(row, task, selection, data), **COMMON}
            for index in range(1, count + 1):
                options = {**common, "seed": index - 1}
                if task.folds is not None:
                    options |= {"seed": 0, "num_folds": task.folds, "fold": index}
                runs.append(TableRun(row, task, index, options, tests, root))
    if problems:
        raise ValueError(" ".join(problems))
    rows = selection.rows
    return sorted(runs, key=lambda run: (run.index, rows.index(run.row), selection.tasks.index(run.task)))


def data_of(task: TableTask, selection: Selection) -> dict[str, Any]:
    """Return the data options of a task."""
    corpus = load_corpora()[task.corpus]
    # These measures read no data, but the arguments of a script must name a data source.
    folder = SAMPLES if task.script in UNREAD else selection.data.get(task.corpus)
    if task.folds is not None:  # missing splits are held out from the training data
        options = corpus_arguments(corpus, ["train"], folder, list(corpus.files))
        return options | {f"do_{part}": True for part in PARTS.values()}
    splits = list(corpus.files)
    predicts = any(score.metric.startswith("predict_") for score in task.scores.values())
    if "test" in splits and not predicts and task.script != "statistics":
        splits.remove("test")
    options = corpus_arguments(corpus, splits, folder)
    for split, part in PARTS.items():
        if split in splits:
            options[f"do_{part}"] = True
    return options


def _test_data(task: TableTask, selection: Selection) -> dict[str, dict[str, Any]]:
    """Return the data options of the further test corpora of a task, by title."""
    tests: dict[str, dict[str, Any]] = {}
    for title, name in task.test_corpora.items():
        corpus = load_corpora()[name]
        split = "test" if "test" in corpus.files else "train"  # without a test split, all rows are test rows
        options = corpus_arguments(corpus, [split], selection.data.get(name))
        if f"{split}_file" in options:
            options["test_file"] = options.pop(f"{split}_file")
        tests[title] = options
    return tests


def options_of(row: Row, task: TableTask, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the options of table, task and row, the data options, and the settings of the caller."""
    options = row.recipe(task)
    fields = options["local_config"]
    if _needs_parser(options["family"], fields):
        parser = str(tiny_parser()) if selection.parser == "tiny" else selection.parser
        parser = parser or fields.get("parser", default_settings(options["family"])["parser"])
        fields = {**fields, "parser": parser}
    options["local_config"] = format_assignments(fields)
    options["backbone"] = selection.backbone or options["backbone"]
    options |= data
    if selection.max_samples:
        options |= dict.fromkeys(LIMITS.values(), selection.max_samples)
    options |= selection.args
    return {name: value for name, value in options.items() if value is not None}


def _needs_parser(name: str, settings: dict[str, Any]) -> bool:
    """Return True if a model with these settings parses its texts. The parser null stands for no parser."""
    family = FAMILIES.get(name)
    if family is None or "parser" not in family.tokenizer_settings:
        return False
    if "parser" in settings:
        return settings["parser"] is not None
    fields, _ = family.split_fields(settings)
    return family.needs_parse(family.config(**fields))


def check_runs(runs: Sequence[TableRun]) -> None:
    """Raise `ValueError` if the options or the parser of a run are wrong. The message names row and task."""
    for key, run in {run.key: run for run in runs}.items():
        try:
            run.script_command()
            for word in run.options["local_config"]:
                if word.startswith("parser="):
                    load_pipeline(word.removeprefix("parser="))
        except (ValueError, OSError, ImportError) as error:
            raise ValueError(f"{', '.join(key)}: {error}") from None


def device_name() -> str:
    """Return the name of the current GPU, or "CPU"."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def format_options(options: Mapping[str, Any]) -> str:
    """Format options for a shell, without absolute paths. A list becomes several words."""
    words = []
    for name, value in options.items():
        words.append(f"--{name}")
        values = value if isinstance(value, list | tuple) else [value]
        words += map(_format_word, map(format_value, values))
    return " ".join(words)


def _format_word(word: str) -> str:
    """Format a word for a shell, with a relative path.

    `$DATA` stands for a folder of data, encoders and parsers. Files of this package are relative to the folder of the
    scripts.
    """
    package = Path(hf_localattn.__file__).resolve().parent
    prefix = word[: word.find("=") + 1]
    path = Path(word.rpartition("=")[2])
    if not path.is_absolute():
        return shlex.quote(word)
    if path.is_relative_to(package):
        return shlex.quote(f"{prefix}{path.relative_to(package.parent)}")
    end = Path(path.parent.name, path.name) if path.is_file() else path.name
    return f'"{prefix}$DATA/{end}"'
