"""Scores of a checkpoint and of its exported graph on validation rows, and the share of equal predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hf_localattn.families import task_of_class
from hf_localattn.settings.reading import build_arguments, read_options
from hf_localattn.tasks import TASKS, Scored
from hf_localattn.training.arguments import argument_classes
from hf_localattn.training.prepare import Prepared, prepare
from hf_localattn.training.run import score_with
from hf_localattn.training.summary import Section, format_summary

Function = Callable[..., Mapping[str, Any]]
"""Function of the inputs of a batch that returns outputs by name: a model or a graph."""


@dataclass(frozen=True)
class Agreement:
    """Comparison of a graph with its checkpoint.

    Attributes:
        scores: Score of the checkpoint and of the graph, by name.
        equal: Number of equal predictions: of words, if words are labeled.
        count: Number of predictions.
    """

    scores: dict[str, tuple[float, float]]
    equal: int
    count: int

    def report(self) -> str:
        """Return the comparison as a table: the scores, and the number of equal predictions."""
        table: list[Sequence[str | float]] = [("", "checkpoint", "graph")]
        table += [(name, *values) for name, values in self.scores.items()]
        if self.count:
            table.append(("equal predictions", f"{self.equal} of {self.count}"))
        return format_summary([Section("Scores on the validation rows", table)])


def prepare_evaluation(checkpoint: str, content: Mapping[str, Any], words: Sequence[str], scratch: str) -> Prepared:
    """Prepare the evaluation that the training script for the head of a checkpoint would run.

    Args:
        checkpoint: Folder of the checkpoint.
        content: Its `config.json`.
        words: Options of the script, such as `--validation_file FILE`.
        scratch: Folder for output files.

    Raises:
        ValueError: The checkpoint has no head with a script.
    """
    architecture = next(iter(content.get("architectures") or ()), "unknown")
    task = TASKS.get(task_of_class(architecture) or "")
    if task is None:
        raise ValueError(f"{checkpoint} is a checkpoint of {architecture}, which no script scores.")
    words = [*words, "--model_name_or_path", checkpoint, "--output_dir", scratch, "--do_eval", "--use_cpu"]
    words += ["--disable_tqdm", "true"]
    classes = argument_classes(task)
    model_args, data_args, training_args = build_arguments(classes, read_options(classes, words))
    return prepare(task, model_args, data_args, training_args)


def compare_with_checkpoint(prepared: Prepared, graph: Function) -> Agreement:
    """Evaluate the checkpoint of a run and its graph on the same validation rows."""
    of_model = score_validation(prepared, prepared.model.eval())
    of_graph = score_validation(prepared, graph)
    equal = count = 0
    if getattr(prepared.model.config, "problem_type", None) != "regression":  # real numbers are never quite equal
        pairs = list(zip(_predictions(of_model), _predictions(of_graph), strict=True))
        equal = sum(first == second for first, second in pairs)
        count = len(pairs)
    common = [name for name in of_model.scores if name in of_graph.scores]
    return Agreement({name: (of_model.scores[name], of_graph.scores[name]) for name in common}, equal, count)


def score_validation(prepared: Prepared, model: Function, batch_size: int = 16) -> Scored:
    """Return the scores of a model or graph on the validation rows.

    Raises:
        ValueError: The rows have no labels.
    """
    scored = score_with(prepared, "validation", model, batch_size)
    if scored.pair is None:
        raise ValueError("The validation rows have no labels: give rows with labels.")
    return scored


def _predictions(scored: Scored) -> list[Any]:
    """Return the predictions of an evaluation: one for each row, or for each word of the rows."""
    assert scored.pair is not None
    predictions: list[Any] = []
    for prediction in scored.pair[0]:
        if isinstance(prediction, list):  # labels of words
            predictions += prediction
        elif isinstance(prediction, np.ndarray):
            predictions.append(prediction.tolist())
        else:
            predictions.append(prediction)
    return predictions
