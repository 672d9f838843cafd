"""Arguments of the training scripts by name, and their conversion to trials and command lines."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

import hf_localattn
from hf_localattn.assignments import format_assignments, format_value
from hf_localattn.data.folds import Fold
from hf_localattn.studies.trial import Trial
from hf_localattn.tasks import (
    MultipleChoice,
    QuestionAnswering,
    QuestionGeneration,
    Task,
    TextClassification,
    TokenClassification,
)
from hf_localattn.training.arguments import ModelArguments

SCRIPTS: dict[str, type[Task]] = {
    "run_glue": TextClassification,
    "run_ner": TokenClassification,
    "run_qa": QuestionAnswering,
    "run_qg": QuestionGeneration,
    "run_swag": MultipleChoice,
}
"""The task of each script at the root of the repository."""

PACKAGE = Path(hf_localattn.__file__).resolve().parent

COMMON = {"disable_tqdm": True, "log_level": "error", "report_to": "none", "save_total_limit": 1}
"""Arguments of all runs. They override the arguments of a table."""


def make_trial(script: str, values: Mapping[str, Any], seed: int = 0, fold: Fold | None = None) -> Trial:
    """Return a trial of a script.

    Args:
        script: a name in `SCRIPTS`.
        values: arguments by name. None means the default value. A mapping becomes a list of `name=value`.
        seed: random seed of the run.
        fold: fold of the data that the run uses. Defaults to all data.

    Raises:
        ValueError: an argument is unknown, or its value has another type.
    """
    task = SCRIPTS[script]
    classes = (ModelArguments, *_own_classes(task))
    known = [name for cls in classes for name in _types(cls)]
    if unknown := [name for name in values if name not in known]:
        raise ValueError(f"Unknown option --{unknown[0]}.")
    model, data, training = (_typed_values(cls, values) for cls in classes)
    return Trial(task.name, model, data, {**training, **COMMON}, seed, fold)


def argument_names() -> set[str]:
    """Return the names of the scripts' arguments for data and training."""
    return {name for task in SCRIPTS.values() for cls in _own_classes(task) for name in _types(cls)}


def _own_classes(task: type[Task]) -> tuple[type, type]:
    return task.DataArguments, task.TrainingArguments


@cache
def _types(cls: type) -> dict[str, Any]:
    """Return the types of a dataclass's options by name."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _typed_values(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a dataclass's fields, converted to their types. None values are left out."""
    types = _types(cls)
    own = {name: value for name, value in values.items() if name in types and value is not None}
    return {name: _typed(name, types[name], value) for name, value in own.items()}


def _typed(name: str, kind: Any, value: Any) -> Any:
    """Convert a value to the type of its option, such as 3 to 3.0. Equal settings then compare equal."""
    if isinstance(value, Mapping):
        return format_assignments(value)
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        if kind is str or str in get_args(kind):  # YAML reads some names as numbers
            return format_value(value)
        raise ValueError(f"--{name}: {error.errors()[0]['msg']}; found {value!r}.") from None


def to_cli_args(arguments: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line.

    Args:
        arguments: values by name. A list becomes several words. A mapping becomes one `name=value` word per entry.
            None and empty mappings are left out.
    """
    words = []
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            words += [f"--{name}", *format_assignments(value)] if value else []
        elif value is not None:
            words += [f"--{name}", *map(format_value, value if isinstance(value, list | tuple) else [value])]
    return words


def to_command_line(arguments: Mapping[str, Any]) -> str:
    """Format arguments for a shell, without absolute paths.

    `$DATA` stands for a folder of data, encoders and parsers. Files of this package are relative to the folder of the
    scripts.
    """
    return " ".join(map(_shell_word, to_cli_args(arguments)))


def _shell_word(word: str) -> str:
    told = _portable(word)
    return f'"{told}"' if "$" in told else shlex.quote(told)


def _portable(word: str) -> str:
    name, equals, value = word.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return word
    if path.is_relative_to(PACKAGE):
        return f"{name}{equals}{path.relative_to(PACKAGE.parent)}"
    end = Path(path.parent.name, path.name) if path.is_file() else path.name
    return f"{name}{equals}$DATA/{end}"
