"""Cross-validation (`--num_folds N`): a run for each fold; mean and standard deviation of the scores."""

from __future__ import annotations

import itertools
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm.auto import tqdm

from hf_localattn.studies.processes import RunFailed, finished, machine_of, run_all
from hf_localattn.studies.study import Study, write_results
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.run_record import scores_of

logger = logging.getLogger(__name__)

RESULTS = "folds.json"


class CrossValidation:
    """The runs of all folds.

    Fold k is the run of the same options with `--fold k`: it is trained in `output_dir/fold-k` with the seed
    `seed + k - 1`. `output_dir/folds.json` contains the arguments, the metrics of the folds before the first
    unfinished fold, and their mean and sample standard deviation. To resume a killed cross-validation, repeat the
    command.

    Args:
        study: the command.
        arguments: arguments that decide the results.

    Raises:
        ValueError, OSError: the output folder holds other files, or arguments, data or model of the first unfinished
            fold are invalid or cannot be loaded.
    """

    def __init__(self, study: Study, arguments: Mapping[str, Any]):
        study.check_folder(arguments)
        count, args = study.data_args.num_folds, study.training_args
        assert count is not None
        self.study, self.arguments, self.count = study, arguments, count
        found = {number: finished(study.folder / f"fold-{number}") for number in range(1, count + 1)}
        self.results = {number: metrics for number, metrics in found.items() if metrics is not None}
        self.left = [number for number in found if number not in self.results]
        self.machine = machine_of(args.workers, args.ray_address, use_cpu=args.use_cpu)
        if self.left:  # one fold is enough to find errors before training
            study.of_fold(self.left[0]).check()

    def execute(self) -> dict[str, float]:
        """Run the unfinished folds, and return mean and deviation of each score (`eval_f1_mean`, `eval_f1_std`).

        Raises:
            RunFailed: a fold has failed. Finished folds are kept.
        """
        self.study.save(self.arguments)
        self._write()
        runs = [self.study.run(self.study.folder / f"fold-{number}", fold=number) for number in self.left]
        hidden = self.study.training_args.disable_tqdm
        for run, metrics in tqdm(run_all(runs, self.machine), "folds", len(runs), disable=hidden):
            if isinstance(metrics, RunFailed):
                raise RunFailed(f"Fold {run.options['fold']} failed: {metrics}")
            self.results[run.options["fold"]] = metrics
            self._write()
            scores = ", ".join(f"{name} {value:.4f}" for name, value in scores_of(metrics).items())
            logger.info("Fold %d of %d: %s.", run.options["fold"], self.count, scores)
        means, deviations = summary_of(self._done())
        logger.info("Scores of %d folds:\n%s", self.count, table_of(means, deviations))
        return {f"{name}_mean": value for name, value in means.items()} | {
            f"{name}_std": value for name, value in deviations.items()
        }

    def _done(self) -> list[dict[str, Any]]:
        """Return the metrics of the folds before the first unfinished fold."""
        numbers = itertools.takewhile(self.results.__contains__, range(1, self.count + 1))
        return [self.results[number] for number in numbers]

    def _write(self) -> None:
        means, deviations = summary_of(self._done())
        found = {"settings": self.arguments, "mean": means, "std": deviations, "folds": self._done()}
        write_results(self.study.folder / RESULTS, found)


def summary_of(results: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the means and the sample standard deviations of all scores that occur in all results.

    For fewer than two results, there are no deviations.
    """
    scores = [scores_of(metrics) for metrics in results]
    names = [name for name in (scores[0] if scores else {}) if all(name in one for one in scores)]
    means = {name: statistics.fmean(one[name] for one in scores) for name in names}
    if len(scores) < 2:
        return means, {}
    return means, {name: _deviation([one[name] for one in scores]) for name in names}


def _deviation(values: list[float]) -> float:
    # `statistics.stdev` fails for NaN and infinities.
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def table_of(means: Mapping[str, float], deviations: Mapping[str, float]) -> str:
    """Format means and standard deviations as a Markdown table."""
    rows = [f"| {name} | {mean:.4f} | {deviations[name]:.4f} |" for name, mean in means.items()]
    return "\n".join(["| score | mean | deviation |", "|---|---|---|", *rows])


def check_arguments(training_args: TrainingArguments) -> None:
    """Raise `ValueError` for arguments that cannot be used with folds."""
    wanted = training_args.resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() not in ("true", "false", ""):
        raise ValueError(
            f"--resume_from_checkpoint {wanted} cannot be used with --num_folds: leave it out. Unfinished folds are"
            " resumed when the same command is repeated."
        )
    if training_args.push_to_hub:
        raise ValueError(
            "--push_to_hub cannot be used with --num_folds, which trains a model for each fold: leave it out, and"
            " train the final model without --num_folds."
        )
