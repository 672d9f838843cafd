"""Recipes: what the rows of the papers' tables train, on which corpora, how that is scored, and what was published."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hf_localattn.families import get_family
from hf_localattn.reproduction.yaml_files import check_known, check_names, check_numbers, make, names_of, read_yaml

FOLDER = Path(str(files("hf_localattn.reproduction")))
PAPERS = ("cool", "sla", "oa", "sam")
"""What the names of tables begin with, in the order of the papers here."""

WORK = ("run_qa", "run_glue", "run_ner", "run_swag", "run_qg", "profile", "statistics")
"""What works on a task: a training script; or, without any training, sizes and times, or the lengths of the texts."""

SPLITS = {"train": ("train",), "validation": ("validation", "dev"), "test": ("test",)}
"""The splits, each with the names that its file has anyway."""

PLAIN = "none"
INHERITED = ("backbone", "runs", "family", "baseline", "scores", "arguments")
"""What a table takes, unless it says so itself, from one that it is `like`, besides tasks and rows."""

FIGURES = {"curve": ("x", "x_label", "task", "score", "series", "levels"), "bars": ("score", "series")}
"""The kinds of figures, and what there is to say of each."""


@dataclass(frozen=True)
class Score:
    """A column of a table.

    Attributes:
        name: as it is printed: "F1".
        metric: its name in a script's `all_results.json`, such as "eval_f1" or "predict_f1"; or what is measured
            beside it: "train_seconds_per_epoch", or of "profile" and "statistics" (docs of the tables that have them).
        scale: the measured value times this is in the paper's unit: 100 where the scripts give fractions.
        ratio: whether it is shown, published and measured, as a ratio to the row's baseline, as times are.
    """

    name: str
    metric: str
    scale: float = 1.0
    ratio: bool = False


@dataclass(frozen=True)
class Corpus:
    """Data, on the Hub or as local files.

    Attributes:
        name, title: the key, and what it is.
        hub, config: id and configuration on the Hub, if it loads from there without a script; else files alone serve.
        source: an address where people get it.
        licence: as its source states it.
        format: what the files must look like.
        files: for each split the names that its file may have, in a folder of the corpus: with any ending that the
            script reads, or a whole name; "." is the folder itself.
        sample: for each split a file, below the folder of `hf_localattn.resources`, in the same format.
        arguments: what the script must be told to read it, from the Hub, files or sample.
        hub_arguments, file_arguments, sample_arguments: likewise, for one of these alone. A file that `file_arguments`
            name is in the corpus's folder.
    """

    name: str
    title: str
    source: str
    licence: str
    format: str
    files: dict[str, tuple[str, ...]]
    sample: dict[str, str]
    hub: str | None = None
    config: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    hub_arguments: dict[str, Any] = field(default_factory=dict)
    file_arguments: dict[str, Any] = field(default_factory=dict)
    sample_arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """What is trained and scored for one part of a row.

    Attributes:
        name, title: the key, and what is printed above its scores.
        script: one of `WORK`.
        corpus: the name of a `Corpus`.
        arguments: of the script, by name.
        scores: the columns, in their order.
        folds: runs of the paper's cross-validation; where absent runs differ by their seed alone.
        search: the paper's grid, as in the scripts' `--search` files.
        also: of each further test corpus a title and its name; the trained model is tested there too.
        local_config: fields of the family's configuration that all rows have here, unless they say otherwise.
        backbones: what stands for a row's backbone here (SLA takes the cased BERT where capitals count).
    """

    name: str
    title: str
    script: str
    corpus: str
    scores: tuple[Score, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    folds: int | None = None
    search: dict[str, Any] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)
    local_config: dict[str, Any] = field(default_factory=dict)
    backbones: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A model, or a number that the paper quotes.

    Attributes:
        name, title: the key, and what is printed.
        family: of this package; "none" for the backbone's stock class; None if the row cannot be run.
        backbone: Hub id, if not the table's.
        local_config: fields of the family's configuration and settings of its tokenizer.
        arguments: of the scripts, beside the task's.
        baseline: the name of the row it is compared with.
        published: the printed numbers, by task and score, in the paper's unit; what is not printed is not there.
        reason: why the row cannot be run.
        tasks: those of the table that it has; all if absent.
    """

    name: str
    title: str
    family: str | None = None
    backbone: str | None = None
    local_config: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    baseline: str | None = None
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    reason: str | None = None
    tasks: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Table:
    """A table, or a figure whose points are runs.

    Attributes:
        name, title: the key, and what it shows.
        source: the paper, and the number of the table there.
        backbone: Hub id of the rows that name none.
        runs: seeds that the paper averages over; 1 where it does not say.
        tasks, rows: by name, in the paper's order.
        notes: where the recipe departs from the paper and why, and what is not printed there.
        figure: how it is drawn, if it is a figure. `{"kind": "curve", "x": a field, "x_label": what it is called,
            "task", "score", "series": {title: [row, ...]}, "levels": {title: row}}`: a point for each row at its value
            of the field; levels are drawn across. `{"kind": "bars", "score", "series": {title: [row, other]}}`: for
            each task what the row has more than the other.
    """

    name: str
    title: str
    source: str
    backbone: str
    tasks: dict[str, Task]
    rows: dict[str, Row]
    runs: int = 1
    notes: tuple[str, ...] = ()
    figure: dict[str, Any] | None = None


