"""The papers' tables as data: models, tasks, scores and published numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BeforeValidator, PositiveInt

from hf_localattn.families import FAMILIES
from reproduction.corpora import FOLDER, Entry, named
from reproduction.reductions import REDUCTIONS

E = TypeVar("E", bound=Entry)
Named = Annotated[dict[str, E], BeforeValidator(named)]

PAPERS = tuple(name.partition("-")[0] for name in FAMILIES)
"""Prefixes of table names, in the order of the papers."""

ROW_DEFAULTS = ("backbone", "family", "baseline")
"""Keys of a table with the defaults of its rows."""

TASK_DEFAULTS = ("scores", "arguments")
"""Keys of a table with the defaults of its tasks."""

LEVELS = ("group", "row", "train", "test", "run")
"""Levels of scores: group of rows, row, titles of the corpora for training and test, index of the run."""

ENCODERS = re.compile(r"(AL|Ro)?BERT(a|-large|-Bahasa)?|XLNet|ProphetNet")
"""Names of the papers' encoders in titles."""


class Score(Entry):
    """A column of a table. A text stands for the metric alone.

    Attributes:
        metric: Name of the metric in `all_results.json` of a script, such as "eval_f1" or "predict_f1";
            or "train_seconds_per_epoch"; or a metric of the measures "profile" and "statistics".
        scale: Factor that converts the measured value to the paper's unit, such as 100 for a percentage.
        ratio: Show published and measured values, such as times, as ratios to the row's baseline.
        digits: Number of decimals that are shown.
    """

    metric: str
    scale: float = 1.0
    ratio: bool = False
    digits: int = 2


class TableTask(Entry):
    """A task of a table: training on a corpus, with its scores.

    Attributes:
        script: Training script, or a measure without training: "size" (parameters), "profile" (also times) or
            "statistics" (lengths of texts).
        arguments: Arguments of the script by name, in addition to the table's.
        folds: Number of folds of the paper's cross-validation. By default, runs differ only in their seed.
        search: The paper's grid, in the format of the scripts' `--search_space` files.
        test_corpora: Names of further corpora to test the trained model on, by title.
        local_config: Fields of the family's configuration for all rows that do not set them.
        backbones: Replacements of the rows' backbones for this task (SLA uses the cased BERT if capitals matter).
    """

    title: str
    script: Literal["run_qa", "run_glue", "run_ner", "run_swag", "run_qg", "size", "profile", "statistics"]
    corpus: str
    scores: Named[Score] = {}
    arguments: dict[str, Any] = {}
    folds: PositiveInt | None = None
    search: dict[str, Any] = {}
    test_corpora: dict[str, str] = {}
    local_config: dict[str, Any] = {}
    backbones: dict[str, str] = {}

    def on_corpora(self, name: str) -> dict[str, Score]:
        """Return a score on the test data of the task, and on its further test corpora, by the corpus's title."""
        score = self.scores[name]
        scores = {self.title: score}
        for title in self.test_corpora:
            names = {"name": f"{name} on {title}", "metric": f"{score.metric}@{title}"}
            scores[title] = score.model_copy(update=names)
        return scores

    @property
    def all_scores(self) -> list[Score]:
        """Scores of the task and of its further test corpora."""
        scores: list[Score] = []
        for name in self.scores:
            scores += self.on_corpora(name).values()
        return scores


class Row(Entry):
    """A row of a table: a model, or numbers that the paper quotes.

    Attributes:
        family: Family of the model. "baseline" is the backbone alone; None means that the row cannot be run.
        local_config: Fields of the family's configuration and settings of its tokenizer.
        baseline: Name of the row to compare with.
        published: Printed numbers of each task, in the order of its scores and in the paper's unit. None if
            missing. In a file, a number stands for a list, and a table with one task has no mapping.
        reason: Reason why the row cannot be run.
        tasks: Names of the row's tasks. Defaults to all tasks of the table.
        group: Title that rows share which a derived column may reduce. Defaults to the row's own title.
    """

    title: str
    family: str | None = None
    backbone: str | None = None
    local_config: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    baseline: str | None = None
    published: dict[str, list[float | None]] = {}
    reason: str | None = None
    tasks: list[str] | None = None
    group: str = ""

    def printed(self, task: TableTask, score: str) -> float | None:
        """Return the published number, or None if the paper does not print this number."""
        numbers = self.published.get(task.name, ())
        return dict(zip(task.scores, numbers, strict=False)).get(score)

    def recipe(self, task: TableTask) -> dict[str, Any]:
        """Merge the arguments of task and row. Arguments of the row take precedence.

        `local_config` is a mapping. Arguments of data and seed are not included.
        """
        return {
            "family": self.family,
            "backbone": task.backbones.get(str(self.backbone), self.backbone),
            "local_config": {**task.local_config, **self.local_config},
            **task.arguments,
            **self.arguments,
        }


