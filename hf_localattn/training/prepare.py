"""What a command asks for: one run, one for each fold, or one for each trial of a search."""

from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.cross_validation import CrossValidation
from hf_localattn.training.run import Prepare, Run
from hf_localattn.training.search import Search


def prepare_run(
    prepare: Prepare, model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> Run | CrossValidation | Search:
    """Return what a task prepares: one run, or with `data_args.folds` or `training_args.search` several.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
        ImportError: an option needs an extra that is not installed.
    """
    if training_args.search is not None:
        return Search(prepare, model_args, data_args, training_args)
    if data_args.folds is not None:
        return CrossValidation(prepare, model_args, data_args, training_args)
    return prepare(model_args, data_args, training_args)
