"""Plan of a table: the list of its runs, each with the arguments of its script."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hf_localattn.data.folds import Fold
from hf_localattn.errors import listed
from hf_localattn.models.tokenization_sla_bert import DEFAULT_PARSER
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_parser
from hf_localattn.studies.results import digest_of, settings_of
from hf_localattn.studies.trial import UNUSED, Trial
from hf_localattn.tasks.splits import LIMITS
from hf_localattn.training.arguments import TrainingArguments
from reproduction.arguments import SCRIPTS, make_trial, to_cli_args, to_command_line
from reproduction.corpora import SAMPLES, corpus_arguments, load_corpora
from reproduction.request import Overrides, Selection
from reproduction.tables import Row, Table, TableTask, recipe_arguments

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
    def fold(self) -> Fold | None:
        """Fold of the data, or None for the splits of the corpus."""
        return None if self.task.folds is None else Fold(self.number, self.task.folds, seed=0)

    @property
    def trains(self) -> bool:
        """True if the run trains a model. Measures do not train."""
        return self.task.script in SCRIPTS

    @cached_property
    def trial(self) -> Trial:
        """The trial of a run that trains.

        Raises:
            ValueError: an argument is unknown, or its value has another type.
        """
        parts = {} if self.fold is None else {"do_eval": True, "do_predict": True}
        return make_trial(self.task.script, {**self.arguments, **parts}, self.seed, self.fold)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings that affect scores, without seed and fold. Files and folders are identified by their content."""
        if self.trains:
            return settings_of(*dataclasses.replace(self.trial, seed=TrainingArguments.seed).arguments(UNUSED))
        # Names of result folders depend on this list of command-line words.
        words = to_cli_args(self.arguments)
        pairs = zip(words, (*words[1:], None), strict=True)
        return {"words": [digest_of(name.removeprefix("--"), value) for name, value in pairs]}

    def with_arguments(self, **changes: Any) -> TableRun:
        """Return the same run with other arguments."""
        return dataclasses.replace(self, arguments={**self.arguments, **changes})

    @property
    def has_ratios(self) -> bool:
        """True if a score is a ratio of times."""
        return any(score.ratio for score in self.task.scores.values())

    @property
    def is_timed(self) -> bool:
        """True if the run measures times and needs the whole machine."""
        return self.has_ratios or not self.trains

    @property
    def command(self) -> str:
        """Command line of the run without absolute paths. For a measure, this is a comment."""
        told, output = to_command_line(self.arguments), f"--output_dir {self.row.name}-{self.task.name}"
        if not self.trains:
            return f"# {self.task.script} of {told}"
        if self.fold is None:
            return f"python {self.task.script}.py {told} --seed {self.seed} {output}-{self.seed}"
        # The seed of fold k is the seed of the cross-validation plus k - 1.
        folds = f"--num_folds {self.fold.count} {output}  # fold {self.number}"
        return f"python {self.task.script}.py {told} --seed {self.fold.seed} {folds}"

    @property
    def name(self) -> str:
        """Name of the run in messages."""
        run = f"seed {self.seed}" if self.fold is None else f"fold {self.number}"
        return f"{self.row.name}, {self.task.name}, {run}"


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
            read = _data_arguments(task, overrides)
            found[task.name] = (
                read,
                {title: _test_arguments(name, overrides) for title, name in task.test_corpora.items()},
            )
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
    return {
        **own,
        "backbone": overrides.backbone or own["backbone"],
        **data,
        **({} if overrides.max_samples is None else dict.fromkeys(LIMITS.values(), overrides.max_samples)),
        **overrides.arguments,
        **{option: True for split, option in PARTS.items() if split in (*needed, *optional)},
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
