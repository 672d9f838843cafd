#!/usr/bin/env python
"""Fine-tunes and evaluates a model that asks the question to a passage and an answer (SQuAD, or files like it)."""

from collections.abc import Sequence
from typing import Any

from hf_localattn.errors import one_line_errors
from hf_localattn.studies.command import prepare_command
from hf_localattn.training.arguments import ModelArguments, parse_arguments
from hf_localattn.training.console import set_up_logging
from hf_localattn.training.generation import GenerationTrainingArguments
from hf_localattn.training.question_generation import QuestionGenerationDataArguments


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the script with the given arguments (default: the command line) and returns all metrics."""
    # What the user can mend ends here, in one line, before anything is trained.
    with one_line_errors():
        model_args, data_args, training_args = parse_arguments(
            (ModelArguments, QuestionGenerationDataArguments, GenerationTrainingArguments), arguments
        )
        set_up_logging(training_args)
        command = prepare_command("question-generation", model_args, data_args, training_args)

    return command.complete()


if __name__ == "__main__":
    main()