class Derived(Entry):
    """A column of a table that is computed from its scores.

    The scores have the levels in `LEVELS`. The steps reduce "train", and may reduce the others but "group".

    Attributes:
        score: Name of the score in all selected tasks; or the name by task, and then all of these tasks are needed.
        steps: Reductions in their order, each the name of one of `REDUCTIONS` and its levels, as "mean train test".
        digits: Number of decimals that are shown.
    """

    score: str | dict[str, str]
    steps: list[str]
    digits: int = 2

    @property
    def keeps_runs(self) -> bool:
        """True if no step reduces the runs."""
        return not any("run" in step.split()[1:] for step in self.steps)

    def scores_of(self, tasks: Iterable[str]) -> dict[str, str]:
        """Return the name of the score by task."""
        return self.score if isinstance(self.score, dict) else dict.fromkeys(tasks, self.score)


class Figure(Entry):
    """A figure of the scores of runs, or of what trained models attend to.

    Attributes:
        kind: Of scores, "bars" has a bar for each task, the difference between the scores of a series' first and
            second row, as a mean over all test corpora; "curve" has a point for each row, at its value of a field;
            "learning_curve" has a point for each task, at its value of an argument, and each of its series is one
            row. Of models, "gates" has a point for each layer, "maps" are attention between tokens, and "weights" are
            weights of tokens.
        score: Name of the score.
        series: Rows of each series, by title.
        x: Name of the field or argument, such as "max_train_samples".
        task: Task whose score a curve shows.
        levels: Rows that a curve shows as horizontal lines, by title.
        texts: Texts, or pairs of texts, that models read. "gates" are those of the evaluation data of the tasks.
        labels: True class of each text, for titles with the predictions of the models.
        classes: Titles of the models' labels.
    """

    kind: Literal["bars", "curve", "learning_curve", "gates", "maps", "weights"]
    score: str = ""
    series: dict[str, list[str]] = {}
    x: str = ""
    x_label: str = ""
    task: str = ""
    levels: dict[str, str] = {}
    texts: list[str | list[str]] = []
    labels: list[str] = []
    classes: dict[str, str] = {}

    @property
    def is_of_models(self) -> bool:
        return self.kind in ("gates", "maps", "weights")


class Note(Entry):
    """A note below a table. It is shown with some of its `rows` and some of its `tasks`, by default with any.

    Attributes:
        recipe: The note holds for the recipe as it is, not with other arguments or another encoder.
    """

    text: str
    rows: list[str] = []
    tasks: list[str] = []
    recipe: bool = False


def _as_notes(notes: list[Any]) -> list[Any]:
    return [{"text": note} if isinstance(note, str) else note for note in notes]


class Table(Entry):
    """A table, a figure whose points are runs, or a study of this package, which has no published numbers.

    A file also has the defaults of rows and tasks, and with `like` the name of a table that it extends.

    Attributes:
        source: The paper, and the number of the table in it.
        tasks, rows: In the paper's order.
        runs: Number of seeds that the paper averages over. 1 if the paper does not state it.
        notes: Differences from the paper with their reasons, and facts that the paper does not state.
        figure: How a figure is drawn. None for a table.
        derived: Columns that are computed from the scores.
        only_derived: Show only the derived columns.
    """

    title: str
    source: str
    tasks: Named[TableTask] = {}
    rows: Named[Row] = {}
    runs: PositiveInt = 1
    notes: Annotated[list[Note], BeforeValidator(_as_notes)] = []
    figure: Figure | None = None
    derived: Named[Derived] = {}
    only_derived: bool = False

    def rename_encoder(self, name: str) -> None:
        """Name the rows that are run after another encoder than the paper's."""
        for row in self.rows.values():
            if row.family is not None:
                row.title = ENCODERS.sub(name, row.title)
                row.group = ENCODERS.sub(name, row.group)
        if self.figure is not None:
            levels = self.figure.levels.items()
            self.figure.levels = {ENCODERS.sub(name, title): row for title, row in levels}


