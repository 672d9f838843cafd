#!/usr/bin/env python
"""Fine-tunes and evaluates a model for extractive question answering (SQuAD 1.1, SQuAD 2.0, or files like them)."""

from collections.abc import Sequence

from hf_localattn.errors import one_line_errors
from hf_localattn.training import question_answering as qa
from hf_localattn.training.arguments import (
    ModelArguments,
    QuestionAnsweringDataArguments,
    TrainingArguments,
    parse_arguments,
)
from hf_localattn.training.console import set_up_logging


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Runs the script with the given arguments (default: the command line) and returns all metrics."""
    # What the user can mend ends here, in one line, before anything is trained.
    with one_line_errors():
        model_args, data_args, training_args = parse_arguments(
            (ModelArguments, QuestionAnsweringDataArguments, TrainingArguments), arguments
        )
        set_up_logging(training_args)
        trainer, data = qa.prepare(model_args, data_args, training_args)

    metrics = qa.train(trainer)
    metrics |= qa.evaluate(trainer)
    metrics |= qa.predict(trainer, data)
    qa.share(trainer, model_args, data_args)
    return metrics


if __name__ == "__main__":
    main()
