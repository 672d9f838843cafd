"""The work of a training command: one run, one for each fold, or one for each trial of a search."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from hf_localattn.claims import claimed
from hf_localattn.errors import exit_on_user_error
from hf_localattn.files import CannotWrite, remove_leftovers, writing
from hf_localattn.studies.cross_validation import CrossValidation
from hf_localattn.studies.executors import TrialFailed
from hf_localattn.studies.search import Search
from hf_localattn.tasks import DataArguments, Task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from hf_localattn.training.console import set_up_logging
from hf_localattn.training.run import Run, prepare_run, training_arguments_of


class Command:
    """Work in an output folder that no other process can write to until it is done.

    Args:
        work: the runs, ready to go.
        folder: the output folder.
        claim: releases the folder when it is closed.
    """

    def __init__(self, work: Run | CrossValidation | Search, folder: Path, claim: ExitStack):
        self.work, self.folder, self.claim = work, folder, claim

    def execute(self) -> dict[str, float]:
        """Do it, and return all metrics.

        Without room to write, or if trials failed in workers, the program ends with one line.
        """
        with self.claim, exit_on_user_error(CannotWrite, TrialFailed), writing(self.folder):
            return self.work.execute()


def run_script(task: type[Task], arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run a script: parse its arguments, check all that can be checked, and complete it.

    Args:
        task: the task of the script.
        arguments: words of the command line; by default those of this process.

    Returns:
        All metrics.
    """
    # What the user can mend ends here, in one line, before anything is trained.
    with exit_on_user_error():
        classes = (ModelArguments, task.DataArguments, training_arguments_of(task))
        model_args, data_args, training_args = parse_arguments(classes, arguments)
        set_up_logging(training_args)
        command = prepare_command(task, model_args, data_args, training_args)
    return command.execute()


def prepare_command(
    task: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Command:
    """Claim the output folder, and prepare the work there: one run, or several for folds or a search.

    Args:
        task: one of `hf_localattn.tasks.TASKS`.
        model_args, data_args, training_args: the parsed arguments, of the task's classes.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used, or another process is at the output folder.
        ImportError: an option needs an extra that is not installed.
    """
    _check_workers(data_args, training_args)
    folder = Path(training_args.output_dir)
    with ExitStack() as claim:
        if training_args.process_index == 0:  # for all processes of the run
            claim.enter_context(claimed(folder))
            remove_leftovers(folder)
        work = _prepare(task, model_args, data_args, training_args)
        return Command(work, folder, claim.pop_all())


def _prepare(
    task: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Run | CrossValidation | Search:
    if training_args.search_space is not None:
        return Search(task, model_args, data_args, training_args)
    if data_args.num_folds is not None:
        return CrossValidation(task, model_args, data_args, training_args)
    return prepare_run(task, model_args, data_args, training_args)


def _check_workers(data_args: DataArguments, training_args: TrainingArguments) -> None:
    if training_args.workers == 1 and training_args.ray_address is None:
        return
    given = f"--workers {training_args.workers}"
    if training_args.ray_address is not None:
        given = f"--ray_address {training_args.ray_address}"
    if training_args.search_space is None and data_args.num_folds is None:
        raise ValueError(
            f"{given} runs folds or trials of a search side by side: give --num_folds or --search_space, or leave it"
            " out. One run on several GPUs is started by torchrun or accelerate launch."
        )
    if training_args.world_size > 1:
        raise ValueError(f"{given} starts processes of its own: start it without torchrun or accelerate launch.")
