"""The training scripts as a recipe names them: their arguments, and what prepares their runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hf_localattn.training import (
    multiple_choice,
    negation,
    question_answering,
    question_generation,
    text_classification,
    token_classification,
)
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments, parse_arguments
from hf_localattn.training.generation import GenerationTrainingArguments
from hf_localattn.training.run import Prepare

Arguments = tuple[ModelArguments, Any, TrainingArguments]


@dataclass(frozen=True)
class Script:
    """One of the scripts at the root of the repository.

    Args:
        data_arguments, training_arguments: the classes of its arguments.
        prepare: gives the task's `prepare`, of its data arguments.
    """

    data_arguments: type[DataArguments]
    prepare: Callable[[Any], Prepare]
    training_arguments: type[TrainingArguments] = TrainingArguments

    def parse(self, words: Sequence[str]) -> Arguments:
        """Return the model, data and training arguments of a command line.

        Raises:
            ValueError: an unknown option, or impossible values.
        """
        return parse_arguments((ModelArguments, self.data_arguments, self.training_arguments), words)


def _prepare_words(data_args: token_classification.TokenClassificationDataArguments) -> Prepare:
    is_negation = data_args.task_name == token_classification.NEGATION
    return negation.prepare if is_negation else token_classification.prepare


SCRIPTS = {
    "run_glue": Script(
        text_classification.TextClassificationDataArguments, lambda data_args: text_classification.prepare
    ),
    "run_ner": Script(token_classification.TokenClassificationDataArguments, _prepare_words),
    "run_qa": Script(question_answering.QuestionAnsweringDataArguments, lambda data_args: question_answering.prepare),
    "run_qg": Script(
        question_generation.QuestionGenerationDataArguments,
        lambda data_args: question_generation.prepare,
        GenerationTrainingArguments,
    ),
    "run_swag": Script(multiple_choice.MultipleChoiceDataArguments, lambda data_args: multiple_choice.prepare),
}
"""The scripts by name."""

QUIET = ("--disable_tqdm", "true", "--log_level", "error", "--report_to", "none")
"""Arguments of a run among many."""


def argument_names() -> set[str]:
    """Return the names of the scripts' arguments for data and training."""
    classes = [own for script in SCRIPTS.values() for own in (script.data_arguments, script.training_arguments)]
    return {field.name for own in classes for field in dataclasses.fields(own) if field.init}
