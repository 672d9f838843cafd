"""Search spaces: training arguments and fields of a configuration, each with Optuna's distribution of its values."""

from __future__ import annotations

import itertools
import json
import math
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hf_localattn.families import get_family
from hf_localattn.models.fields import field_types
from hf_localattn.names import NO_FAMILY
from hf_localattn.parsing import parse_json, parse_yaml, read_utf8
from hf_localattn.settings.stock import all_options
from hf_localattn.training.arguments import ModelArguments, TrainingArguments

SEARCHABLE = [name for name, option in all_options(TrainingArguments).items() if option.searchable]
"""Names of the training arguments that can be searched."""

ARGUMENT_TYPES = typing.get_type_hints(TrainingArguments)
"""Types of the training arguments."""

MOST_SETTINGS = 10_000
"""Maximum number of combinations that are tried without `--search_trials`."""

Space = dict[str, Any]
"""Distributions by name. The values of a list are stored as JSON, because Optuna does not accept lists."""


def read_space(path: str, model_args: ModelArguments) -> Space:
    """Read a search space from a file.

    The file contains a mapping of names to values: a range `{low: 1e-5, high: 1e-4, log: true}`, a list, or one value.
    A range may have `log` or `step`. Ranges of whole numbers have whole steps.

    Args:
        path: A .json file, or one in YAML.
        model_args: The model. The fields belong to the configuration of its family.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: An entry is invalid. The message names the file and the entry.
    """
    option = f"--search_space {path}"
    parse = parse_json if path.endswith(".json") else parse_yaml
    content = parse(read_utf8(path), option)
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{option}: expected names with values to try, such as learning_rate: [1e-5, 2e-5].")
    space: Space = {}
    for name, values in content.items():
        try:
            space[str(name)] = _distribution(values, _type_of(str(name), model_args))
        except ValueError as error:
            raise ValueError(f"{option}, {name}: {error}") from None
    return space


def suggest(trial: Any, name: str, distribution: Any) -> Any:
    """Return the value that Optuna chooses from a distribution for a trial."""
    if hasattr(distribution, "choices"):
        return trial.suggest_categorical(name, distribution.choices)
    suggest_number = trial.suggest_int if isinstance(distribution.low, int) else trial.suggest_float
    return suggest_number(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def setting_of(params: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Convert the parameters of an Optuna trial to values, in the order of the space."""
    return {name: _value_of(params[name]) for name in space}


def _value_of(param: Any) -> Any:
    if isinstance(param, str):
        return json.loads(param)
    if isinstance(param, float):
        return float(f"{param:.6g}")  # rounded as it is printed
    return param


def params_of(setting: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Convert values to parameters of an Optuna trial."""
    params = {}
    for name, value in setting.items():
        params[name] = json.dumps(value) if _choices(space[name]) else value
    return params


def combinations(space: Space) -> list[dict[str, Any]] | None:
    """Return all combinations of values; None if there are infinitely many or more than `MOST_SETTINGS`."""
    values = [_choices(distribution) or _steps(distribution) for distribution in space.values()]
    if not all(values) or math.prod(map(len, values)) > MOST_SETTINGS:
        return None
    return [dict(zip(space, setting, strict=True)) for setting in itertools.product(*values)]


def examples(space: Space) -> list[dict[str, Any]]:
    """Return settings that contain each choice and both ends of each range."""
    values = [_choices(distribution) or [distribution.low, distribution.high] for distribution in space.values()]
    count = max(map(len, values))
    cycles = itertools.islice(zip(*map(itertools.cycle, values), strict=True), count)
    return [dict(zip(space, setting, strict=True)) for setting in cycles]


def _choices(distribution: Any) -> list[Any]:
    return [json.loads(choice) for choice in getattr(distribution, "choices", ())]


def _steps(distribution: Any) -> list[Any]:
    """Return all values of a range; an empty list for infinitely many, or more than `MOST_SETTINGS`."""
    low = distribution.low
    high = distribution.high
    step = distribution.step
    if distribution.log or step is None or (high - low) // step >= MOST_SETTINGS:
        return []
    if isinstance(low, int):
        return list(range(low, high + 1, step))
    count = 1 + round((high - low) / step)
    return [float(f"{low + index * step:.12g}") for index in range(count)]


def _type_of(name: str, model_args: ModelArguments) -> Any:
    """Return the type of an argument or field."""
    if name in SEARCHABLE:
        return ARGUMENT_TYPES[name]
    types: dict[str, Any] = {}
    if model_args.family not in (None, NO_FAMILY):
        config: Any = get_family(str(model_args.family)).config
        types = field_types(config)
    if name not in types:
        raise ValueError(f"it cannot be searched. Search {', '.join(SEARCHABLE)}, and fields of --family.")
    return types[name]


def _distribution(values: Any, annotation: Any) -> Any:
    """Return Optuna's distribution of the values of an argument or field of a type."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(values, dict):
        choices = values if isinstance(values, list) else [values]
        stored = [json.dumps(_typed(choice, annotation)) for choice in choices]
        return CategoricalDistribution(list(dict.fromkeys(stored)))
    limits = {}
    for name, value in values.items():
        if value is not None:
            limits[name] = value if name == "log" else _typed(value, annotation)
    are_known = {"low", "high"} <= limits.keys() <= {"low", "high", "log", "step"}
    if not are_known or not all(_is_finite(limits[end]) for end in ("low", "high")):
        raise ValueError(
            "give a list, or a range of numbers, such as {low: 1e-5, high: 1e-4, log: true} or with a step."
        )
    return (IntDistribution if type(limits["low"]) is int else FloatDistribution)(**limits)


def _typed(value: Any, annotation: Any) -> Any:
    """Return a value of a type. YAML 1.1 reads some numbers as text (1e-4)."""
    try:
        return TypeAdapter(annotation).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"{value!r}: {error.errors()[0]['msg']}.") from None


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
