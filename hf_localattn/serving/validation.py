"""Scores of a checkpoint and of its exported graph on validation rows, and the share of equal predictions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import PreTrainedModel, PrinterCallback
from transformers.utils import ModelOutput

from hf_localattn.families import task_of_class
from hf_localattn.installed.exported import OnnxModel
from hf_localattn.settings.reading import build_arguments, read_options
from hf_localattn.tasks import TASKS, Run, prepare_run
from hf_localattn.training.arguments import ModelArguments
from hf_localattn.training.summary import Section, format_summary

LABELS = {"labels", "start_positions"}
"""Inputs with which Trainer requires a loss. Questions are evaluated without."""

PREFIX = "eval_"
NOT_SCORES = ("loss", "time", "samples", "per_second")
"""Parts of the names of metrics that are not scores."""


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


def prepare_evaluation(
    checkpoint: str, content: Mapping[str, Any], words: Sequence[str], scratch: str, batch_size: int = 16
) -> Run:
    """Prepare the evaluation that the training script for the head of a checkpoint would run.

    Args:
        checkpoint: Folder of the checkpoint.
        content: Its `config.json`.
        words: Options of the script, such as `--validation_file FILE`.
        scratch: Folder for output files.
        batch_size: Number of rows of a batch.

    Raises:
        ValueError: The checkpoint has no head with a script.
    """
    architecture = next(iter(content.get("architectures") or ()), "unknown")
    task = TASKS.get(task_of_class(architecture) or "")
    if task is None:
        raise ValueError(f"{checkpoint} is a checkpoint of {architecture}, which no script scores.")
    words = [*words, "--model_name_or_path", checkpoint, "--output_dir", scratch, "--do_eval", "--use_cpu"]
    words += ["--per_device_eval_batch_size", str(batch_size), "--disable_tqdm", "true"]
    classes = (ModelArguments, task.DataArguments, task.TrainingArguments)
    run = prepare_run(task, *build_arguments(classes, read_options(classes, words)))
    run.trainer.remove_callback(PrinterCallback)  # which prints scores as a dict
    return run


def compare_with_checkpoint(run: Run, graph: OnnxModel) -> Agreement:
    """Evaluate the checkpoint of a run and its graph on the same validation rows."""
    model = run.trainer.model.eval()
    scores = scores_of(run)
    predictions = _predictions(run)
    with patch.object(model, "forward", answering(model, graph)):
        scores_of_graph = scores_of(run)
    equal = count = 0
    if getattr(model.config, "problem_type", None) != "regression":  # real numbers are never quite equal
        pairs = list(zip(predictions, _predictions(run), strict=True))
        equal = sum(first == second for first, second in pairs)
        count = len(pairs)
    common = [name for name in scores if name in scores_of_graph]
    return Agreement({name: (scores[name], scores_of_graph[name]) for name in common}, equal, count)


def scores_of(run: Run) -> dict[str, float]:
    """Return the metrics of the validation rows, without times and counts."""
    scores = {}
    for name, value in run.trainer.evaluate().items():
        is_other = any(part in name for part in NOT_SCORES)
        if name.startswith(PREFIX) and isinstance(value, float) and not is_other:
            scores[name.removeprefix(PREFIX)] = value
    return scores


def answering(model: PreTrainedModel, graph: OnnxModel) -> Callable[..., ModelOutput]:
    """Return a `forward` for a model that gives the outputs of a graph, and with labels a loss of 0 for Trainer."""

    @functools.wraps(model.forward)
    def forward(**inputs: Any) -> ModelOutput:
        loss = {"loss": torch.zeros(())} if inputs.keys() & LABELS else {}
        return ModelOutput(**loss, **graph(**inputs))

    return forward


def _predictions(run: Run) -> list[Any]:
    """Return the predictions of the last evaluation: one for each row, or for each word of the rows."""
    scored = run.trainer.scored
    if scored is None or scored.pair is None:
        raise ValueError("The validation rows have no labels: give rows with labels.")
    predictions: list[Any] = []
    for prediction in scored.pair[0]:
        if isinstance(prediction, list):  # labels of words
            predictions += prediction
        elif isinstance(prediction, np.ndarray):
            predictions.append(prediction.tolist())
        else:
            predictions.append(prediction)
    return predictions
