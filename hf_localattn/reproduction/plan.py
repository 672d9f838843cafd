"""The plan of a table: what is asked for as a list of runs, each with the arguments of its script by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_localattn.data.folds import Fold
from hf_localattn.errors import listed
from hf_localattn.families import FAMILIES
from hf_localattn.models.tokenization_sla_bert import DEFAULT_PARSER
from hf_localattn.reproduction.cli_args import to_command_line
from hf_localattn.reproduction.corpora import SAMPLES, corpus_arguments, load_corpora
from hf_localattn.reproduction.scripts import SCRIPTS
from hf_localattn.reproduction.tables import Row, Table, Task, recipe_arguments
from hf_localattn.resources import tiny_parser
from hf_localattn.tasks.splits import LIMITS

TINY = "tiny"

PARTS = {"train": "do_train", "validation": "do_eval", "test": "do_predict"}


@dataclass(frozen=True)
class Overrides:
    """Settings of the caller that replace those of the recipe.

    Attributes:
        backbone: of all rows, a Hub id, a folder or "tiny".
        parser: the spaCy pipeline of the rows that parse; "tiny" for the one that ships.
        runs: how many seeds, or folds of the recipe's number.
        limit: rows of each split, at most.
        data: folders by the names of corpora, or `SAMPLES`; the key "" is for all that are not named.
        also: further test corpora, by their titles; by default all of the task's.
        arguments: of the scripts, by name, such as `num_train_epochs`; None takes one away.
    """

    backbone: str | None = None
    parser: str | None = None
    runs: int | None = None
    limit: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def where(self, corpus: str) -> str | None:
        """Return the folder of a corpus, `SAMPLES`, or None for the Hub."""
        return self.data.get(corpus, self.data.get(""))

    def as_data(self) -> dict[str, Any]:
        """Return the overrides for a file of results, without the folders of this machine."""
        found = dataclasses.asdict(self)
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
    tasks: Sequence[Task]
    overrides: Overrides

    @property
    def command(self) -> str:
        """The command that asks for it, without the folders of this machine."""
        own = self.overrides
        options: dict[str, Any] = {
            "rows": None if len(self.rows) == len(self.table.rows) else [row.name for row in self.rows],
            "tasks": None if len(self.tasks) == len(self.table.tasks) else [task.name for task in self.tasks],
            "num-runs": own.runs,
            "max-samples": own.limit,
            "backbone": own.backbone,
            "parser": own.parser,
            "data": [f"{name}={where}" if name else where for name, where in own.data.items()] or None,
            "test-corpora": own.also,
            "args": own.arguments,
        }
        return f"hf-localattn reproduce {self.table.name} {to_command_line(options)}".rstrip()

    def with_rows(self, names: set[str]) -> Selection:
        """Return the same selection of other rows."""
        return dataclasses.replace(self, rows=[row for row in self.table.rows.values() if row.name in names])


@dataclass(frozen=True)
class Trial:
    """One run of a row's model on a task.

    Attributes:
        row, task: of the table.
        number: number of the run, from 1.
        arguments: of the script, by name, without the folder, the seed and the number of folds; `local_config` is a
            mapping.
        tests: for each further test corpus of the task its title and the data arguments that read it.
    """

    row: Row
    task: Task
    number: int
    arguments: Mapping[str, Any]
    tests: Mapping[str, Mapping[str, Any]]

    @property
    def key(self) -> tuple[str, str]:
        """Names of row and task, which all its runs share."""
        return self.row.name, self.task.name

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.number - 1

    @property
    def fold(self) -> Fold | None:
        """The part of the data that it works on, None for the corpus's own splits."""
        return None if self.task.folds is None else Fold(self.number, self.task.folds, seed=0)

    @property
    def is_timed(self) -> bool:
        """True if it measures times, and so needs the machine for itself."""
        return self.task.script not in SCRIPTS or any(score.ratio for score in self.task.scores.values())

    @property
    def command(self) -> str:
        """A command that runs it, without a path of this machine; for a measure a comment."""
        told, output = to_command_line(self.arguments), f"--output_dir {self.row.name}-{self.task.name}"
        if self.task.script not in SCRIPTS:
            return f"# {self.task.script} of {told}"
        if self.fold is None:
            return f"python {self.task.script}.py {told} --seed {self.seed} {output}-{self.seed}"
        # Run k of a cross-validation has its seed and k - 1.
        folds = f"--folds {self.fold.count} {output}  # fold {self.number}"
        return f"python {self.task.script}.py {told} --seed {self.fold.seed} {folds}"

    @property
    def name(self) -> str:
        """Its name in messages."""
        run = f"seed {self.seed}" if self.fold is None else f"fold {self.number}"
        return f"{self.row.name}, {self.task.name}, {run}"


