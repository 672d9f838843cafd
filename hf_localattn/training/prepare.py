"""What a command asks for: one run, one for each fold, or one for each trial of a search."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from hf_localattn.claims import claimed
from hf_localattn.errors import one_line_errors
from hf_localattn.files import CannotWrite, remove_leftovers, writing
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.cross_validation import CrossValidation
from hf_localattn.training.run import Prepare, Run
from hf_localattn.training.search import Search


class Command:
    """What is left to do in an output folder that no other process can write to until it is done.

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


def prepare_run(
    prepare: Prepare, model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Command:
    """Claim the output folder, and return what a task prepares: one run, or several for folds or a search.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used, or another process is at the output folder.
        ImportError: an option needs an extra that is not installed.
    """
    folder = Path(training_args.output_dir)
    with ExitStack() as claim:
        if training_args.process_index == 0:  # for all processes of the run
            claim.enter_context(claimed(folder))
            remove_leftovers(folder)
        work = _prepare(prepare, model_args, data_args, training_args)
        return Command(work, folder, claim.pop_all())


def _prepare(
    prepare: Prepare, model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Run | CrossValidation | Search:
    if training_args.search is not None:
        return Search(prepare, model_args, data_args, training_args)
    if data_args.folds is not None:
        return CrossValidation(prepare, model_args, data_args, training_args)
    return prepare(model_args, data_args, training_args)
