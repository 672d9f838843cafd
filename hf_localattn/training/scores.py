"""Scores of a run: a further metric of the user's, and the score that selects the best model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hf_localattn.metrics import METRICS, load_metric
from hf_localattn.tasks.task import Target, Task
from hf_localattn.training.checks import SCORE_SCHEDULES, is_loss_only, selects_best

logger = logging.getLogger(__name__)


def further_metric(task: Task, target: Target | None = None) -> Any:
    """Load the metric of `--metric`.

    Args:
        task: The task.
        target (*optional*): Its labels, if they are known.

    Returns:
        The metric; None without `--metric`.

    Raises:
        ValueError: The metric of this package does not suit the task or its labels.
        OSError: There is no metric with this name.
    """
    name = task.args.metric
    if name is None:
        return None
    possible = task.own_metrics if target is None else target.own_metrics
    if name in METRICS and name not in possible:
        instead = " or ".join([*possible, "a module of evaluate"])
        raise ValueError(f"--metric {name} is not for {task.name} with these labels: choose {instead}.")
    return load_metric(name)


def further_scores(metric: Any, task: Task, target: Target) -> tuple[str, ...]:
    """Return the names of the scores of a further metric, which it computes for the examples of a target.

    Raises:
        ValueError: The metric cannot read the predictions of the task.
    """
    if metric is None or target.examples is None:
        return ()
    predictions, references = target.examples
    try:
        return tuple(numbers_of(metric.compute(predictions=predictions, references=references)))
    except Exception as error:  # of foreign code
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"--metric {task.args.metric} cannot read the predictions of {task.name}, such as {predictions[0]!r}:"
            f" {type(error).__name__}: {reason}."
        ) from None


def numbers_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among the results of a metric."""
    return {name: float(value) for name, value in result.items() if isinstance(value, int | float | np.number)}


def choose_best_metric(args: Any, metrics: Mapping[str, bool], further: Sequence[str] | None = ()) -> dict[str, Any]:
    """Return the training arguments for the score that selects the best model, and its direction.

    By default it is the main score with early stopping or in a search, and otherwise the first score of the task.

    Args:
        args: Training arguments.
        metrics: Scores of the task, each with True if greater is better.
        further (*optional*): Names of the scores of `--metric`; None if they are not known.

    Returns:
        Values of training arguments by name; empty if no score is needed.

    Raises:
        ValueError: The task has no such score, or its best value is at the other end.
    """
    directions = {"loss": False} if is_loss_only(args) else dict(metrics)
    metric = args.metric_for_best_model
    if metric is None:
        wants_main_score = args.early_stopping_patience is not None or args.search_space is not None
        if not (wants_main_score or selects_best(args)):
            return {}
        metric = main_score(directions) if wants_main_score else next(iter(directions))
        logger.info("The best model is the one with the best %s.", metric)
    metric = metric.removeprefix("eval_")
    possible = [*directions, *(further or ())]
    if metric not in possible and further is not None:
        raise ValueError(f"--metric_for_best_model must be one of {', '.join(possible)}; got {metric!r}.")
    is_greater = directions.get(metric, args.greater_is_better is not False)
    if args.greater_is_better not in (None, is_greater):
        better = "greater" if is_greater else "lower"
        raise ValueError(f"--greater_is_better contradicts {metric}, which is better if {better}: leave it out.")
    chosen = {"metric_for_best_model": metric, "greater_is_better": is_greater}
    return chosen | _mode(args, metric, is_greater)


def perfect_score(task: Task, *, is_greater: bool) -> float:
    """Return the best value of a score of a task. Those of questions are percentages."""
    if not is_greater:
        return 0.0
    return 100.0 if task.model_task == "question-answering" else 1.0


def strongest_rival(
    score: float, of_rivals: Mapping[str, float], *, is_greater: bool
) -> tuple[str, float, str] | None:
    """Compare a model with the strongest of its rivals.

    Args:
        score: Score of the model.
        of_rivals: Score of each rival by its name.
        is_greater: True if greater is better.

    Returns:
        The rival, its score, and "level with" or "not better than" of the model; None if the model is better, or has
        no rival.
    """
    if not of_rivals:
        return None
    rival = (max if is_greater else min)(of_rivals, key=lambda name: of_rivals[name])
    value = of_rivals[rival]
    if score > value if is_greater else score < value:
        return None
    return rival, value, "level with" if score == value else "not better than"


def main_score(directions: Mapping[str, bool]) -> str:
    """Return the first score other than the loss."""
    return next((name for name in directions if name != "loss"), "loss")


def _mode(args: Any, metric: str, is_greater: bool) -> dict[str, Any]:
    """Return arguments that let a schedule which reads the score know its direction: torch expects a loss."""
    if args.lr_scheduler_type not in SCORE_SCHEDULES:
        return {}
    mode = "max" if is_greater else "min"
    arguments = {"mode": mode, **(args.lr_scheduler_kwargs or {})}
    if arguments["mode"] != mode:
        better = "greater" if is_greater else "lower"
        raise ValueError(
            f"--lr_scheduler_kwargs mode={arguments['mode']} contradicts {metric}, which is better if {better}: leave"
            " it out."
        )
    return {"lr_scheduler_kwargs": arguments}
