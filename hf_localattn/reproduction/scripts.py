"""The training scripts as a recipe names them: their arguments, and what prepares their runs."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hf_localattn.reproduction.cli_args import assignments
from hf_localattn.reproduction.entries import first_problem
from hf_localattn.training import (
    multiple_choice,
    negation,
    question_answering,
    question_generation,
    text_classification,
    token_classification,
)
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.generation import GenerationTrainingArguments
from hf_localattn.training.run import Prepare
from hf_localattn.training.search_settings import spoken

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

    def arguments(self, values: Mapping[str, Any]) -> Arguments:
        """Return the model, data and training arguments of these values by name; None stands for the default.

        Raises:
            ValueError: an unknown argument, or impossible values.
        """
        classes: tuple[Any, ...] = (ModelArguments, self.data_arguments, self.training_arguments)
        known = [name for cls in classes for name in _types(cls)]
        if unknown := [name for name in values if name not in known]:
            nearest = difflib.get_close_matches(unknown[0], known, n=1)
            raise ValueError(f"Unknown option --{unknown[0]}." + (f" Did you mean --{nearest[0]}?" if nearest else ""))
        model, data, training = (_build(cls, values) for cls in classes)
        return model, data, training


@cache
def _types(cls: type) -> dict[str, Any]:
    """Return the types of a dataclass's options by name."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _build(cls: Any, values: Mapping[str, Any]) -> Any:
    """Return a dataclass of those values that it has and that are not None."""
    types = _types(cls)
    own = {name: value for name, value in values.items() if name in types and value is not None}
    return cls(**{name: _typed(name, types[name], value) for name, value in own.items()})


def _typed(name: str, kind: Any, value: Any) -> Any:
    """Return a value in the type of its option, so that equal settings are equal: 3 is 3.0 where it is a float."""
    if isinstance(value, Mapping):
        return assignments(value)
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        if kind is str or str in get_args(kind):  # a name that YAML reads as a number
            return spoken(value)
        raise ValueError(first_problem(error, f"--{name}")) from None


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

QUIET = {"disable_tqdm": True, "log_level": "error", "report_to": "none"}
"""Arguments of a run among many."""


def argument_names() -> set[str]:
    """Return the names of the scripts' arguments for data and training."""
    classes = [own for script in SCRIPTS.values() for own in (script.data_arguments, script.training_arguments)]
    return {field.name for own in classes for field in dataclasses.fields(own) if field.init}