def plan(selection: Selection) -> list[Trial]:
    """Return all runs of the rows that can be run, one run of each before the second of any.

    Raises:
        ValueError: the data of some tasks cannot be had; names all of them.
    """
    table, overrides, tasks = selection.table, selection.overrides, selection.tasks
    data = _data([task for task in tasks if any(_runs(row, task) for row in selection.rows)], overrides)
    counts = {task.name: overrides.runs or task.folds or table.runs for task in tasks}
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
                first.append(Trial(row, task, 1, _arguments(table, row, task, overrides, read), tests))
    return [
        dataclasses.replace(trial, number=number)
        for number in range(1, max(counts.values(), default=0) + 1)
        for trial in first
        if number <= counts[trial.task.name]
    ]


def needed_splits(task: Task) -> tuple[list[str], list[str]]:
    """Return the splits of its corpus that a task reads, and those it reads if there are any.

    Splits that are not there are held out of the training data by the folds.
    """
    there = list(load_corpora()[task.corpus].files)
    if task.folds is not None:
        return ["train"], [split for split in there if split != "train"]
    predicts = any(score.metric.startswith("predict_") for score in task.scores.values())
    needed = there if predicts or task.script == "statistics" else [split for split in there if split != "test"]
    return needed, []


def _runs(row: Row, task: Task) -> bool:
    return row.family is not None and (row.tasks is None or task.name in row.tasks)


def _data(tasks: Sequence[Task], overrides: Overrides) -> dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """Return for each task the arguments that read its data, and those of its further test corpora by their titles."""
    found = {}
    problems: dict[str, None] = {}  # several tasks may lack the same
    for task in tasks:
        try:
            read = _data_arguments(task, overrides)
            found[task.name] = read, {title: _test_arguments(name, overrides) for title, name in task.also.items()}
        except (ValueError, OSError) as error:
            problems[str(error)] = None
    if problems:
        raise ValueError(listed(list(problems)))
    return found


def _arguments(table: Table, row: Row, task: Task, overrides: Overrides, data: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the arguments of table, task and row, those that read the data, and the overrides."""
    own = recipe_arguments(table, row, task)
    fields = own["local_config"]
    if row.family in FAMILIES and _parses(FAMILIES[row.family], fields):
        parser = str(tiny_parser()) if overrides.parser == TINY else overrides.parser
        own["local_config"] = {**fields, "parser": parser or fields.get("parser", DEFAULT_PARSER)}
    needed, optional = needed_splits(task)
    return {
        **own,
        "backbone": overrides.backbone or own["backbone"],
        **data,
        **({} if overrides.limit is None else dict.fromkeys(LIMITS.values(), overrides.limit)),
        **overrides.arguments,
        **{option: True for split, option in PARTS.items() if split in (*needed, *optional)},
    }


def _data_arguments(task: Task, overrides: Overrides) -> dict[str, Any]:
    """Return the arguments that read the corpus of a task."""
    corpus = load_corpora()[task.corpus]
    # A profile reads none, but a script wants to be given some.
    where = SAMPLES if task.script == "profile" else overrides.where(corpus.name)
    needed, optional = needed_splits(task)
    return corpus_arguments(corpus, needed, where, optional)


def _test_arguments(name: str, overrides: Overrides) -> dict[str, Any]:
    """Return the arguments that read the test rows of a corpus: all rows, where it has no splits of its own."""
    corpus = load_corpora()[name]
    split = "test" if "test" in corpus.files else "train"
    arguments = corpus_arguments(corpus, [split], overrides.where(name))
    file = arguments.pop(f"{split}_file", None)
    return {**arguments, "test_file": file}


def _parses(family: Any, fields: Mapping[str, Any]) -> bool:
    """True if the tokenizer of a family needs a parser for a model with these fields."""
    if family.tokenizer is None or "parser" not in family.tokenizer.SETTINGS:
        return False
    own, settings = family.split_fields(dict(fields))
    by_default = "dep_heads" in family.config(**own).required_inputs
    return settings["parser"] is not None if "parser" in settings else by_default
