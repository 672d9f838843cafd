"""The papers' tables as data: models, tasks, scores and published numbers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BeforeValidator, PositiveInt, model_validator

from hf_localattn.registry import FAMILIES
from reproduction.corpora import FOLDER, Entry, named

E = TypeVar("E", bound=Entry)
Named = Annotated[dict[str, E], BeforeValidator(named)]

PAPERS = tuple(name.partition("-")[0] for name in FAMILIES)
"""Prefixes of table names, in the order of the papers."""

INHERITED = ("backbone", "runs", "family", "baseline", "scores", "arguments")
"""Keys that a table without them inherits from the table in its key `like`, in addition to tasks and rows."""


def _as_lists(content: Any) -> Any:
    """Convert published numbers to a list for each task. If a table has only one task, its key is ""."""
    content = content if isinstance(content, dict) else {"": content}
    return {task: own if isinstance(own, list) else [own] for task, own in content.items()}


class Score(Entry):
    """A column of a table. A text stands for the metric alone.

    Attributes:
        metric: name of the metric in `all_results.json` of a script, such as "eval_f1" or "predict_f1";
            or "train_seconds_per_epoch"; or a metric of the measures "profile" and "statistics".
        scale: factor that converts the measured value to the paper's unit, such as 100 for a percentage.
        ratio: show published and measured values, such as times, as ratios to the row's baseline.
    """

    metric: str
    scale: float = 1.0
    ratio: bool = False


class TableTask(Entry):
    """A task of a table: training on a corpus, with its scores.

    Attributes:
        script: training script, or a measure without training: "profile" (sizes and times) or "statistics" (lengths of
            texts).
        corpus: name of a `Corpus`.
        scores: columns by name. Defaults to the table's.
        arguments: arguments of the script by name, in addition to the table's.
        folds: number of folds of the paper's cross-validation. By default, runs differ only in their seed.
        search: the paper's grid, in the format of the scripts' `--search_space` files.
        test_corpora: names of further corpora to test the trained model on, by title.
        local_config: fields of the family's configuration for all rows that do not set them.
        backbones: replacements of the rows' backbones for this task (SLA uses the cased BERT if capitals matter).
    """

    title: str
    script: Literal["run_qa", "run_glue", "run_ner", "run_swag", "run_qg", "profile", "statistics"]
    corpus: str
    scores: Named[Score] = {}
    arguments: dict[str, Any] = {}
    folds: PositiveInt | None = None
    search: dict[str, Any] = {}
    test_corpora: dict[str, str] = {}
    local_config: dict[str, Any] = {}
    backbones: dict[str, str] = {}

    @property
    def all_scores(self) -> list[Score]:
        """Scores of the task and of its further test corpora."""
        others = [
            score.model_copy(update={"name": f"{score.name} on {title}", "metric": f"{score.metric}@{title}"})
            for title in self.test_corpora
            for score in self.scores.values()
        ]
        return [*self.scores.values(), *others]


class Row(Entry):
    """A row of a table: a model, or numbers that the paper quotes.

    Attributes:
        family: family of the model. Defaults to the table's. "baseline" is the backbone alone; None means that the row
            cannot be run.
        backbone: Hub id of the backbone. Defaults to the table's.
        local_config: fields of the family's configuration and settings of its tokenizer.
        arguments: arguments of the scripts by name, in addition to the task's.
        baseline: name of the row to compare with. Defaults to the table's.
        published: printed numbers of each task, in the order of its scores and in the paper's unit. None if
            missing. For a table with one task, a file may contain only a number or a list.
        reason: reason why the row cannot be run.
        tasks: names of the row's tasks. Defaults to all tasks of the table.
    """

    title: str
    family: str | None = None
    backbone: str | None = None
    local_config: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    baseline: str | None = None
    published: Annotated[dict[str, list[float | None]], BeforeValidator(_as_lists)] = {}
    reason: str | None = None
    tasks: list[str] | None = None


class Figure(Entry):
    """A figure whose points are runs.

    Attributes:
        kind: "bars" has a bar for each task, the difference between the scores of a series' first and second row;
            "curve" has a point for each row, at its value of a field; "learning_curve" has a point for each task, at
            its value of an argument, and each of its series is one row.
        score: name of a score.
        series: rows of each series, by title.
        x: name of the field or argument, such as "max_train_samples".
        x_label: label of the x axis.
        task: task whose score a curve shows.
        levels: rows that a curve shows as horizontal lines, by title.
    """

    kind: Literal["bars", "curve", "learning_curve"]
    score: str
    series: dict[str, list[str]]
    x: str = ""
    x_label: str = ""
    task: str = ""
    levels: dict[str, str] = {}


class Table(Entry):
    """A table, a figure whose points are runs, or a study of this package, which has no published numbers.

    Attributes:
        source: the paper, and the number of the table in it.
        backbone: Hub id of the default backbone of rows.
        family: default family of rows.
        baseline: default baseline of rows.
        scores: default scores of tasks.
        arguments: arguments of all tasks.
        tasks, rows: in the paper's order.
        runs: number of seeds that the paper averages over. 1 if the paper does not state it.
        notes: differences from the paper with their reasons, and facts that the paper does not state.
        figure: how a figure is drawn. None for a table.
    """

    title: str
    source: str
    backbone: str
    family: str | None = None
    baseline: str | None = None
    scores: Named[Score] = {}
    arguments: dict[str, Any] = {}
    tasks: Named[TableTask] = {}
    rows: Named[Row] = {}
    runs: PositiveInt = 1
    notes: list[str] = []
    figure: Figure | None = None

    @model_validator(mode="after")
    def _hand_down(self) -> Table:
        for task in self.tasks.values():
            task.scores = task.scores if "scores" in task.model_fields_set else self.scores
            task.arguments = {**self.arguments, **task.arguments}
        for name, row in self.rows.items():
            if row.reason is None:
                row.family = row.family if "family" in row.model_fields_set else self.family
                row.baseline = row.baseline if "baseline" in row.model_fields_set else self.baseline
            if row.baseline == name:
                row.baseline = None
            if "" in row.published and len(self.tasks) == 1:
                row.published = dict.fromkeys(self.tasks, row.published[""])
        return self

    def published(self, row: Row, task: TableTask, score: str) -> float | None:
        """Return the published number, or None if the paper does not print this number."""
        numbers = dict(zip(self.tasks[task.name].scores, row.published.get(task.name, ()), strict=False))
        return numbers.get(score)

    def recipe(self, row: Row, task: TableTask) -> dict[str, Any]:
        """Merge the arguments of table, task and row. Arguments of the row take precedence.

        `local_config` is a mapping. Arguments of data and seed are not included.
        """
        backbone = row.backbone or self.backbone
        return {
            "family": row.family,
            "backbone": task.backbones.get(backbone, backbone),
            "local_config": {**task.local_config, **row.local_config},
            **task.arguments,
            **row.arguments,
        }


def table_names() -> list[str]:
    """Return the names of all tables in the order of the papers: tables, then figures, then studies."""

    def place(name: str) -> tuple[int, int, int]:
        paper, *kind, number = name.split("-")
        return PAPERS.index(paper), ([], ["figure"], ["study"]).index(kind), int(number)

    return sorted((path.stem for path in (FOLDER / "tables").glob("*.yaml")), key=place)


def load_table(name: str) -> Table:
    """Load a table or figure.

    Raises:
        ValueError: there is no such table (the message lists all), or its file is not a table.
    """
    if name not in table_names():
        raise ValueError(f"There is no table {name!r}. Choose one of {', '.join(table_names())}.")
    return Table.model_validate({"name": name, **_content(name)})


def _content(name: str) -> dict[str, Any]:
    """Read the file of a table and merge the table in its key `like`."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / "tables" / f"{name}.yaml").read_text(encoding="utf-8"))
    other = content.pop("like", None)
    if other is None:
        return content
    base = _content(other)
    for part in ("tasks", "rows"):  # a list, or names without a value, stand for inherited entries
        own = content.get(part, base.get(part, {}))
        named = own if isinstance(own, dict) else dict.fromkeys(own)
        content[part] = {key: base[part][key] if given is None else given for key, given in named.items()}
    for key, row in content["rows"].items():  # drop published numbers of tasks that are not inherited
        if row is base["rows"].get(key) and isinstance(row.get("published"), dict):
            published = {task: numbers for task, numbers in row["published"].items() if task in content["tasks"]}
            content["rows"][key] = {**row, "published": published}
    return {**{key: base[key] for key in INHERITED if key in base}, **content}
