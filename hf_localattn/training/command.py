"""The command of a script: one run, one for each fold, or one for each trial of a search."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from hf_localattn.claims import claimed
from hf_localattn.errors import one_line_errors
from hf_localattn.files import CannotWrite, remove_leftovers, writing
from hf_localattn.tasks import DataArguments, Task, choose_task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from hf_localattn.training.console import set_up_logging
from hf_localattn.training.cross_validation import CrossValidation
from hf_localattn.training.generation import GenerationTrainingArguments
from hf_localattn.training.run import Run, prepare_run
from hf_localattn.training.search import Search


class Command:
    """Work in an output folder that no other process can write to until it is done.

    Args:
        work: ready to go.
        folder: the output folder.
        claim: closed at the end.
    """

    def __init__(self, work: Run | CrossValidation | Search, folder: Path, claim: ExitStack):
        self.work, self.folder, self.claim = work, folder, claim

    def complete(self) -> dict[str, float]:
        """Do it, and return all metrics; without room to write the program ends with one line."""
        with self.claim, one_line_errors(CannotWrite), writing(self.folder):
            return self.work.complete()


def run_script(task: type[Task], arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run a script: parse its arguments, check all that can be checked, and complete it.

    Args:
        task: of the script.
        arguments: words of the command line; by default those of this process.

    Returns:
        All metrics.
    """
    # What the user can mend ends here, in one line, before anything is trained.
    with one_line_errors():
        classes = (ModelArguments, task.DataArguments, training_arguments_of(task))
        model_args, data_args, training_args = parse_arguments(classes, arguments)
        set_up_logging(training_args)
        command = prepare_command(choose_task(task, data_args), model_args, data_args, training_args)
    return command.complete()


def training_arguments_of(task: type[Task]) -> type[TrainingArguments]:
    """Return the class of a task's training arguments."""
    return GenerationTrainingArguments if task.generates else TrainingArguments


def prepare_command(
    task: type[Task], model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Command:
    """Claim the output folder, and prepare one run, or several for folds or a search.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used, or another process is at the output folder.
        ImportError: an option needs an extra that is not installed.
    """
    folder = Path(training_args.output_dir)
    prepare = partial(prepare_run, task)
    work: Run | CrossValidation | Search
    with ExitStack() as claim:
        if training_args.process_index == 0:  # for all processes of the run
            claim.enter_context(claimed(folder))
            remove_leftovers(folder)
        if training_args.search is not None:
            work = Search(prepare, model_args, data_args, training_args)
        elif data_args.folds is not None:
            work = CrossValidation(prepare, model_args, data_args, training_args)
        else:
            work = prepare(model_args, data_args, training_args)
        return Command(work, folder, claim.pop_all())
