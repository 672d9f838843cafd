"""Scores of a training run in the form of the Hub's leaderboards, `.eval_results/*.yaml`.

The Hub shows these files only for data sets that are registered as benchmarks. The model card has the same scores in
its `model-index`, for all data sets.
"""

from __future__ import annotations

import logging
import math
import re
from pathlib import Path

import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

from hf_localattn.files import atomic_write
from hf_localattn.hub.record import TrainingRecord

logger = logging.getLogger(__name__)

EVAL_RESULTS = ".eval_results/hf_localattn.yaml"
"""File of a checkpoint with the scores of its record. Other files in the folder belong to the user."""


def write_eval_results(folder: Path, record: TrainingRecord | None) -> None:
    """Write the scores of a record into a checkpoint folder; remove an earlier file if there are none.

    A benchmark needs the name of a data set on the Hub, so scores on local files are left out.

    Args:
        folder: Checkpoint folder.
        record: Record of the training run.

    Raises:
        ValueError: The folder of the file is a link, so the file would be written elsewhere.
    """
    path = folder / EVAL_RESULTS
    if path.parent.is_symlink():
        raise ValueError(f"{path.parent} is a link: replace it with a folder, or remove it.")
    entries = _entries(record) if record else []
    if entries:
        path.parent.mkdir(exist_ok=True)
        content = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
        atomic_write(path, content)
        return
    path.unlink(missing_ok=True)
    if record and record.scores:
        logger.debug("The scores are only in the model card: %s needs a data set on the Hub.", EVAL_RESULTS)


def _entries(record: TrainingRecord) -> list[EvalResultEntry]:
    """Return an entry for each score except losses. The notes name metric and split, which entries lack."""
    dataset = record.dataset
    if dataset is None or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", dataset):
        return []
    return [
        EvalResultEntry(
            dataset_id=dataset,
            task_id=record.dataset_config or "default",
            value=score.value,
            notes=f"{score.metric} ({score.split})",
        )
        for score in record.scores
        if score.metric != "loss" and math.isfinite(score.value)
    ]
