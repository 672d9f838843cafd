"""Training commands: one run, one for each fold or seed with a summary of the scores, or the trials of a search."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from hf_localattn.errors import DivergedError, exit_on_user_error
from hf_localattn.files import claimed, remove_leftovers
from hf_localattn.metrics.classification_scores import LOWER_IS_BETTER
from hf_localattn.names import RESULTS, RIVALS, SCRIPTS
from hf_localattn.settings.reading import build_arguments
from hf_localattn.settings.recipes import AUTO, NO_RECIPE, add_recipe, options_of_run, read_recipe
from hf_localattn.studies.compare import interval_of_mean, method_of
from hf_localattn.studies.comparison_files import markdown_table
from hf_localattn.studies.processes import RunFailed, ScriptRun, run_all
from hf_localattn.studies.recipe_search import RecipeSearch
from hf_localattn.studies.results import FOLDS, SEEDS, finished, overlap_of_folds, write_results
from hf_localattn.studies.script_command import ScriptCommand
from hf_localattn.studies.search import Search
from hf_localattn.tasks import Task
from hf_localattn.training.arguments import argument_classes, set_up_logging
from hf_localattn.training.output_folder import save_arguments
from hf_localattn.training.run import execute
from hf_localattn.training.run_record import numbers_of, scores_of
from hf_localattn.training.scores import strongest_rival

logger = logging.getLogger(__name__)

SEARCH = f"--recipe {AUTO}"


def run_task(task: type[Task], options: Mapping[str, Any]) -> dict[str, float]:
    """Run a training command: check its options, then train, evaluate and predict.

    User errors end the program with one line, before training if possible.

    Args:
        task: The task.
        options: Options of the training scripts by name.

    Returns:
        All metrics.
    """
    with ExitStack() as claim:
        with exit_on_user_error():
            scripts = {name: script for script, name in SCRIPTS.items()}
            script = scripts.get(task.__name__, "")
            options = add_recipe(script, options)
            model_args, data_args, training_args = build_arguments(
                argument_classes(task), options_of_run(script, options)
            )
            set_up_logging(training_args)
            if options.get("recipe") not in (None, AUTO, NO_RECIPE):
                recipe = read_recipe(str(options["recipe"]))
                logger.info("Recipe %s: %s Measured: %s.", recipe.name, recipe.summary, recipe.measured)
            execute = _prepare(ScriptCommand(task, model_args, data_args, training_args, options), claim)
        with exit_on_user_error(OSError, RunFailed, DivergedError):
            return execute()


def _prepare(command: ScriptCommand, claim: ExitStack) -> Callable[[], dict[str, float]]:
    """Lock the output folder, check everything, and return a function that executes the command."""
    option = _check(command)
    fold = command.data_args.fold if option == "--num_folds" else None
    arguments = command.check_folder() if option in ("--num_folds", "--seeds") else {}
    single = command if fold is None else command.of_fold(fold)
    if command.training_args.process_index == 0:  # one process locks the folder for all processes of the run
        claim.enter_context(claimed(single.folder))
        remove_leftovers(single.folder)
    if option == SEARCH:
        return RecipeSearch(command).execute
    if option == "--search_space":
        return Search(command).execute
    if option is not None and fold is None:
        return SeveralRuns(command, arguments).execute
    if fold is not None and (metrics := finished(single.folder)) is not None:
        logger.info("%s holds this fold, which is finished.", single.folder)
        return lambda: metrics
    started = single.start()
    if fold is not None and command.training_args.should_save:
        save_arguments(command.folder, arguments)
    return lambda: execute(started)


def _check(command: ScriptCommand) -> str | None:
    """Return the option that makes several runs, or None. Raise errors for options that cannot be used together."""
    args = command.training_args
    fold = command.data_args.fold
    num_folds = command.data_args.num_folds
    option = None
    if args.search_space is not None:
        option = "--search_space"
    elif num_folds is not None:
        option = "--num_folds"
    if command.options.get("recipe") == AUTO:
        option = SEARCH
    elif args.minutes is not None:
        raise ValueError(f"--minutes needs {SEARCH}, whose trainings end after this time.")
    if "seeds" in command.options:
        _check_seeds(command, option)
        option = "--seeds"
    has_several = option is not None and (option != "--num_folds" or fold is None)
    if has_several and args.world_size > 1:
        raise ValueError(
            "Folds, seeds, recipes and trials are processes: run them without torchrun or accelerate launch."
        )
    if not has_several and (args.workers > 1 or args.ray_address is not None):
        raise ValueError(
            f"--workers and --ray_address are for --num_folds, --seeds, {SEARCH} and --search_space. To train one"
            " model on several GPUs use torchrun or accelerate launch."
        )
    if option == "--search_space" and num_folds is not None and fold is None:
        raise ValueError("--search_space needs a single split: give one --fold, or --num_folds later.")
    wanted = args.resume_from_checkpoint
    if option and isinstance(wanted, str) and wanted.lower() not in ("true", "false", ""):
        raise ValueError(f"{option} resumes without --resume_from_checkpoint {wanted}: leave it out.")
    if option and args.push_to_hub:
        raise ValueError(f"{option} has no final model: leave out --push_to_hub.")
    return option


def _check_seeds(command: ScriptCommand, other: str | None) -> None:
    """Raise errors for seeds that repeat, and for options that choose the seeds of runs, too."""
    seeds = command.training_args.seeds
    repeated = [seed for seed in seeds if seeds.count(seed) > 1]
    if not seeds or repeated:
        words = " ".join(map(str, seeds))
        problem = f"repeats {repeated[0]}" if repeated else "names no seed"
        raise ValueError(f"--seeds {words} {problem}: give different whole numbers, such as 1 2 3.")
    if other is None and "seed" in command.options:
        other = "--seed"
    if other is not None:
        raise ValueError(f"--seeds cannot be used with {other}, whose runs have seeds already: leave out one of them.")
    if not command.training_args.do_train:
        raise ValueError("--seeds needs --do_train: only training depends on the seed.")


class SeveralRuns:
    """The runs of all folds or seeds. Run k has the options of the command, in its own folder (`fold-k`, `seed-k`).

    `folds.json` or `seeds.json` contains the arguments, the metrics of the finished runs, and the mean, sample
    standard deviation and interval of their scores.
    """

    def __init__(self, command: ScriptCommand, arguments: Mapping[str, Any]):
        self.command = command
        self.arguments = arguments
        seeds = command.training_args.seeds
        self.folds = None if seeds else command.data_args.num_folds
        self.kind = "seed" if seeds else "fold"
        self.overlap = 0.0 if self.folds is None else overlap_of_folds(self.folds, vars(command.data_args))
        self.indices = seeds or range(1, (self.folds or 0) + 1)
        self.results = {index: finished(self._folder(index)) for index in self.indices}
        self.remaining = [index for index in self.indices if self.results[index] is None]
        if self.remaining:  # one run is enough to find errors before training
            first = self.remaining[0]
            (command.of_seed(first) if seeds else command.of_fold(first)).check()

    def _folder(self, index: int) -> Path:
        return self.command.folder / f"{self.kind}-{index}"

    def _run(self, index: int) -> ScriptRun:
        folder = self._folder(index)
        if self.kind == "fold":
            return self.command.script_run(folder, fold=index)
        return self.command.script_run(folder, seed=index, output_dir=str(folder))

    def execute(self) -> dict[str, float]:
        """Run what is left, and return mean, deviation and interval of each score (`eval_f1_mean`, `eval_f1_std`)."""
        args = self.command.training_args
        save_arguments(self.command.folder, self.arguments)
        self._write()
        runs = [self._run(index) for index in self.remaining]
        with closing(run_all(runs, args.workers, args.ray_address, use_cpu=args.use_cpu)) as ended:
            for run, metrics in tqdm(ended, f"{self.kind}s", len(runs), disable=args.disable_tqdm):
                index = run.options[self.kind]
                name = f"{self.kind.capitalize()} {index}"
                if isinstance(metrics, RunFailed):
                    raise RunFailed(f"{name} failed: {metrics}")
                self.results[index] = metrics
                self._write()
                scores = ", ".join(f"{score} {value:.4f}" for score, value in scores_of(metrics).items())
                logger.info("%s: %s.", name, scores)
        summary = self._write()
        self._log(summary)
        numbers = _flat(summary)
        write_results(self.command.folder / RESULTS, numbers)
        return numbers

    def _write(self) -> dict[str, dict[str, Any]]:
        """Write the results of the finished runs, and return their summary."""
        (self.command.folder / RESULTS).unlink(missing_ok=True)  # until all are finished
        done = [metrics for metrics in self.results.values() if metrics is not None]
        summary = summary_of(done, self.overlap)
        results = {"settings": self.arguments, **summary}
        if self.kind == "fold":
            write_results(self.command.folder / FOLDS, {**results, "folds": list(self.results.values())})
        else:
            write_results(self.command.folder / SEEDS, {**results, "seeds": self.results})
        return summary

    def _log(self, summary: Mapping[str, Mapping[str, Any]]) -> None:
        rows = []
        for name, mean in summary["mean"].items():
            deviation = summary["std"].get(name, math.nan)
            interval = summary["interval"].get(name)
            ends = "-" if interval is None else "[{:.4f}, {:.4f}]".format(*interval)
            rows.append([name, f"{mean:.4f}", f"{deviation:.4f}", ends])
        table = markdown_table(["score", "mean", "deviation", "95 % interval"], rows)
        note = f"The interval of the mean is that of a {method_of(self.folds, self.overlap)}."
        logger.info("Scores of %d %ss:\n%s\n%s", len(self.indices), self.kind, table, note)
        if self.kind == "seed":
            logger.info("To use one model, choose it by validation scores, not by test scores, and quote the mean.")
        for problem in lost_to_rivals(summary["mean"]):
            logger.warning(problem)


def lost_to_rivals(means: Mapping[str, float]) -> list[str]:
    """Return a sentence for each mean score that is not better than that of the strongest rival."""
    sentences = []
    for name, score in means.items():
        of_rivals = {rival: means[f"{name}_of_{rival}"] for rival in RIVALS if f"{name}_of_{rival}" in means}
        is_greater = not name.endswith(tuple(f"_{lower}" for lower in LOWER_IS_BETTER))
        if strongest := strongest_rival(score, of_rivals, is_greater=is_greater):
            rival, value, relation = strongest
            numbers = f"mean {name} {score:.4f}, against {value:.4f}"
            sentences.append(f"The models are {relation} their rival {rival!r}, {RIVALS[rival]} ({numbers}).")
    return sentences


def summary_of(results: Sequence[Mapping[str, Any]], overlap: float = 0.0) -> dict[str, dict[str, Any]]:
    """Return `mean`, `std` and `interval` of all scores that occur in all results, by name, also of rivals.

    A single result has no deviation. `interval_of_mean` says which scores have an interval.
    """
    summary: dict[str, dict[str, Any]] = {"mean": {}, "std": {}, "interval": {}}
    scores = [numbers_of(metrics) for metrics in results]
    for name in scores[0] if scores else ():
        if not all(name in run for run in scores):
            continue
        values = [run[name] for run in scores]
        summary["mean"][name] = statistics.fmean(values)
        if len(values) > 1:  # `statistics.stdev` fails for NaN and infinities
            is_finite = all(map(math.isfinite, values))
            summary["std"][name] = statistics.stdev(values) if is_finite else math.nan
        interval = interval_of_mean(values, overlap)
        if interval is not None:
            summary["interval"][name] = interval
    return summary


def _flat(summary: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return a summary with a name for each number, such as `eval_f1_low` and `eval_f1_high`."""
    numbers = {f"{name}_{kind}": value for kind in ("mean", "std") for name, value in summary[kind].items()}
    for name, (low, high) in summary["interval"].items():
        numbers[f"{name}_low"] = low
        numbers[f"{name}_high"] = high
    return numbers
