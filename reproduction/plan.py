"""Plan of a table: the list of its runs, each with the options of its script."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from hf_localattn.assignments import format_assignments, parse_config_fields
from hf_localattn.errors import listed, loading
from hf_localattn.models.sla_parser import load_pipeline
from hf_localattn.models.tokenization_sla_bert import DEFAULT_PARSER
from hf_localattn.names import PLAIN
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.registry import FAMILIES, get_family
from hf_localattn.resources import tiny_parser
from hf_localattn.studies.study import Study, content_digest
from hf_localattn.tasks import (
    MultipleChoice,
    QuestionAnswering,
    QuestionGeneration,
    Task,
    TextClassification,
    TokenClassification,
)
from hf_localattn.tasks.task import LIMITS
from hf_localattn.training.arguments import ModelArguments, build_arguments
from reproduction.corpora import SAMPLES, corpus_arguments, load_corpora
from reproduction.request import Overrides, Selection, command_line
from reproduction.tables import Row, Table, TableTask, recipe_arguments

SCRIPTS: dict[str, type[Task]] = {
    "run_glue": TextClassification,
    "run_ner": TokenClassification,
    "run_qa": QuestionAnswering,
    "run_qg": QuestionGeneration,
    "run_swag": MultipleChoice,
}
"""The task of each script at the root of the repository."""

COMMON = {"disable_tqdm": True, "log_level": "error", "report_to": "none", "save_total_limit": 1}
"""Options of all runs."""

TINY = "tiny"

PARTS = {"train": "do_train", "validation": "do_eval", "test": "do_predict"}


@dataclass(frozen=True)
class TableRun:
    """One run of a row's model on a task of a table.

    Attributes:
        row: row of the table.
        task: task of the table.
        number: number of the run, from 1.
        arguments: arguments of the script by name, except folder, seed and number of folds. `local_config` is a
            mapping.
        tests: data arguments of each further test corpus, by title.
    """

    row: Row
    task: TableTask
    number: int
    arguments: Mapping[str, Any]
    tests: Mapping[str, Mapping[str, Any]]

    @property
    def key(self) -> tuple[str, str]:
        """Names of row and task."""
        return self.row.name, self.task.name

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.number - 1

    @property
    def trains(self) -> bool:
        """True if the run trains a model. Measures do not train."""
        return self.task.script in SCRIPTS

    @property
    def options(self) -> dict[str, Any]:
        """Options of the script, except the output folder."""
        own = {name: value for name, value in self.arguments.items() if value is not None} | COMMON
        own["local_config"] = format_assignments(self.arguments.get("local_config", {}))
        if self.task.folds is None:
            return {**own, "seed": self.seed}
        return {**own, "seed": 0, "num_folds": self.task.folds, "fold": self.number}

    def study(self, folder: Path, **changes: Any) -> Study:
        """Return the command of the run with an output folder.

        Raises:
            ValueError: an option is unknown, or its value has another type.
        """
        task = SCRIPTS[self.task.script]
        options = {**self.options, "output_dir": str(folder), **changes}
        classes = (ModelArguments, task.DataArguments, task.TrainingArguments)
        model_args, data_args, training_args = build_arguments(classes, options)
        return Study(task, model_args, data_args, training_args, options)

    @property
    def digest(self) -> str:
        """Digest of the options. Files and folders are identified by their content, so that they may move."""
        settings = {
            name: _content(name, value) for name, value in self.options.items() if name not in ("seed", "fold")
        }
        seed = self.seed if self.task.folds is None else None
        text = json.dumps([self.task.script, settings, seed], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def has_ratios(self) -> bool:
        """True if a score is a ratio of times."""
        return any(score.ratio for score in self.task.scores.values())

    @property
    def command(self) -> str:
        """Command line of the run without absolute paths. For a measure, this is a comment."""
        told, output = command_line(self.arguments), f"--output_dir {self.row.name}-{self.task.name}"
        if not self.trains:
            return f"# {self.task.script} of {told}"
        if self.task.folds is None:
            return f"python {self.task.script}.py {told} --seed {self.seed} {output}-{self.seed}"
        folds = f"--num_folds {self.task.folds} --fold {self.number}"
        return f"python {self.task.script}.py {told} --seed 0 {folds} {output}"

    @property
    def name(self) -> str:
        """Name of the run in messages."""
        run = f"seed {self.seed}" if self.task.folds is None else f"fold {self.number}"
        return f"{self.row.name}, {self.task.name}, {run}"


def _content(name: str, value: Any) -> Any:
    """Return the digest of the file or folder that an option names; return other values unchanged."""
    if isinstance(value, list):
        return [_content(name, one) for one in value]
    if name == "local_config" and str(value).startswith("parser="):
        return f"parser={_content('backbone', value.partition('=')[2])}"
    is_path = name.endswith("_file") or name in ("backbone", "dataset_name")
    if not is_path or not isinstance(value, str) or not Path(value).exists():
        return value
    files = [Path(value)] if Path(value).is_file() else sorted(Path(value).rglob("*"))
    return _digest(Path(value), tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@cache
def _digest(path: Path, state: tuple[tuple[Path, int, int], ...]) -> str:
    """Return the digest of a file or folder. `state` is part of the cache's key."""
    return content_digest(path)


