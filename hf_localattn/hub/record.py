"""Record of a training run, saved with the model. The model card is written from it."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable
from dataclasses import field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import StrictInt, TypeAdapter
from pydantic.dataclasses import dataclass

from hf_localattn.errors import printable, shorten
from hf_localattn.files import atomic_write
from hf_localattn.names import NO_SCORES, RECORD, RESULTS, RIVALS, STATE
from hf_localattn.parsing import format_json


def describe_rivals(metrics: Iterable[str]) -> str:
    """Return names and descriptions of the rivals that have one of the scores."""
    shown = {metric.rpartition("_of_")[2] for metric in metrics}
    return "; ".join(f"{name}: {text}" for name, text in RIVALS.items() if name in shown)


ARGUMENTS = "training_args.bin"
"""File that Trainer writes beside each model. It is a pickle, so only that it is there is read."""

LIBRARIES = ("hf_localattn", "transformers", "torch", "datasets", "tokenizers")


@dataclass(frozen=True)
class Score:
    """Value of a metric on a split, such as the accuracy on the validation split."""

    split: str
    metric: str
    value: float


@dataclass(frozen=True)
class Candidate:
    """Result of a recipe or of a plain rival in the comparison of `--recipe auto`.

    Args:
        name: Name of the recipe, or of the rival.
        is_rival (*optional*): True for a rival, which has a score alone.
        score (*optional*): Score on the validation rows, or mean over folds; None for a training without an end.
        interval (*optional*): 95 % interval of the score over the validation rows, or of the mean over folds.
        seconds (*optional*): Seconds that the training took, with its start and evaluation.
        megabytes (*optional*): Size of the weights.
        error (*optional*): The error that ended the training.
    """

    name: str
    is_rival: bool = False
    score: float | None = None
    interval: tuple[float, float] | None = None
    seconds: float = 0.0
    megabytes: float | None = None
    error: str | None = None

    @property
    def is_over(self) -> bool:
        """True if the training has a score or an error."""
        return self.score is not None or self.error is not None

    def cells(self) -> list[str]:
        """Return the texts of a row of a table: name, score, interval, seconds, megabytes."""
        ends = "" if self.interval is None else "[{:.4f}, {:.4f}]".format(*self.interval)
        score = "failed" if self.error else "not finished" if self.score is None else f"{self.score:.4f}"
        if self.is_rival:
            return [f"rival: {self.name}", score, ends, "", ""]
        return [
            self.name,
            score,
            ends,
            f"{self.seconds:.0f}",
            "" if self.megabytes is None else f"{self.megabytes:.0f}",
        ]


@dataclass(frozen=True)
class Comparison:
    """Comparison of recipes by `--recipe auto`.

    Args:
        score: Name of the score that has chosen.
        rows: Recipes, the best first, and rivals.
        text: Sentences about the choice.
    """

    score: str
    rows: tuple[Candidate, ...]
    text: str

    @property
    def columns(self) -> list[str]:
        """Titles of the columns of a table of the rows."""
        return ["recipe", self.score, "95 % interval", "seconds", "MB"]


@dataclass(frozen=True)
class TrainingRecord:
    """Record of a training run. It is uploaded to the Hub, so it has no local paths or tokens.

    Args:
        task: Name of the task, a key of `hf_localattn.families.AUTO_CLASSES`.
        base_model (*optional*): Hub id of the model that was fine-tuned. None for a local folder.
        dataset (*optional*): Hub id of the data set. None for local files.
        dataset_config (*optional*): Configuration of the data set.
        files (*optional*): Names of the local files by split, without their folders.
        rows (*optional*): Number of rows by split.
        scores (*optional*): Scores of the evaluated splits.
        hyperparameters (*optional*): Training arguments that affect the result.
        columns (*optional*): Options of the script that name columns of the data.
        reports (*optional*): Scores of each class by split, as `hf_localattn.metrics.class_report` returns them.
        comparison (*optional*): Comparison of recipes that has chosen the model.
        has_pairs (*optional*): True if the inputs are pairs of texts, False for single texts.
        seed (*optional*): Random seed of the run.
        versions (*optional*, defaults to the installed ones): Versions of the libraries by name.
    """

    task: str
    base_model: str | None = None
    dataset: str | None = None
    dataset_config: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    scores: tuple[Score, ...] = ()
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, StrictInt | str] = field(default_factory=dict)
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    comparison: Comparison | None = None
    has_pairs: bool | None = None
    seed: StrictInt | None = None
    versions: dict[str, str] = field(default_factory=lambda: {name: version(name) for name in LIBRARIES})

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the record into a checkpoint folder, whole or not at all. Scores that are NaN are left out."""
        scores = tuple(score for score in self.scores if math.isfinite(score.value))
        content = dataclasses.asdict(dataclasses.replace(self, scores=scores))
        atomic_write(Path(folder, RECORD), format_json(content, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TrainingRecord | None:
        """Read the record of a checkpoint folder; return None without a record. Unknown entries are ignored.

        Raises:
            ValueError: The file is not a record.
        """
        return _read(cls, Path(folder, RECORD))


def _read(kind: Any, path: Path) -> Any:
    """Return the values of a JSON file as a type of pydantic; None without the file.

    Raises:
        ValueError: The file has other values.
    """
    if not path.is_file():
        return None
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except ValueError as error:
        details: Any = getattr(error, "errors", list)()  # of pydantic
        place = ".".join(map(str, details[0]["loc"])) if details else ""
        value = f"`{printable(place)[:80]}` is {shorten(details[0]['input'])}" if place else "it cannot be read"
        raise ValueError(
            f"{path} is not a record of a training run: {value}. Train the model again, or remove the file."
        ) from None


@dataclass(frozen=True)
class _State:
    """Part of `STATE` that a card tells."""

    log_history: tuple[dict[str, Any], ...] = ()
    max_steps: StrictInt | None = None
    num_train_epochs: StrictInt | float | None = None
    train_batch_size: StrictInt | None = None


def read_record(folder: str | os.PathLike[str], task: str | None) -> TrainingRecord | None:
    """Return the record of a checkpoint folder, or else what files of transformers' scripts and Trainer tell.

    Args:
        folder: Folder of a model.
        task: Task of the model, a key of `hf_localattn.families.AUTO_CLASSES`.

    Returns:
        The record; None without such files.

    Raises:
        ValueError: A file cannot be read.
    """
    if (record := TrainingRecord.load(folder)) is not None:
        return record
    results, state = _read(dict[str, Any], Path(folder, RESULTS)), _read(_State, Path(folder, STATE))
    if not (results or state or Path(folder, ARGUMENTS).is_file()):
        return None
    state = state or _State()
    evaluations = [entry for entry in state.log_history if any(name.startswith("eval_") for name in entry)]
    metrics = results or (evaluations[-1] if evaluations else {})
    rows = {}
    scores = []
    for prefix, split in (("train", "train"), ("eval", "validation"), ("predict", "test")):
        of_split = {
            name.removeprefix(f"{prefix}_"): value for name, value in metrics.items() if name.startswith(prefix)
        }
        if type(of_split.get("samples")) is int:
            rows[split] = of_split["samples"]
        if split != "train":
            for name, value in of_split.items():
                is_number = isinstance(value, float) and math.isfinite(value)
                if is_number and not f"_{name}".endswith(NO_SCORES):
                    scores.append(Score(split, name, value))
    settings = {name: getattr(state, name) for name in ("max_steps", "num_train_epochs", "train_batch_size")}
    settings = {name: value for name, value in settings.items() if value is not None}
    return TrainingRecord(task or "", rows=rows, scores=tuple(scores), hyperparameters=settings, versions={})
