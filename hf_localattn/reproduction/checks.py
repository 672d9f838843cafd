"""Checks of trials before any of them starts: arguments, parsers, extras and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import psutil
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from hf_localattn.errors import listed, loading
from hf_localattn.extras import import_extra
from hf_localattn.families import get_family, parse_config_fields
from hf_localattn.models.sla_parser import load_pipeline
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.reproduction.measures import MEASURES
from hf_localattn.reproduction.plan import Trial
from hf_localattn.reproduction.runs import Runner
from hf_localattn.reproduction.scripts import SCRIPTS
from hf_localattn.training.arguments import PLAIN
from hf_localattn.training.lookahead import import_lookahead

TRAINING_BYTES = 16
"""Bytes of each parameter: weight, gradient and Adam's two averages, in fp32. A batch takes more."""


def check_trials(runner: Runner, trials: Sequence[Trial], *, searches: bool = False) -> None:
    """Check everything about trials that can be checked without data and weights.

    Raises:
        ValueError: arguments, fields, a parser, an extra or memory are missing or wrong; lists all problems, each
            with its rows and tasks.
    """
    first: dict[tuple[str, str], Trial] = {}
    for trial in trials:
        first.setdefault(trial.key, trial)
    problems: dict[str, dict[str, list[str]]] = {}  # tasks by problem and row
    for (row, task), trial in first.items():
        for problem in _problems(runner, trial, searches=searches):
            problems.setdefault(problem, {}).setdefault(row, []).append(task)
    if problems:
        raise ValueError(listed([f"{_rows_with_tasks(rows)}: {problem}" for problem, rows in problems.items()]))


def _rows_with_tasks(rows: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{row} ({', '.join(tasks)})" for row, tasks in rows.items())


def _problems(runner: Runner, trial: Trial, *, searches: bool) -> Iterator[str]:
    """Yield the problems of a trial. Wrong arguments hide those that are checked after them."""
    try:
        if searches and trial.task.search:
            import_extra("optuna", "search", "--search")
        if trial.task.script not in MEASURES:
            yield from _check(runner, trial)
    except (ValueError, OSError, ImportError) as error:
        yield str(error)


def _check(runner: Runner, trial: Trial) -> Iterator[str]:
    model_args, _, training_args = runner.arguments_of(trial)
    if training_args.lookahead_steps is not None:
        import_lookahead()
    generates = SCRIPTS[trial.task.script].generates
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
                yield f"{error} Here another one is given by --parser NAME, the tiny one by --parser tiny."
    needed, there = _parameters(source, generates=generates) * TRAINING_BYTES, _memory()
    if needed > there:
        yield (
            f"training {source} takes at least {needed / 2**30:.1f} GiB of memory, and {there / 2**30:.1f} are free:"
            " choose a smaller --backbone, or another machine."
        )


@cache
def _config(source: str) -> Any:
    with loading("backbone", source):
        return AutoConfig.from_pretrained(source)


@cache
def _parameters(source: str, *, generates: bool) -> int:
    """Return the number of a backbone's parameters, without its weights."""
    with torch.device("meta"):
        model = (AutoModelForSeq2SeqLM if generates else AutoModel).from_config(_config(source))
    return sum(parameter.numel() for parameter in model.parameters())


def _memory() -> int:
    """Bytes that are free where models are trained."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else psutil.virtual_memory().available
