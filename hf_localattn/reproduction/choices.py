"""What of which table is run, and what is otherwise than in its recipe."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_localattn.reproduction.corpora import SAMPLES
from hf_localattn.reproduction.tables import Row, Table, Task
from hf_localattn.training.search_settings import spoken

TINY = "tiny"
PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Choices:
    """What the caller has otherwise than the recipe.

    Attributes:
        backbone: of all rows, a Hub id, a folder or "tiny".
        parser: the spaCy pipeline of the rows that parse; "tiny" for the one that ships.
        runs: how many seeds, or folds of the recipe's number.
        limit: rows of each split, at most.
        data: folders by the names of corpora, or `SAMPLES`; the key "" is for all that are not named.
        also: which further test corpora, by their titles; by default all of the task's.
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
        """Return the choices for a file of results, without the folders of this machine."""
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
    """Rows and tasks of a table, with choices."""

    table: Table
    rows: Sequence[Row]
    tasks: Sequence[Task]
    choices: Choices

    def command(self) -> str:
        """Return the command that asks for it, without the folders of this machine."""
        choices = self.choices
        options: dict[str, Any] = {
            "rows": None if len(self.rows) == len(self.table.rows) else [row.name for row in self.rows],
            "tasks": None if len(self.tasks) == len(self.table.tasks) else [task.name for task in self.tasks],
            "seeds": choices.runs,
            "limit": choices.limit,
            "backbone": choices.backbone,
            "parser": choices.parser,
            "data": [f"{name}={where}" if name else where for name, where in choices.data.items()] or None,
            "also": None if choices.also is None else list(choices.also),
            "set": [f"{name}={spoken(value)}" for name, value in choices.arguments.items()] or None,
        }
        return " ".join(["hf-localattn", "reproduce", self.table.name, *map(quoted, words_of(options))])


def words_of(arguments: Mapping[str, Any]) -> list[str]:
    """Return arguments as they are given to a command; those that are None are not."""
    words = []
    for name, value in arguments.items():
        if value is None:
            continue
        values = value if isinstance(value, list | tuple) else [value]
        words += [f"--{name}", *map(spoken, values)]
    return words


def with_options(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return words of a command with some options otherwise, or besides."""
    options: dict[str, list[str]] = {}
    for part in (words, others):
        own: dict[str, list[str]] = {}
        for word in part:
            if word.startswith("--"):
                values = own[word] = []
            else:
                values.append(word)
        options |= own
    return [word for name, values in options.items() for word in (name, *values)]


def portable(word: str) -> str:
    """Return a word of a command without the folders of this machine.

    `$DATA` is one that has all folders of data, encoders and parsers; what ships is where the scripts are.
    """
    name, equals, value = word.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return word
    if path.is_relative_to(PACKAGE):
        return f"{name}{equals}{path.relative_to(PACKAGE.parent)}"
    end = Path(path.parent.name, path.name) if path.is_file() else path.name
    return f"{name}{equals}$DATA/{end}"


def quoted(word: str) -> str:
    """Return a word for a shell; `$DATA` stays a variable."""
    told = portable(word)
    return f'"{told}"' if "$" in told else shlex.quote(told)
