"""Scores of a run: a further metric of the user's, and the score that selects the best model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from hf_localattn.metrics import METRICS, load_metric
from hf_localattn.training.checks import SCORE_SCHEDULES, is_loss_only, selects_best

logger = logging.getLogger(__name__)


def further_metric(task: Any) -> Any:
    """Load the metric of `--metric`.

    Args:
        task: `hf_localattn.tasks.Task`, before or after its labels are chosen.

    Returns:
        The metric; None without `--metric`.

    Raises:
        ValueError: The metric of this package does not suit the task or its labels.
        OSError: There is no metric with this name.
    """
    name = task.args.metric
    if name is None:
        return None
    if name in METRICS and name not in task.own_metrics:
        instead = " or ".join([*task.own_metrics, "a module of evaluate"])
        raise ValueError(f"--metric {name} is not for {task.name} with these labels: choose {instead}.")
    return load_metric(name)


def further_scores(task: Any) -> tuple[str, ...]:
    """Return the names of the scores of a further metric, which it computes for the task's examples.

    Raises:
        ValueError: The metric cannot read the predictions of the task.
    """
    metric = task.further_metric
    if metric is None or (examples := task.metric_examples()) is None:
        return ()
    try:
        return tuple(numbers_of(metric.compute(predictions=examples[0], references=examples[1])))
    except Exception as error:  # of foreign code
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"--metric {task.args.metric} cannot read the predictions of {task.name}, such as {examples[0][0]!r}:"
            f" {type(error).__name__}: {reason}."
        ) from None


def numbers_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among the results of a metric."""
    return {name: float(value) for name, value in result.items() if isinstance(value, int | float | np.number)}


def choose_best_metric(args: Any, task: Any) -> None:
    """Set the score that selects the best model, and its direction, in the training arguments.

    By default it is the main score with early stopping or in a search, and otherwise the first score of the task.

    Args:
        args: Training arguments.
        task: `hf_localattn.tasks.Task` with its `metrics` and `further_scores`.

    Raises:
        ValueError: The task has no such score, or its best value is at the other end.
    """
    directions = {"loss": False} if is_loss_only(args) else dict(task.metrics)
    metric = args.metric_for_best_model
    if metric is None:
        wants_main_score = args.early_stopping_patience is not None or args.search_space is not None
        if not (wants_main_score or selects_best(args)):
            return
        metric = main_score(directions) if wants_main_score else next(iter(directions))
        logger.info("The best model is the one with the best %s.", metric)
    metric = metric.removeprefix("eval_")
    possible = [*directions, *task.further_scores]
    is_known = task.args.metric is None or bool(task.further_scores)
    if metric not in possible and is_known:
        raise ValueError(f"--metric_for_best_model must be one of {', '.join(possible)}; got {metric!r}.")
    is_greater = directions.get(metric, args.greater_is_better is not False)
    if args.greater_is_better not in (None, is_greater):
        better = "greater" if is_greater else "lower"
        raise ValueError(f"--greater_is_better contradicts {metric}, which is better if {better}: leave it out.")
    args.metric_for_best_model = metric
    args.greater_is_better = is_greater
    _choose_mode(args)


def main_score(directions: Mapping[str, bool]) -> str:
    """Return the first score other than the loss."""
    return next((name for name in directions if name != "loss"), "loss")


def _choose_mode(args: Any) -> None:
    """Let a schedule that reads the score know its direction: torch expects a loss."""
    if args.lr_scheduler_type not in SCORE_SCHEDULES:
        return
    mode = "max" if args.greater_is_better else "min"
    arguments = {"mode": mode, **(args.lr_scheduler_kwargs or {})}
    if arguments["mode"] != mode:
        better = "greater" if args.greater_is_better else "lower"
        raise ValueError(
            f"--lr_scheduler_kwargs mode={arguments['mode']} contradicts {args.metric_for_best_model}, which is better"
            f" if {better}: leave it out."
        )
    args.lr_scheduler_kwargs = arguments
