"""Checks before the runs of a table (arguments, parsers, extras, memory), and estimates of their time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import psutil
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, TrainerCallback
from transformers.trainer_utils import IntervalStrategy

from hf_localattn.assignments import parse_config_fields
from hf_localattn.errors import listed, loading
from hf_localattn.extras import import_extra
from hf_localattn.models.sla_parser import load_pipeline
from hf_localattn.names import PLAIN
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.registry import get_family
from hf_localattn.reproduction.arguments import SCRIPTS
from hf_localattn.reproduction.grid_search import GridSearch
from hf_localattn.reproduction.plan import TableRun
from hf_localattn.reproduction.runs import MODEL, Runner, quiet
from hf_localattn.studies.trial import UNUSED, free_memory, prepare_trial
from hf_localattn.training.optimizers import import_lookahead
from hf_localattn.training.run import Run

TRAINING_BYTES = 16
"""Bytes for each parameter: weight, gradient and Adam's two averages in fp32. Activations are not counted."""

STEPS = 3
"""Number of steps of the short training. The first step is a warm-up and is not timed."""

BATCHES = 2
"""Number of batches of the short evaluation of each split."""

SHORT = {
    "max_steps": STEPS,
    "early_stopping_patience": None,
    "eval_strategy": "no",
    "load_best_model_at_end": False,
    "save_strategy": "no",
}
"""Arguments of the short training."""


def check_runs(runs: Sequence[TableRun], *, searches: bool = False) -> None:
    """Check runs as far as possible without data and weights.

    Args:
        runs: the runs.
        searches: also check the requirements of searches.

    Raises:
        ValueError: arguments or fields are invalid, or a parser, an extra or memory is missing. The message lists all
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
    generates = SCRIPTS[run.task.script].generates
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
    needed, there = _parameters(source, generates=generates) * TRAINING_BYTES, _memory()
    if needed > there:
        yield (
            f"training {source} needs at least {needed / 2**30:.1f} GiB of memory, but {there / 2**30:.1f} are free:"
            " choose a smaller --backbone, or another machine."
        )


@cache
def _config(source: str) -> Any:
    with loading("backbone", source):
        return AutoConfig.from_pretrained(source)


@cache
def _parameters(source: str, *, generates: bool) -> int:
    """Return the number of parameters of a backbone without loading its weights."""
    with torch.device("meta"):
        model = (AutoModelForSeq2SeqLM if generates else AutoModel).from_config(_config(source))
    return sum(parameter.numel() for parameter in model.parameters())


def _memory() -> int:
    """Return the free bytes of the GPU, or of main memory without a GPU."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else psutil.virtual_memory().available


def estimates(
    runner: Runner, left: Sequence[TableRun], runs: Sequence[TableRun], search: GridSearch | None
) -> Iterator[str]:
    """Yield lines with the number of unfinished runs and searches, and the estimated time.

    Args:
        runner: the runner of the table.
        left: unfinished runs.
        runs: all runs.
        search: the search of settings, or None.

    Raises:
        ValueError, OSError: arguments, data or model of a run are invalid or cannot be loaded.
    """
    seconds: dict[tuple[str, str], float] = {}

    def seconds_of(run: TableRun) -> float:
        if not run.trains or runner.is_trained(run):
            return 0.0
        key = run.task.name, run.arguments["backbone"]
        if key not in seconds:
            seconds[key] = estimate(run)
        return seconds[key]

    def told(total: float) -> str:
        return f"about {timedelta(minutes=math.ceil(total / 60))}" if total > 60 else "less than a minute"

    if search is not None:
        searched = {run.key: run for run in runs}.values()
        counts = [(count, run) for run in searched if (count := search.count(run))]
        total = sum(count * seconds_of(run) for count, run in counts)
        yield f"Searches try up to {sum(count for count, _ in counts)} settings, which takes {told(total)}."
        left = runs  # all, because the best settings are not known yet
    if left:
        yield (
            f"{len(left)} of {len(runs)} runs are left. By a few steps of one of each task they take"
            f" {told(sum(map(seconds_of, left)))}; loading and further test corpora are not counted."
        )


def estimate(run: TableRun) -> float:
    """Estimate the seconds of a run. The estimate trains a few steps and evaluates a few batches of the data.

    Raises:
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded.
    """
    own = run.trial.arguments(UNUSED)[2]  # before the arguments of the short run, because they reset accelerate
    with TemporaryDirectory() as folder:
        with quiet():
            short = prepare_trial(run.with_arguments(**SHORT).trial, Path(folder, MODEL)).run
        try:
            return _seconds(short, own)
        finally:
            del short
            free_memory()


class StepTimer(TrainerCallback):
    """Records the time at the end of each step."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.times.append(_now())

    @property
    def seconds(self) -> float:
        """Mean seconds of a step, without the first step."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1)


def _seconds(run: Run, args: Any) -> float:
    """Estimate the seconds of a run.

    Args:
        run: the run with the arguments `SHORT`.
        args: training arguments of the run without `SHORT`.
    """
    trainer, timer = run.trainer, StepTimer()
    trainer.add_callback(timer)
    steps_per_epoch = math.ceil(len(trainer.get_train_dataloader()) / args.gradient_accumulation_steps)
    steps = args.max_steps if args.max_steps > 0 else math.ceil(steps_per_epoch * args.num_train_epochs)
    with quiet():
        trainer.train()
    evaluations = 1.0
    if args.eval_strategy == IntervalStrategy.EPOCH:
        evaluations += steps / steps_per_epoch
    elif args.eval_strategy == IntervalStrategy.STEPS:
        evaluations += steps / (args.eval_steps or args.logging_steps)
    total = steps * timer.seconds
    for split, features in run.features.items():
        if split != "train":
            total += (evaluations if split.startswith("validation") else 1.0) * _evaluation_seconds(run, features)
    return total


@torch.no_grad()
def _evaluation_seconds(run: Run, features: datasets.Dataset) -> float:
    """Estimate the seconds of one pass over a split from the time of the fastest batch."""
    trainer, args = run.trainer, run.trainer.args
    model, loader = trainer.model.eval(), trainer.get_eval_dataloader(features)
    times = []
    for batch in islice(loader, BATCHES):
        begun = _now()
        with trainer.accelerator.autocast():
            if getattr(args, "predict_with_generate", False):
                inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
                model.generate(**inputs, max_length=args.generation_max_length, num_beams=args.generation_num_beams)
            else:
                model(**batch)
        times.append(_now() - begun)
    return min(times) * len(loader)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
