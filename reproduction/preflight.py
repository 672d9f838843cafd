"""Checks before the runs of a table (arguments, parsers, extras)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from transformers import AutoConfig

from hf_localattn.assignments import parse_config_fields
from hf_localattn.errors import listed, loading
from hf_localattn.extras import import_extra
from hf_localattn.models.sla_parser import load_pipeline
from hf_localattn.names import PLAIN
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.registry import get_family
from hf_localattn.studies.trial import UNUSED
from hf_localattn.training.optimizers import import_lookahead
from reproduction.arguments import SCRIPTS
from reproduction.plan import TableRun


def check_runs(runs: Sequence[TableRun], *, searches: bool = False) -> None:
    """Check runs as far as possible without data and weights.

    Args:
        runs: the runs.
        searches: also check the requirements of searches.

    Raises:
        ValueError: arguments or fields are invalid, or a parser or an extra is missing. The message lists all
            problems with their rows and tasks.
    """
    first: dict[tuple[str, str], TableRun] = {}
    for run in runs:
        first.setdefault(run.key, run)
    problems: dict[str, dict[str, list[str]]] = {}  # tasks by problem and row
    for (row, task), run in first.items():
        for problem in _problems(run, searches=searches):
            problems.setdefault(problem, {}).setdefault(row, []).append(task)
    if problems:
        raise ValueError(listed([f"{_rows_with_tasks(rows)}: {problem}" for problem, rows in problems.items()]))


def _rows_with_tasks(rows: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{row} ({', '.join(tasks)})" for row, tasks in rows.items())


def _problems(run: TableRun, *, searches: bool) -> Iterator[str]:
    """Yield the problems of a run. Stop at invalid arguments."""
    try:
        if searches and run.task.search:
            import_extra("optuna", "search", "--search")
        if run.trains:
            yield from _check(run)
    except (ValueError, OSError, ImportError) as error:
        yield str(error)


def _check(run: TableRun) -> Iterator[str]:
    model_args, _, training_args = run.trial.arguments(UNUSED)
    if training_args.lookahead_steps is not None:
        import_lookahead()
    generates = SCRIPTS[run.task.script].model_task == "text2text-generation"
    source = resolve_backbone(model_args.source, generates=generates)
    config = _config(source)
    if model_args.family not in (None, PLAIN):
        family = get_family(str(model_args.family))
        given = parse_config_fields(family.config.model_type, model_args.local_config)
        fields, settings = family.split_fields(given)
        family.config(backbone_config=config, **fields)
        if settings.get("parser") is not None:
            try:
                load_pipeline(settings["parser"])
            except (OSError, ValueError) as error:
                yield f"{error} Or give another parser with --parser NAME, or --parser tiny."


@cache
def _config(source: str) -> Any:
    with loading("backbone", source):
        return AutoConfig.from_pretrained(source)
