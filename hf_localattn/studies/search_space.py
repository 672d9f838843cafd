"""Search spaces: training arguments and fields of a configuration, each with a range or a list of values."""

from __future__ import annotations

import difflib
import itertools
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hf_localattn.models.configuration_local_attention import field_types
from hf_localattn.names import PLAIN
from hf_localattn.parsing import parse_json, parse_yaml, read_utf8
from hf_localattn.registry import get_family
from hf_localattn.training.arguments import ModelArguments, TrainingArguments

SEARCHABLE = (
    *("learning_rate", "local_learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size"),
    *("gradient_accumulation_steps", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm", "optim"),
    *("adam_beta1", "adam_beta2", "adam_epsilon", "lookahead_steps", "lookahead_alpha"),
)
"""Training arguments that can be searched."""

ARGUMENT_TYPES = typing.get_type_hints(TrainingArguments)
"""Types of the training arguments: HfArgumentParser replaces optional ones in the dataclass later."""

MOST_SETTINGS = 10_000
"""Maximum number of combinations that are tried without `--search_trials`."""


@dataclass(frozen=True)
class Dimension:
    """Values of an argument or field.

    Attributes:
        distribution: Optuna's distribution of the values. Values of a list are stored as JSON.
        values: all values; None if there are infinitely many or more than `MOST_SETTINGS`.
    """

    distribution: Any
    values: list[Any] | None

    def value(self, stored: Any) -> Any:
        """Convert a value drawn by Optuna."""
        if isinstance(stored, str):
            return json.loads(stored)
        return stored if isinstance(stored, int) else float(f"{stored:.6g}")  # rounded as it is printed

    def stored(self, value: Any) -> Any:
        """Convert a value for Optuna, which does not accept lists."""
        return json.dumps(value) if hasattr(self.distribution, "choices") else value

    @property
    def examples(self) -> list[Any]:
        """Values to validate: all of a list, both ends of a range."""
        ends = self.distribution
        return [*map(self.value, ends.choices)] if hasattr(ends, "choices") else [ends.low, ends.high]


class SearchSpace(dict[str, Dimension]):
    """Dimensions by name."""

    @property
    def fields(self) -> list[str]:
        """Names of the fields of the family's configuration."""
        return [name for name in self if name not in SEARCHABLE]

    def combinations(self) -> list[dict[str, Any]] | None:
        """Return all combinations of values; None if there are infinitely many or more than `MOST_SETTINGS`."""
        finite = [own.values for own in self.values() if own.values is not None]
        if len(finite) < len(self) or math.prod(map(len, finite)) > MOST_SETTINGS:
            return None
        return [dict(zip(self, setting, strict=True)) for setting in itertools.product(*finite)]

    def examples(self) -> list[dict[str, Any]]:
        """Return settings that contain each choice and both ends of each range."""
        examples = {name: own.examples for name, own in self.items()}
        count = max(map(len, examples.values()))
        return [{name: own[number % len(own)] for name, own in examples.items()} for number in range(count)]

    def stored(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a setting to Optuna's parameters."""
        return {name: self[name].stored(value) for name, value in setting.items()}

    def setting(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the parameters of an Optuna trial to a setting."""
        return {name: own.value(params[name]) for name, own in self.items()}


def read_space(path: str, model_args: ModelArguments) -> SearchSpace:
    """Read a search space from a file.

    The file contains a mapping of names to values: a range `{low: 1e-5, high: 1e-4, log: true}`, a list, or one value.
    A range may have `log` or `step`. Ranges of whole numbers have whole steps.

    Args:
        path: a .yaml, .yml or .json file.
        model_args: the model. The fields belong to the configuration of its family.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: an entry is invalid. The message names the file and the entry.
    """
    content = _read(Path(path))
    if not isinstance(content, dict) or not content:
        raise ValueError(
            f"--search_space {path}: expected names with values to try, such as learning_rate: [1e-5, 2e-5]."
        )
    space = SearchSpace()
    for name, values in content.items():
        try:
            space[str(name)] = _dimension(values, _type_of(str(name), model_args))
        except ValueError as error:
            raise ValueError(f"--search_space {path}, {name}: {error}") from None
    return space


def _read(path: Path) -> Any:
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(f"--search_space {path}: must be a .yaml or .json file.")
    if not path.is_file():
        raise FileNotFoundError(f"--search_space {path}: no such file.")
    text, name = read_utf8(path), f"--search_space {path}"
    return parse_json(text, name) if path.suffix == ".json" else parse_yaml(text, name)


def _type_of(name: str, model_args: ModelArguments) -> Any:
    """Return the type of an argument or field."""
    if name in SEARCHABLE:
        return ARGUMENT_TYPES[name]
    family = None if model_args.family in (None, PLAIN) else get_family(str(model_args.family))
    if name in ARGUMENT_TYPES or (family is not None and name in family.tokenizer_settings):
        raise ValueError(f"this is the same for all trials; search {', '.join(SEARCHABLE)}, and fields of --family.")
    config_class: Any = None if family is None else family.config
    types = {} if family is None else field_types(config_class)
    if name not in types:
        nearest = difflib.get_close_matches(name, [*SEARCHABLE, *types], n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"no such argument or field.{hint}")
    return types[name]


def _dimension(values: Any, kind: Any) -> Dimension:
    """Return the values of an argument or field of a type."""
    import optuna

    def typed(value: Any) -> Any:  # YAML 1.1 reads some numbers as text (1e-4)
        try:
            return TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            raise ValueError(f"{value!r}: {error.errors()[0]['msg']}.") from None

    if not isinstance(values, dict):
        choices = [typed(value) for value in (values if isinstance(values, list) else [values])]
        stored = [json.dumps(value) for value in choices]
        if len(set(stored)) < len(stored):
            raise ValueError("the list contains a value twice: remove one of them.")
        return Dimension(optuna.distributions.CategoricalDistribution(stored), choices)
    if not {"low", "high"} <= set(values) <= {"low", "high", "log", "step"}:
        raise ValueError("a range has low and high, and log or step, such as {low: 1e-5, high: 1e-4, log: true}.")
    ends = {name: None if value is None else typed(value) for name, value in values.items() if name != "log"}
    low, high, step = (ends.get(name) for name in ("low", "high", "step"))
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)):
        raise ValueError("only numbers have ranges: give a list of values.")
    assert low is not None
    assert high is not None
    numbers: Any
    log = values.get("log", False)
    if isinstance(low, int):
        numbers = optuna.distributions.IntDistribution(low, high, log=log, step=step or 1)
        count = 1 + (high - low) // numbers.step
    else:
        numbers = optuna.distributions.FloatDistribution(low, high, log=log, step=step)
        count = math.inf if step is None else 1 + math.floor((high - low) / step + 1e-9)
    if log or count > MOST_SETTINGS:
        return Dimension(numbers, None)
    every = (low + number * numbers.step for number in range(int(count)))
    return Dimension(numbers, [one if isinstance(one, int) else float(f"{one:.12g}") for one in every])