@dataclass(frozen=True)
class Setting:
    """What a script is told of a row's model for one of its tasks; the data and the seed come on top."""

    family: str
    backbone: str
    local_config: Mapping[str, Any]
    arguments: Mapping[str, Any]


def setting_of(table: Table, row: Row, task: Task) -> Setting:
    """Put together what table, task and row say; the row has the last word.

    Raises:
        ValueError: the row cannot be run.
    """
    if row.family is None:
        raise ValueError(f"Row {row.name!r} of {table.name} cannot be run: {row.reason}")
    backbone = row.backbone or table.backbone
    return Setting(
        row.family,
        task.backbones.get(backbone, backbone),
        {**task.local_config, **row.local_config},
        {**task.arguments, **row.arguments},
    )


def select_rows(table: Table, names: Sequence[str] | None) -> list[Row]:
    """Return the rows of these names, in the table's order, or all of them; no baselines are added.

    Raises:
        ValueError: the table has no such row; the message lists those it has.
    """
    if names is None:
        return list(table.rows.values())
    for name in names:
        if name not in table.rows:
            raise ValueError(f"{table.name} has no row {name!r}. It has {', '.join(table.rows)}.")
    return [row for row in table.rows.values() if row.name in names]


def table_names() -> list[str]:
    """Return the names of all tables and figures, in the order of the papers, figures last."""
    return sorted((path.stem for path in (FOLDER / "tables").glob("*.yaml")), key=_place)


def load_table(name: str) -> Table:
    """Return a table or figure.

    Raises:
        ValueError: there is none of that name (the message lists those there are), or its file is wrong.
    """
    if name not in table_names():
        raise ValueError(f"There is no table {name!r}. Choose one of {', '.join(table_names())}.")
    return _table(name, _content(name))


@cache
def load_corpora() -> dict[str, Corpus]:
    """Return all corpora by name."""
    where = "corpora.yaml"
    corpora = {}
    for name, content in read_yaml(FOLDER / where).items():
        check_names(content, f"{where}, {name}")
        corpora[name] = _corpus(name, dict(content), f"{where}, {name}")
    return corpora


def _place(name: str) -> tuple[int, bool, int]:
    found = re.fullmatch(r"(\w+)-(figure-)?(\d+)", name)
    if found is None or found[1] not in PAPERS:
        raise ValueError(f"tables/{name}.yaml: a name is one of {', '.join(PAPERS)}, -, figure- or not, and a number.")
    return PAPERS.index(found[1]), found[2] is not None, int(found[3])