def table_names() -> list[str]:
    """Return the names of all tables: for each paper tables, figures and studies; then shared studies."""

    def place(name: str) -> tuple[int, str, bool, bool, int]:
        paper, _, kind = name.partition("-")
        index = PAPERS.index(paper) if paper in PAPERS else len(PAPERS)
        return index, paper, "study" in kind, "figure" in kind, int(kind.rpartition("-")[2])

    return sorted((path.stem for path in (FOLDER / "tables").glob("*.yaml")), key=place)


def load_table(name: str) -> Table:
    """Load a table or figure.

    Raises:
        ValueError: There is no such table (the message lists all), or its file is not a table.
    """
    if name not in table_names():
        raise ValueError(f"There is no table {name!r}. Choose one of {', '.join(table_names())}.")
    content = _content(name)
    scores = content.pop("scores", {})
    arguments = content.pop("arguments", {})
    row_defaults = {key: content.pop(key) for key in ROW_DEFAULTS if key in content}
    for key, task in content["tasks"].items():
        content["tasks"][key] = {
            "scores": scores,
            **task,
            "arguments": {**arguments, **task.get("arguments", {})},
        }
    for key, entry in content["rows"].items():
        row = {**({} if "reason" in entry else row_defaults), **entry}
        if row.get("baseline") == key:
            row["baseline"] = None
        row["published"] = _published(entry.get("published", {}), content["tasks"])
        row.setdefault("group", row["title"])
        content["rows"][key] = row
    table = Table.model_validate({"name": name, **content})
    check_derived(table)
    return table


def check_derived(table: Table) -> None:
    """Raise `ValueError` if a derived column asks for what the table lacks."""
    groups = [row.group for row in table.rows.values()]
    for column in table.derived.values():
        place = f"{table.name}.yaml, {column.name}:"
        scores = column.scores_of(table.tasks)
        check_names(scores, table.tasks, f"{place} there is no task")
        for task, score in scores.items():
            check_names([score], table.tasks[task].scores, f"{place} {task} has no score")
        left = list(LEVELS)
        for step in column.steps:
            reduction, *levels = step.split()
            check_names([reduction], REDUCTIONS, f"{place} there is no reduction")
            for level in levels:
                if level not in left:
                    problem = f"is not a column ({', '.join(LEVELS)}), or an earlier step has reduced it"
                    raise ValueError(f"{place} {level!r} {problem}.")
            if reduction != "difference_to_best":
                left = [level for level in left if level not in levels]
        if "train" in left or "group" not in left:
            raise ValueError(f"{place} the steps must reduce train, and must not reduce group.")
        if "row" in left and len(set(groups)) < len(groups):
            raise ValueError(f"{place} rows have the same group: the steps must reduce row.")


def check_names(names: Iterable[str], possible: Iterable[str], problem: str) -> None:
    """Raise `ValueError` for the first name that is not possible."""
    for name in names:
        if name not in possible:
            raise ValueError(f"{problem} {name!r}. It has {', '.join(possible) or 'none'}.")


def _published(numbers: Any, tasks: Iterable[str]) -> dict[str, list[Any]]:
    """Return the printed numbers of a row as a list for each task."""
    if not isinstance(numbers, dict):
        numbers = dict.fromkeys(tasks, numbers)
    published = {}
    for task, values in numbers.items():
        if task in tasks:  # inherited rows may have numbers of tasks that are not inherited
            published[task] = values if isinstance(values, list) else [values]
    return published


def _content(name: str) -> dict[str, Any]:
    """Read the file of a table and merge the table in its key `like`."""
    text = (FOLDER / "tables" / f"{name}.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    other = content.pop("like", None)
    if other is None:
        return content
    base = _content(other)
    for part in ("tasks", "rows"):  # a list, or names without a value, stand for inherited entries
        entries = content.get(part, base.get(part, {}))
        if isinstance(entries, list):
            entries = dict.fromkeys(entries)
        content[part] = {key: base[part][key] if entry is None else entry for key, entry in entries.items()}
    inherited = {key: base[key] for key in ("runs", *ROW_DEFAULTS, *TASK_DEFAULTS) if key in base}
    return {**inherited, **content}
