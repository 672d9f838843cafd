"""What a table asks to be run: each row, task and seed (or fold) as a command of a training script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hf_localattn.errors import listed
from hf_localattn.families import FAMILIES
from hf_localattn.models.tokenization_sla_bert import DEFAULT_PARSER
from hf_localattn.reproduction.choices import TINY, Choices, quoted, words_of
from hf_localattn.reproduction.corpora import SAMPLES, corpus_arguments, load_corpora
from hf_localattn.reproduction.scripts import SCRIPTS
from hf_localattn.reproduction.tables import Row, Table, Task, setting_of
from hf_localattn.resources import tiny_parser
from hf_localattn.training.folds import Fold
from hf_localattn.training.search_settings import spoken


@dataclass(frozen=True)
class Trial:
    """One run of a row's model on a task.

    Attributes:
        row, task: of the table.
        number: which of the runs, from 1.
        words: the script's arguments but for the folder, the seed and the number of folds.
        tests: for each further test corpus of the task its title and the data arguments that read it.
    """

    row: Row
    task: Task
    number: int
    words: tuple[str, ...]
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
    def command(self) -> str:
        """What runs it, to be read and typed, without a path of this machine; of a measure a comment."""
        told, output = " ".join(map(quoted, self.words)), f"--output_dir {self.row.name}-{self.task.name}"
        if self.task.script not in SCRIPTS:
            return f"# {self.task.script} of {told}"
        if self.fold is None:
            return f"python {self.task.script}.py {told} --seed {self.seed} {output}-{self.seed}"
        # Run k of a cross-validation has its seed and k - 1.
        folds = f"--folds {self.fold.count} {output}  # fold {self.number}"
        return f"python {self.task.script}.py {told} --seed {self.fold.seed} {folds}"

    @property
    def name(self) -> str:
        """As it is called in messages."""
        run = f"seed {self.seed}" if self.fold is None else f"fold {self.number}"
        return f"{self.row.name}, {self.task.name}, {run}"


def plan(table: Table, rows: Sequence[Row], tasks: Sequence[Task], choices: Choices) -> list[Trial]:
    """Return all runs of the rows that can be run, one run of each before the second of any.

    Raises:
        ValueError: the data of some tasks cannot be had; names all of them.
    """
    _check_data([task for task in tasks if any(_runs(row, task) for row in rows)], choices)
    counts = [(task.folds or table.runs) if choices.runs is None else choices.runs for task in tasks]
    for task, count in zip(tasks, counts, strict=True):
        if task.folds is not None and count > task.folds:
            raise ValueError(f"--seeds {count}: {task.name} is a cross-validation of {task.folds} folds, no more.")
    return [
        _trial(table, row, task, number, choices)
        for number in range(1, max(counts, default=0) + 1)
        for row in rows
        for task, count in zip(tasks, counts, strict=True)
        if number <= count and _runs(row, task)
    ]


def _runs(row: Row, task: Task) -> bool:
    return row.family is not None and (row.tasks is None or task.name in row.tasks)


def _check_data(tasks: Sequence[Task], choices: Choices) -> None:
    problems: dict[str, None] = {}  # several tasks may lack the same
    for task in tasks:
        try:
            _data_arguments(task, choices)
            _tests(task, choices)
        except (ValueError, OSError) as error:
            problems[str(error)] = None
    if problems:
        raise ValueError(listed(list(problems)))


def _trial(table: Table, row: Row, task: Task, number: int, choices: Choices) -> Trial:
    setting = setting_of(table, row, task)
    backbone = choices.backbone or setting.backbone
    fields = dict(setting.local_config)
    if row.family in FAMILIES and _parses(FAMILIES[row.family], fields):
        own = str(tiny_parser()) if choices.parser == TINY else choices.parser
        fields["parser"] = own or fields.get("parser", DEFAULT_PARSER)
    model: dict[str, Any] = {"family": row.family, "backbone": backbone}
    if fields:
        model["local_config"] = [f"{name}={spoken(value)}" for name, value in fields.items()]
    needed, optional = needed_splits(task)
    limits = {"train": "max_train_samples", "validation": "max_eval_samples", "test": "max_predict_samples"}
    arguments = {
        **setting.arguments,
        **_data_arguments(task, choices),
        **({} if choices.limit is None else dict.fromkeys(limits.values(), choices.limit)),
        **choices.arguments,
    }
    parts = {"do_train": "train", "do_eval": "validation", "do_predict": "test"}
    arguments |= {option: True for option, split in parts.items() if split in (*needed, *optional)}
    return Trial(row, task, number, tuple(words_of({**model, **arguments})), _tests(task, choices))


def _data_arguments(task: Task, choices: Choices) -> dict[str, Any]:
    """What reads the corpus of a task."""
    corpus = load_corpora()[task.corpus]
    # A profile reads none, but a script wants to be given some.
    where = SAMPLES if task.script == "profile" else choices.where(corpus.name)
    needed, optional = needed_splits(task)
    return corpus_arguments(corpus, needed, where, optional)


def _tests(task: Task, choices: Choices) -> dict[str, dict[str, Any]]:
    """What reads each of its further test corpora, by their titles."""
    return {title: _test_arguments(name, choices) for title, name in task.also.items()}


def _test_arguments(name: str, choices: Choices) -> dict[str, Any]:
    """What reads the test rows of a corpus: all rows, where it has no splits of its own."""
    corpus = load_corpora()[name]
    split = "test" if "test" in corpus.files else "train"
    arguments = corpus_arguments(corpus, [split], choices.where(name))
    file = arguments.pop(f"{split}_file", None)
    return {**arguments, "test_file": file}


def needed_splits(task: Task) -> tuple[list[str], list[str]]:
    """Return the splits of its corpus that a task reads, and those it reads if there are any.

    What there is not folds hold out of the training data.
    """
    there = list(load_corpora()[task.corpus].files)
    if task.folds is not None:
        return ["train"], [split for split in there if split != "train"]
    predicts = any(score.metric.startswith("predict_") for score in task.scores.values())
    needed = there if predicts or task.script == "statistics" else [split for split in there if split != "test"]
    return needed, []


def _parses(family: Any, fields: Mapping[str, Any]) -> bool:
    """Whether the tokenizer of a family needs a parser for a model with these fields."""
    if family.tokenizer is None or "parser" not in family.tokenizer.SETTINGS:
        return False
    own, settings = family.split_fields(dict(fields))
    by_default = "dep_heads" in family.config(**own).needed_inputs
    return settings["parser"] is not None if "parser" in settings else by_default