def _corpus(name: str, content: dict[str, Any], where: str) -> Corpus:
    own_names, sample = content.pop("files", {}), content.get("sample", {})
    for part in (own_names, sample):
        check_names(part, where)
    check_known({**own_names, **sample}, SPLITS, where)
    if list(own_names) != list(sample):
        raise ValueError(f"{where}: files are of {', '.join(own_names)}, but samples of {', '.join(sample)}.")
    for split, names in own_names.items():
        if names is not None and not (isinstance(names, list) and all(isinstance(one, str) for one in names)):
            raise ValueError(f"{where}: the files of {split} must be a list of names; found {names!r}.")
    corpus = make(
        Corpus,
        content,
        where,
        name=name,
        files={split: (*SPLITS[split], *(names or ())) for split, names in own_names.items()},
    )
    for arguments in (corpus.arguments, corpus.hub_arguments, corpus.file_arguments, corpus.sample_arguments):
        check_numbers(arguments, where)
    return corpus


def _content(name: str, before: Sequence[str] = ()) -> dict[str, Any]:
    """What the file of a table says, with what it takes from another one, unless that is among those `before`."""
    content = read_yaml(FOLDER / "tables" / f"{name}.yaml")
    other = content.pop("like", None)
    if other is None:
        return content
    before = (*before, name)
    check_known(
        dict.fromkeys(names_of([other], f"{name}, like")), set(table_names()).difference(before), f"{name}, like"
    )
    base = _content(other, before)
    for part in ("tasks", "rows"):
        check_names(base.get(part), f"{other}, {part}")
    tasks = _chosen(content.get("tasks"), base["tasks"], f"{name}, tasks")
    rows = _chosen(content.get("rows"), base["rows"], f"{name}, rows")
    for row, own in rows.items():
        if own is base["rows"].get(row) and isinstance(own, dict) and isinstance(own.get("published"), dict):
            rows[row] = {
                **own,
                "published": {task: own["published"][task] for task in own["published"] if task in tasks},
            }
    return {**{key: base[key] for key in INHERITED if key in base}, **content, "tasks": tasks, "rows": rows}


def _chosen(own: Any, base: dict[str, Any], where: str) -> dict[str, Any]:
    """Tasks or rows of a table: all of another, those that a list names, or those that a mapping leaves empty."""
    if own is None:
        return dict(base)
    if isinstance(own, list):
        own = dict.fromkeys(names_of(own, where))
    check_names(own, where)
    check_known({name: None for name, content in own.items() if content is None}, base, where)
    return {name: base[name] if content is None else content for name, content in own.items()}


def _table(name: str, content: dict[str, Any]) -> Table:
    content = dict(content)
    for part in ("tasks", "rows", "scores", "arguments"):
        check_names(content.get(part, {}), f"{name}, {part}")
    common = {key: content.pop(key, {}) for key in ("scores", "arguments")}
    tasks = {task: _task(task, own, common, f"{name}, {task}") for task, own in content.pop("tasks", {}).items()}
    defaults: dict[str, Any] = {key: content.pop(key) for key in ("family", "baseline") if key in content}
    rows = {row: _row(row, own, defaults, tasks, f"{name}, {row}") for row, own in content.pop("rows", {}).items()}
    for row in rows.values():
        if row.baseline is not None and (row.baseline not in rows or rows[row.baseline].family is None):
            raise ValueError(f"{name}, {row.name}: its baseline {row.baseline!r} is no row that can be run.")
    table = make(Table, content, name, name=name, tasks=tasks, rows=rows)
    if table.figure is not None:
        _check_figure(table, table.figure)
    return table


def _task(name: str, content: Any, common: dict[str, Any], where: str) -> Task:
    check_names(content, where)
    content = dict(content)
    scores = content.pop("scores", common["scores"])
    for part in (scores, content.get("arguments", {})):
        check_names(part, where)
    task = make(
        Task,
        {**content, "arguments": {**common["arguments"], **content.get("arguments", {})}},
        where,
        name=name,
        scores=tuple(
            make(Score, {"metric": own} if isinstance(own, str) else own, f"{where}, {score}", name=score)
            for score, own in scores.items()
        ),
    )
    check_numbers([task.arguments, task.search, task.local_config], where)
    if not task.scores:
        raise ValueError(f"{where}: has no scores.")
    if task.script not in WORK:
        raise ValueError(f"{where}: the script must be one of {', '.join(WORK)}; found {task.script!r}.")
    check_known(dict.fromkeys([task.corpus, *task.also.values()]), load_corpora(), where)
    return task


