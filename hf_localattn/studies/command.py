"""Training commands: one run, one for each fold, or one for each trial of a search."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from hf_localattn.claims import claimed
from hf_localattn.errors import exit_on_user_error
from hf_localattn.extras import require_train
from hf_localattn.files import remove_leftovers
from hf_localattn.studies.cross_validation import CrossValidation
from hf_localattn.studies.executors import TrialFailed
from hf_localattn.studies.search import Search
from hf_localattn.tasks import DataArguments, Task, choose_task
from hf_localattn.tasks.run import Run, prepare_run
from hf_localattn.tasks.streaming import check_streaming
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from hf_localattn.training.console import set_up_logging


class Command:
    """A run or study with its output folder. The folder is locked for other processes until the command ends.

    Args:
        work: the run, cross-validation or search.
        folder: the output folder.
        claim: context that unlocks the folder when it is closed.
    """

    def __init__(self, work: Run | CrossValidation | Search, folder: Path, claim: ExitStack):
        self.work, self.folder, self.claim = work, folder, claim

    def execute(self) -> dict[str, float]:
        """Execute the run or study and return all metrics.

        If the disk is full or a trial has failed in a worker, the program exits with a one-line error.
        """
        with self.claim, exit_on_user_error(OSError, TrialFailed):
            return self.work.execute()


def run_script(task: type[Task], arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run a training script: parse and check its arguments, then train, evaluate and predict.

    Args:
        task: the task of the script.
        arguments: words of the command line. Defaults to `sys.argv[1:]`.

    Returns:
        All metrics.
    """
    # User errors end the program here with one line, before training.
    with exit_on_user_error():
        classes = (ModelArguments, task.DataArguments, task.TrainingArguments)
        model_args, data_args, training_args = parse_arguments(classes, arguments)
        require_train("The script")
        set_up_logging(training_args)
        command = prepare_command(task, model_args, data_args, training_args)
    return command.execute()


def prepare_command(
    task: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Command:
    """Lock the output folder and prepare a run, a cross-validation or a search.

    Args:
        task: one of `hf_localattn.tasks.TASKS`.
        model_args: the model.
        data_args: the data, an instance of `task.DataArguments`.
        training_args: the training arguments, an instance of `task.TrainingArguments`.

    Raises:
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded, or another process uses the
            output folder.
        ImportError: an option needs an extra that is not installed.
    """
    _check_workers(data_args, training_args)
    check_streaming(choose_task(task, data_args), data_args, training_args)
    folder = Path(training_args.output_dir)
    with ExitStack() as claim:
        if data_args.fold is not None:
            folder = folder / f"fold-{data_args.fold}"
        if training_args.process_index == 0:  # one process locks the folder for all processes of the run
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
            f"{given} runs folds or trials of a search in parallel: give --num_folds or --search_space, or leave it"
            " out. To train one model on several GPUs use torchrun or accelerate launch."
        )
    if training_args.world_size > 1:
        raise ValueError(f"{given} starts processes itself: run the script without torchrun or accelerate launch.")
