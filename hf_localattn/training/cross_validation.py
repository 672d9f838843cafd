"""Cross-validation (`--folds N`): a whole run for every fold, each resumable; mean and deviation of the scores."""

from __future__ import annotations

import gc
import logging
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from hf_localattn.data.folds import Fold
from hf_localattn.parsing import read_json
from hf_localattn.tasks import DataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.part import prepare_part
from hf_localattn.training.results import entry, read_results, scores_of, settings_of, write_results
from hf_localattn.training.run import Prepare, Run

logger = logging.getLogger(__name__)

RESULTS = "folds.json"


class CrossValidation:
    """The runs of all folds, in `output_dir/fold-1` and so on; run k has the seed `seed + k - 1`.

    `output_dir/folds.json` has the settings, the metrics of the folds that are done, their mean and their (sample)
    standard deviation. Given again, the same command goes on where it was killed.

    Raises:
        ValueError: arguments that do not go with folds, or an output folder with something else in it.
        ValueError, OSError: of `prepare`, for the first fold to run.
    """

    def __init__(
        self,
        prepare: Prepare,
        model_args: ModelArguments,
        data_args: DataArguments,
        training_args: TrainingArguments,
    ):
        assert data_args.folds is not None
        _check_arguments(training_args)
        self.prepare, self.count = prepare, data_args.folds
        self.model_args, self.data_args, self.training_args = model_args, data_args, training_args
        self.folder = Path(training_args.output_dir)
        self.settings = settings_of(model_args, data_args, training_args)
        self.results: list[dict[str, Any]] = self._read()
        # Better now than after some folds: what is wrong with arguments, data or model shows in any of them.
        self._next = self._prepare(len(self.results) + 1) if len(self.results) < self.count else None

    def complete(self) -> dict[str, float]:
        """Run the folds that are left, and return each score's mean and deviation (`eval_f1_mean`, `eval_f1_std`)."""
        self._write()
        begun, old = time.perf_counter(), len(self.results)
        for number in range(old + 1, self.count + 1):
            run = self._next or self._prepare(number)
            self._next = None
            metrics = run.complete()
            if self.training_args.should_save:  # what was measured before this process began is in the fold's own file
                metrics = read_json(self._folder_of(number) / "all_results.json") | metrics
            self.results.append(metrics)
            self._write()
            del run
            gc.collect()  # a trainer and its model hold each other
            each = (time.perf_counter() - begun) / (number - old)
            left = timedelta(seconds=round(each * (self.count - number)))
            scores = ", ".join(f"{name} {value:.4f}" for name, value in scores_of(self.results[-1]).items())
            logger.info("Fold %d of %d: %s; about %s left.", number, self.count, scores, left)
        means, deviations = summary_of(self.results)
        logger.info("Scores of %d folds:\n%s", self.count, table_of(means, deviations))
        return {f"{name}_mean": value for name, value in means.items()} | {
            f"{name}_std": value for name, value in deviations.items()
        }

    def _prepare(self, number: int) -> Run:
        args = self.training_args
        return prepare_part(
            self.prepare,
            self.model_args,
            self.data_args,
            args,
            folder=self._folder_of(number),
            seed=args.seed + number - 1,
            fold=Fold(number, self.count, args.seed if args.data_seed is None else args.data_seed),
        )

    def _folder_of(self, number: int) -> Path:
        return self.folder / f"fold-{number}"

    def _read(self) -> list[dict[str, Any]]:
        """The metrics of the folds that are done."""
        known = read_results(self.folder / RESULTS, self.settings, "folds")
        path = self.folder / RESULTS
        folds = entry(known, "folds", list, path) if known is not None else []
        if not all(isinstance(metrics, dict) for metrics in folds):
            raise ValueError(f"{path}: each of its 'folds' must have metrics by name. Put the original back.")
        # A score that is no number is null there. Were it left out, the mean would be that of fewer folds.
        return [{name: math.nan if own is None else own for name, own in metrics.items()} for metrics in folds]

    def _write(self) -> None:
        if not self.training_args.should_save:
            return
        means, deviations = summary_of(self.results)
        found = {"settings": self.settings, "mean": means, "std": deviations, "folds": self.results}
        write_results(self.folder / RESULTS, found)


def summary_of(results: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean and sample standard deviation of every score that all results have; deviations of two or more."""
    scores = [scores_of(metrics) for metrics in results]
    names = [name for name in (scores[0] if scores else {}) if all(name in own for own in scores)]
    means = {name: statistics.fmean(own[name] for own in scores) for name in names}
    if len(scores) < 2:
        return means, {}
    return means, {name: _deviation([own[name] for own in scores]) for name in names}


def _deviation(values: list[float]) -> float:
    # That of the standard library fails for other values.
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def table_of(means: Mapping[str, float], deviations: Mapping[str, float]) -> str:
    """Return both as a table in Markdown."""
    rows = [f"| {name} | {mean:.4f} | {deviations[name]:.4f} |" for name, mean in means.items()]
    return "\n".join(["| score | mean | deviation |", "|---|---|---|", *rows])


def _check_arguments(training_args: TrainingArguments) -> None:
    wanted = training_args.resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() not in ("true", "false", ""):
        raise ValueError(
            f"--folds does not say which fold --resume_from_checkpoint {wanted} is of: leave it out, folds resume by"
            " themselves when the same command is given again."
        )
    if training_args.push_to_hub:
        raise ValueError(
            "--folds trains a model for each fold, none of them for others: leave out --push_to_hub, and train the"
            " final model without --folds."
        )
