"""Training commands: one run, one for each fold with mean and deviation of the scores, or the trials of a search."""

from __future__ import annotations

import itertools
import logging
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from tqdm.auto import tqdm

from hf_localattn.errors import exit_on_user_error
from hf_localattn.files import claimed, remove_leftovers
from hf_localattn.studies.processes import RunFailed, finished, run_all
from hf_localattn.studies.script_command import FOLDS, ScriptCommand, argument_classes, write_results
from hf_localattn.studies.search import Search
from hf_localattn.tasks import Task
from hf_localattn.training.arguments import set_up_logging
from hf_localattn.training.output_folder import save_arguments
from hf_localattn.training.reading import build_arguments
from hf_localattn.training.run_record import scores_of

logger = logging.getLogger(__name__)


def run_task(task: type[Task], options: Mapping[str, Any]) -> dict[str, float]:
    """Run a training command: check its options, then train, evaluate and predict.

    User errors end the program with one line, before training if possible.

    Args:
        task: the task.
        options: options of the training scripts by name.

    Returns:
        All metrics.
    """
    with ExitStack() as claim:
        with exit_on_user_error():
            model_args, data_args, training_args = build_arguments(argument_classes(task), options)
            set_up_logging(training_args)
            execute = _prepare(ScriptCommand(task, model_args, data_args, training_args, options), claim)
        with exit_on_user_error(OSError, RunFailed):
            return execute()


def _prepare(study: ScriptCommand, claim: ExitStack) -> Callable[[], dict[str, float]]:
    """Lock the output folder, check everything, and return a function that executes the command."""
    fold, is_search = study.data_args.fold, study.training_args.search_space is not None
    has_folds = study.data_args.num_folds is not None and not is_search
    _check(study, "--search_space" if is_search else "--num_folds" if has_folds else None)
    arguments = study.check_folder() if has_folds else {}
    command = study.of_fold(fold) if has_folds and fold is not None else study
    if study.training_args.process_index == 0:  # one process locks the folder for all processes of the run
        claim.enter_context(claimed(command.folder))
        remove_leftovers(command.folder)
    if is_search or (has_folds and fold is None):
        return Search(study).execute if is_search else CrossValidation(study, arguments).execute
    if has_folds and (metrics := finished(command.folder)) is not None:
        logger.info("%s holds this fold, which is finished.", command.folder)
        return lambda: metrics
    run = command.prepare()
    if has_folds and study.training_args.should_save:
        save_arguments(study.folder, arguments)
    return run.execute


def _check(study: ScriptCommand, option: str | None) -> None:
    """Raise errors for arguments that cannot be used together. `option` is that of a search or of folds."""
    args, fold = study.training_args, study.data_args.fold
    is_study = option is not None and (option != "--num_folds" or fold is None)
    if is_study and args.world_size > 1:
        raise ValueError("Folds and trials are processes: run them without torchrun or accelerate launch.")
    if not is_study and (args.workers > 1 or args.ray_address is not None):
        raise ValueError(
            "--workers and --ray_address are for --num_folds and --search_space. To train one model on several GPUs"
            " use torchrun or accelerate launch."
        )
    if option == "--search_space" and study.data_args.num_folds is not None and fold is None:
        raise ValueError("--search_space needs a single split: give one --fold, or --num_folds later.")
    wanted = args.resume_from_checkpoint
    if option and isinstance(wanted, str) and wanted.lower() not in ("true", "false", ""):
        raise ValueError(f"{option} resumes without --resume_from_checkpoint {wanted}: leave it out.")
    if option and args.push_to_hub:
        raise ValueError(f"{option} has no final model: leave out --push_to_hub.")


class CrossValidation:
    """The runs of all folds. Fold k is the run of the same options with `--fold k`, in the folder `fold-k`.

    `folds.json` contains the arguments, the metrics of the folds before the first unfinished fold, and their mean and
    sample standard deviation.
    """

    def __init__(self, study: ScriptCommand, arguments: Mapping[str, Any]):
        self.study, self.arguments = study, arguments
        self.numbers = range(1, (study.data_args.num_folds or 0) + 1)
        found = {number: finished(study.folder / f"fold-{number}") for number in self.numbers}
        self.results = {number: metrics for number, metrics in found.items() if metrics is not None}
        if left := found.keys() - self.results.keys():  # one fold is enough to find errors before training
            study.of_fold(min(left)).check()

    def execute(self) -> dict[str, float]:
        """Run the unfinished folds, and return mean and deviation of each score (`eval_f1_mean`, `eval_f1_std`)."""
        args = self.study.training_args
        save_arguments(self.study.folder, self.arguments)
        self._write()
        left = [number for number in self.numbers if number not in self.results]
        runs = [self.study.script_run(self.study.folder / f"fold-{number}", fold=number) for number in left]
        with closing(run_all(runs, args.workers, args.ray_address, use_cpu=args.use_cpu)) as ended:
            for run, metrics in tqdm(ended, "folds", len(runs), disable=args.disable_tqdm):
                number = run.options["fold"]
                if isinstance(metrics, RunFailed):
                    raise RunFailed(f"Fold {number} failed: {metrics}")
                self.results[number] = metrics
                self._write()
                scores = ", ".join(f"{name} {value:.4f}" for name, value in scores_of(metrics).items())
                logger.info("Fold %d of %d: %s.", number, len(self.numbers), scores)
        means, deviations = self._write()
        rows = [f"| {name} | {mean:.4f} | {deviations[name]:.4f} |" for name, mean in means.items()]
        head = "Scores of %d folds:\n| score | mean | deviation |\n|---|---|---|\n%s"
        logger.info(head, len(self.numbers), "\n".join(rows))
        both = {"mean": means, "std": deviations}
        return {f"{name}_{kind}": value for kind, own in both.items() for name, value in own.items()}

    def _write(self) -> tuple[dict[str, float], dict[str, float]]:
        """Write the results of the folds before the first unfinished one, and return their means and deviations."""
        done = [self.results[number] for number in itertools.takewhile(self.results.__contains__, self.numbers)]
        means, deviations = summary_of(done)
        found = {"settings": self.arguments, "mean": means, "std": deviations, "folds": done}
        write_results(self.study.folder / FOLDS, found)
        return means, deviations


def summary_of(results: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the means of all scores that occur in all results, and their deviations if there are several results."""
    scores = [scores_of(metrics) for metrics in results]
    names = (name for name in (scores[0] if scores else {}) if all(name in one for one in scores))
    values = {name: [one[name] for one in scores] for name in names}
    means = {name: statistics.fmean(own) for name, own in values.items()}
    # `statistics.stdev` fails for NaN and infinities.
    spread = {
        name: statistics.stdev(own) if all(map(math.isfinite, own)) else math.nan
        for name, own in values.items()
        if len(own) > 1
    }
    return means, spread
