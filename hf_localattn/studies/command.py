"""Training commands: one run, one for each fold, or one for each trial of a search."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from hf_localattn.claims import claimed
from hf_localattn.errors import exit_on_user_error
from hf_localattn.files import remove_leftovers
from hf_localattn.studies.cross_validation import CrossValidation, check_arguments
from hf_localattn.studies.processes import RunFailed, finished
from hf_localattn.studies.search import Search
from hf_localattn.studies.study import Study, given_options
from hf_localattn.tasks import Task
from hf_localattn.training.arguments import ModelArguments, parse_arguments, set_up_logging


def run_script(task: type[Task], arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run a training script: parse and check its arguments, then train, evaluate and predict.

    User errors end the program with one line, before training if possible.

    Args:
        task: the task of the script.
        arguments: words of the command line, or only the path of a .json file of options. Defaults to `sys.argv[1:]`.

    Returns:
        All metrics.
    """
    words = sys.argv[1:] if arguments is None else arguments
    classes = (ModelArguments, task.DataArguments, task.TrainingArguments)
    with ExitStack() as claim:
        with exit_on_user_error():
            model_args, data_args, training_args = parse_arguments(classes, words)
            set_up_logging(training_args)
            is_study = training_args.search_space is not None or data_args.num_folds is not None
            options = given_options(classes, words) if is_study else {}
            execute = prepare(Study(task, model_args, data_args, training_args, options), claim)
        with exit_on_user_error(OSError, RunFailed):
            return execute()


def prepare(study: Study, claim: ExitStack) -> Callable[[], dict[str, float]]:
    """Lock the output folder, and prepare a run, a cross-validation or a search.

    Args:
        study: the command.
        claim: context to which the lock of the folder is added.

    Returns:
        Function that executes it and returns the metrics.

    Raises:
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded, or another process uses the
            output folder.
        ImportError: an option needs an extra that is not installed.
    """
    training_args, fold = study.training_args, study.data_args.fold
    is_search = training_args.search_space is not None
    has_folds = study.data_args.num_folds is not None and not is_search
    _check_workers(study, is_study=is_search or (has_folds and fold is None))
    if has_folds:
        check_arguments(training_args)
    whole, arguments = study, study.arguments() if has_folds else {}
    if has_folds and fold is not None:
        whole.check_folder(arguments)
        study = study.of_fold(fold)
    if training_args.process_index == 0:  # one process locks the folder for all processes of the run
        claim.enter_context(claimed(study.folder))
        remove_leftovers(study.folder)
    if is_search:
        return Search(study).execute
    if has_folds and fold is None:
        return CrossValidation(study, arguments).execute
    if has_folds and (metrics := finished(study.folder)) is not None:
        return lambda: metrics
    run = study.prepare()
    if has_folds:
        whole.save(arguments)
    return run.execute


def _check_workers(study: Study, *, is_study: bool) -> None:
    args = study.training_args
    if is_study and args.world_size > 1:
        raise ValueError(
            "Folds and trials are processes: run the script without torchrun or accelerate launch, or give one --fold."
        )
    if args.workers == 1 and args.ray_address is None:
        return
    given = f"--workers {args.workers}" if args.ray_address is None else f"--ray_address {args.ray_address}"
    if not is_study:
        raise ValueError(
            f"{given} runs folds or trials of a search in parallel: give --num_folds or --search_space, or leave it"
            " out. To train one model on several GPUs use torchrun or accelerate launch."
        )
