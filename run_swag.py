#!/usr/bin/env python
"""Fine-tunes and evaluates a model that chooses the right one of several texts (SWAG, or data like it)."""

from collections.abc import Sequence

from hf_localattn.errors import one_line_errors
from hf_localattn.studies.command import prepare_command
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from hf_localattn.training.console import set_up_logging
from hf_localattn.training.multiple_choice import MultipleChoiceDataArguments


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Runs the script with the given arguments (default: the command line) and returns all metrics."""
    # What the user can mend ends here, in one line, before anything is trained.
    with one_line_errors():
        model_args, data_args, training_args = parse_arguments(
            (ModelArguments, MultipleChoiceDataArguments, TrainingArguments), arguments
        )
        set_up_logging(training_args)
        command = prepare_command("multiple-choice", model_args, data_args, training_args)

    return command.complete()


if __name__ == "__main__":
    main()
