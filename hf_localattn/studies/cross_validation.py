"""Cross-validation (`--num_folds N`): one resumable trial for each fold; mean and standard deviation of the scores."""

from __future__ import annotations

import itertools
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_localattn.data.folds import Fold
from hf_localattn.errors import listed
from hf_localattn.studies.executors import Job, TrialFailed, executor_of
from hf_localattn.studies.progress import Pace
from hf_localattn.studies.results import entry, read_results, settings_of, write_results
from hf_localattn.studies.trial import Trial, result_of, with_nan
from hf_localattn.tasks import DataArguments, Task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.run_record import scores_of

logger = logging.getLogger(__name__)

RESULTS = "folds.json"


class CrossValidation:
    """The trials of all folds.

    Fold k is trained in `output_dir/fold-k` with the seed `seed + k - 1`. `output_dir/folds.json` contains the
    settings, the metrics of the folds before the first unfinished fold, and their mean and sample standard deviation.
    To resume a killed cross-validation, repeat the command. With `fold`, only this fold is run, and processes with
    other folds may run at the same time.

    Args:
        task: one of `hf_localattn.tasks.TASKS`.
        model_args: the model.
        data_args: the data and the number of folds.
        training_args: the training arguments. `output_dir` will contain the folders of all folds.

    Raises:
        ValueError: an argument cannot be used with folds, or the output folder holds other files.
        ValueError, OSError: arguments, data or model of the first unfinished fold are invalid or cannot be loaded.
    """

    def __init__(
        self, task: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
    ):
        assert data_args.num_folds is not None
        _check_arguments(training_args)
        self.count, self.only, self.training_args = data_args.num_folds, data_args.fold, training_args
        self.folder = Path(training_args.output_dir)
        self.settings = settings_of(model_args, data_args, training_args)
        args = training_args
        self.executor = executor_of(args.workers, args.ray_address, self.folder, use_cpu=args.use_cpu)
        done = enumerate(self._read(), start=1)
        self.results: dict[int, dict[str, Any]] = dict(done)
        parts = dict.fromkeys(("do_train", "do_eval", "do_predict"), True)
        partition = training_args.seed if training_args.data_seed is None else training_args.data_seed
        self.jobs = {}
        for number in range(1, self.count + 1):
            fold = Fold(number, self.count, partition)
            seed = training_args.seed + number - 1
            trial = Trial.of(task, model_args, data_args, training_args, **parts, seed=seed, fold=fold)
            folder = self.folder / f"fold-{number}"
            if number not in self.results and (metrics := result_of(trial, folder)) is not None:
                self.results[number] = metrics
            if number not in self.results and self.only in (None, number):
                self.jobs[number] = Job(trial, folder)
        if self.jobs:  # one fold is enough to find errors in arguments, data or model before training
            self.executor.check(next(iter(self.jobs.values())))

    def execute(self) -> dict[str, float]:
        """Run the unfinished folds.

        Returns:
            Mean and standard deviation of each score (`eval_f1_mean`, `eval_f1_std`), or the metrics of a single
            `fold`.

        Raises:
            TrialFailed: some folds have failed in a worker. All other folds are finished.
        """
        if self.only is None or not (self.folder / RESULTS).is_file():
            self._write()
        pace, failed = Pace(len(self.jobs)), []
        for outcome in self.executor.run(self.jobs.values()):
            fold, left = outcome.job.trial.fold, pace.step()
            assert fold is not None
            if isinstance(outcome.error, TrialFailed):
                failed.append(f"Fold {fold.number} failed: {outcome.error}")
                logger.error("%s; about %s left.", failed[-1], left)
            elif outcome.error is not None:
                raise outcome.error
            else:
                self.results[fold.number] = outcome.metrics
                if self.only is None:
                    self._write()
                scores = ", ".join(f"{name} {value:.4f}" for name, value in scores_of(outcome.metrics).items())
                logger.info("Fold %d of %d: %s; about %s left.", fold.number, self.count, scores, left)
        if failed:
            raise TrialFailed(
                f"{listed(failed)}. The other folds are finished: repeat the command to run only the failed ones."
            )
        if self.only is not None:
            return self.results[self.only]
        means, deviations = summary_of(self._done())
        logger.info("Scores of %d folds:\n%s", self.count, table_of(means, deviations))
        return {f"{name}_mean": value for name, value in means.items()} | {
            f"{name}_std": value for name, value in deviations.items()
        }

    def _done(self) -> list[dict[str, Any]]:
        """Return the metrics of the folds before the first unfinished fold."""
        numbers = itertools.takewhile(self.results.__contains__, range(1, self.count + 1))
        return [self.results[number] for number in numbers]

    def _read(self) -> list[dict[str, Any]]:
        """Return the metrics of the folds in the result file."""
        path = self.folder / RESULTS
        if self.only is not None and not path.is_file():  # other processes may already have written their folds
            return []
        known = read_results(path, self.settings, "folds")
        folds = entry(known, "folds", list, path) if known is not None else []
        if not all(isinstance(metrics, dict) for metrics in folds):
            raise ValueError(f"{path}: each of its 'folds' must be an object of metrics. Restore the original file.")
        # Keep NaN scores; otherwise the mean would cover fewer folds.
        return [with_nan(metrics) for metrics in folds]

    def _write(self) -> None:
        if not self.training_args.should_save:
            return
        done = self._done()
        means, deviations = summary_of(done)
        found = {"settings": self.settings, "mean": means, "std": deviations, "folds": done}
        write_results(self.folder / RESULTS, found)


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


def _check_arguments(training_args: TrainingArguments) -> None:
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