def _row(name: str, content: Any, defaults: dict[str, Any], tasks: dict[str, Task], where: str) -> Row:
    check_names(content, where)
    content = {"family": None, **content} if "reason" in content else {**defaults, **content}
    if content.get("baseline") == name:
        del content["baseline"]
    published = content.pop("published", {})
    row = make(Row, content, where, name=name, published=_published(published, tasks, where))
    if (row.family is None) != (row.reason is not None):
        raise ValueError(f"{where}: give the family of the row's model, or the reason why it cannot be run.")
    if row.reason is not None and (row.local_config or row.arguments or row.backbone):
        raise ValueError(f"{where}: the row cannot be run, and needs no settings.")
    check_known(dict.fromkeys([*(row.tasks or ()), *row.published]), tasks, where)
    check_numbers([row.arguments, row.local_config], where)
    for task in tasks.values():
        fields = {**task.local_config, **row.local_config}
        if row.family == PLAIN and fields:
            raise ValueError(f"{where}: the stock class has no {next(iter(fields))!r}.")
        if row.family not in (None, PLAIN):
            try:
                get_family(str(row.family)).split_fields(fields)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
    return row


def _published(published: Any, tasks: dict[str, Task], where: str) -> dict[str, dict[str, float]]:
    """The numbers by task and score; in the file a list in the scores' order, `null` for what is not printed."""
    if isinstance(published, list):
        if len(tasks) != 1:
            raise ValueError(f"{where}: say of which task the published numbers are.")
        published = {next(iter(tasks)): published}
    check_names(published, f"{where}, published")
    check_known(published, tasks, where)
    result = {}
    for task, numbers in published.items():
        scores = [score.name for score in tasks[task].scores]
        numbers = [numbers] if not isinstance(numbers, list) else numbers
        if len(numbers) != len(scores) or not all(type(own) in (int, float, type(None)) for own in numbers):
            raise ValueError(f"{where}: {task} has the scores {', '.join(scores)}; published is {numbers!r}.")
        result[task] = {score: own for score, own in zip(scores, numbers, strict=True) if own is not None}
    return result


def _check_figure(table: Table, figure: dict[str, Any]) -> None:
    where = f"{table.name}, figure"
    if figure.get("kind") not in tuple(FIGURES):
        raise ValueError(f"{where}: the kind must be one of {', '.join(FIGURES)}; found {figure.get('kind')!r}.")
    check_known(figure, ("kind", *FIGURES[figure["kind"]]), where)
    series: Any = figure.get("series")
    levels = figure.get("levels", {})
    for part in (series, levels):
        check_names(part, where)
    for own in series.values():
        names_of(own, f"{where}, series")
    names_of([*levels.values(), *(figure[key] for key in ("x", "task", "score") if key in figure)], where)
    if "score" not in figure:
        raise ValueError(f"{where}: score is missing.")
    rows = [*_flat(series.values()), *levels.values()]
    check_known(dict.fromkeys(rows), table.rows, where)
    tasks = [figure["task"]] if "task" in figure else list(table.tasks)
    check_known(dict.fromkeys(tasks), table.tasks, where)
    for task in tasks:
        check_known({figure["score"]: None}, [score.name for score in table.tasks[task].scores], where)
    for row in _flat(series.values()) if "x" in figure else ():
        if figure["x"] not in table.rows[row].local_config:
            raise ValueError(f"{where}: row {row!r} does not set {figure['x']!r}.")


def _flat(lists: Iterable[Iterable[str]]) -> list[str]:
    return [name for own in lists for name in own]