def plan(selection: Selection) -> list[TableRun]:
    """Return the runs of all rows that can be run: first run 1 of all rows and tasks, then run 2, and so on.

    Raises:
        ValueError: the data of some tasks is missing. The message names all these tasks.
    """
    table, overrides, tasks = selection.table, selection.overrides, selection.tasks
    data = _data([task for task in tasks if any(_runs(row, task) for row in selection.rows)], overrides)
    counts = {task.name: overrides.num_runs or task.folds or table.runs for task in tasks}
    for task in tasks:
        if task.folds is not None and counts[task.name] > task.folds:
            raise ValueError(
                f"--num-runs {counts[task.name]}: {task.name} is a cross-validation of {task.folds} folds, no more."
            )
    first = []
    for row in selection.rows:
        for task in tasks:
            if _runs(row, task):
                read, tests = data[task.name]
                first.append(TableRun(row, task, 1, _arguments(table, row, task, overrides, read), tests))
    return [
        dataclasses.replace(run, number=number)
        for number in range(1, max(counts.values(), default=0) + 1)
        for run in first
        if number <= counts[run.task.name]
    ]


def check_runs(runs: Sequence[TableRun]) -> None:
    """Check runs as far as possible without data and weights: options, fields, parsers.

    Raises:
        ValueError: some runs cannot be run. The message lists all problems with their rows and tasks.
    """
    problems: dict[str, dict[str, list[str]]] = {}  # tasks by problem and row
    first: dict[tuple[str, str], TableRun] = {}
    for run in runs:
        first.setdefault(run.key, run)
    for (row, task), run in first.items():
        if not run.trains:
            continue
        try:
            _check(run)
        except (ValueError, OSError, ImportError) as error:
            problems.setdefault(str(error), {}).setdefault(row, []).append(task)
    if problems:
        where = {
            problem: ", ".join(f"{row} ({', '.join(tasks)})" for row, tasks in rows.items())
            for problem, rows in problems.items()
        }
        raise ValueError(listed([f"{where[problem]}: {problem}" for problem in problems]))


def _check(run: TableRun) -> None:
    model_args = run.study(Path("unused")).model_args
    generates = SCRIPTS[run.task.script].model_task == "text2text-generation"
    config = _backbone_config(resolve_backbone(model_args.source, generates=generates))
    if model_args.family not in (None, PLAIN):
        family = get_family(str(model_args.family))
        fields, settings = family.split_fields(parse_config_fields(family.name, model_args.local_config))
        family.config(backbone_config=config, **fields)
        if settings.get("parser") is not None:
            try:
                load_pipeline(settings["parser"])
            except (OSError, ValueError) as error:
                raise ValueError(f"{error} Or give another parser with --parser NAME, or --parser tiny.") from None


@cache
def _backbone_config(source: str) -> Any:
    with loading("backbone", source):
        return AutoConfig.from_pretrained(source)


def needed_splits(task: TableTask) -> tuple[list[str], list[str]]:
    """Return the required and the optional splits of a task.

    With folds, missing splits are held out from the training data.
    """
    there = list(load_corpora()[task.corpus].files)
    if task.folds is not None:
        return ["train"], [split for split in there if split != "train"]
    predicts = any(score.metric.startswith("predict_") for score in task.scores.values())
    needed = there if predicts or task.script == "statistics" else [split for split in there if split != "test"]
    return needed, []


def _runs(row: Row, task: TableTask) -> bool:
    return row.family is not None and (row.tasks is None or task.name in row.tasks)


def _data(
    tasks: Sequence[TableTask], overrides: Overrides
) -> dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """Return the data arguments of each task, and the data arguments of its further test corpora by title."""
    found = {}
    problems: dict[str, None] = {}  # a dictionary, because several tasks may have the same problem
    for task in tasks:
        try:
            tests = {title: _test_arguments(name, overrides) for title, name in task.test_corpora.items()}
            found[task.name] = (_data_arguments(task, overrides), tests)
        except (ValueError, OSError) as error:
            problems[str(error)] = None
    if problems:
        raise ValueError(listed(list(problems)))
    return found


def _arguments(
    table: Table, row: Row, task: TableTask, overrides: Overrides, data: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge the arguments of table, task and row, the data arguments, and the overrides."""
    own = recipe_arguments(table, row, task)
    fields = own["local_config"]
    if row.family in FAMILIES and _parses(FAMILIES[row.family], fields):
        parser = str(tiny_parser()) if overrides.parser == TINY else overrides.parser
        own["local_config"] = {**fields, "parser": parser or fields.get("parser", DEFAULT_PARSER)}
    needed, optional = needed_splits(task)
    parts = PARTS if task.folds is not None else (*needed, *optional)
    return {
        **own,
        "backbone": overrides.backbone or own["backbone"],
        **data,
        **({} if overrides.max_samples is None else dict.fromkeys(LIMITS.values(), overrides.max_samples)),
        **overrides.arguments,
        **{option: True for split, option in PARTS.items() if split in parts},
    }


def _data_arguments(task: TableTask, overrides: Overrides) -> dict[str, Any]:
    """Return the data arguments of a task."""
    corpus = load_corpora()[task.corpus]
    # A profile reads no data, but the arguments of a script must name a data source.
    where = SAMPLES if task.script == "profile" else overrides.where(corpus.name)
    needed, optional = needed_splits(task)
    return corpus_arguments(corpus, needed, where, optional)


def _test_arguments(name: str, overrides: Overrides) -> dict[str, Any]:
    """Return the data arguments of a further test corpus. Without a test split, all its rows are test rows."""
    corpus = load_corpora()[name]
    split = "test" if "test" in corpus.files else "train"
    arguments = corpus_arguments(corpus, [split], overrides.where(name))
    file = arguments.pop(f"{split}_file", None)
    return {**arguments, "test_file": file}


def _parses(family: Any, fields: Mapping[str, Any]) -> bool:
    """Return True if the tokenizer of a family needs a parser for a model with these fields."""
    if "parser" not in family.tokenizer_settings:
        return False
    own, settings = family.split_fields(dict(fields))
    by_default = family.needs_parse(family.config(**own))
    return settings["parser"] is not None if "parser" in settings else by_default
