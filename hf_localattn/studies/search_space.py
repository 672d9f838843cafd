"""Search spaces: training arguments and fields of a configuration, each with a range or a list of values."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

# Types do not come from `dataclasses.fields`, because HfArgumentParser replaces optional types there.
ARGUMENT_TYPES = {name: str(kind) for name, kind in typing.get_type_hints(TrainingArguments).items()}


MOST_SETTINGS = 10_000
"""Maximum number of combinations that are tried without `--search_trials`."""


@dataclass(frozen=True)
class Range:
    """A range of numbers.

    Attributes:
        low: smallest value.
        high: largest value, included.
        log: draw values from a log-uniform distribution.
        step: distance between values. Defaults to 1 for whole numbers, and to None for other numbers.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    @property
    def values(self) -> list[float] | None:
        """All values; None if there are infinitely many or more than `MOST_SETTINGS`."""
        step = self.step or (1 if isinstance(self.low, int) and not self.log else None)
        if step is None:
            return None
        if (steps := (self.high - self.low) / step) > MOST_SETTINGS:
            return None
        count = math.floor(steps + 1e-9) + 1
        numbers = (self.low + number * step for number in range(count))
        return [number if isinstance(number, int) else float(f"{number:.12g}") for number in numbers]

    @property
    def examples(self) -> list[float]:
        """Boundary values to validate."""
        return [self.low, self.high]

    def distribution(self, optuna: Any) -> Any:
        """Return the Optuna distribution of the values."""
        if isinstance(self.low, int):
            return optuna.distributions.IntDistribution(self.low, self.high, log=self.log, step=self.step or 1)
        return optuna.distributions.FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def value(self, stored: float) -> float:
        """Convert a number drawn by Optuna to the value of the trial."""
        return stored if isinstance(self.low, int) else float(f"{stored:.6g}")  # rounded as it is printed

    def stored(self, value: float) -> Any:
        """Convert a value to the number that Optuna stores."""
        return value


@dataclass(frozen=True)
class Choices:
    """One of several values of any type."""

    values: list[Any]

    @property
    def examples(self) -> list[Any]:
        """Values to validate."""
        return self.values

    def distribution(self, optuna: Any) -> Any:
        """Return the Optuna distribution of the values."""
        return optuna.distributions.CategoricalDistribution([self.stored(value) for value in self.values])

    def value(self, stored: str) -> Any:
        """Convert a text drawn by Optuna to the value of the trial."""
        return json.loads(stored)

    def stored(self, value: Any) -> Any:
        """Convert a value to text for Optuna, because Optuna does not accept lists."""
        return json.dumps(value)


@dataclass(frozen=True)
class SearchSpace:
    """A search space.

    Attributes:
        arguments: values of training arguments, by name.
        fields: values of fields of the family's configuration, by name.
    """

    arguments: dict[str, Range | Choices]
    fields: dict[str, Range | Choices]

    @property
    def dimensions(self) -> dict[str, Range | Choices]:
        """Values of all arguments and fields, by name."""
        return {**self.arguments, **self.fields}

    def combinations(self) -> list[dict[str, Any]] | None:
        """Return all combinations of values; None if there are infinitely many or more than `MOST_SETTINGS`."""
        values = [own.values for own in self.dimensions.values()]
        finite = [own for own in values if own is not None]
        if len(finite) < len(values) or math.prod(map(len, finite)) > MOST_SETTINGS:
            return None
        return [dict(zip(self.dimensions, setting, strict=True)) for setting in itertools.product(*finite)]

    def examples(self) -> list[dict[str, Any]]:
        """Return settings that contain each choice and both ends of each range."""
        examples = {name: own.examples for name, own in self.dimensions.items()}
        count = max(map(len, examples.values()))
        return [{name: own[number % len(own)] for name, own in examples.items()} for number in range(count)]

    def stored(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a setting to Optuna's parameters."""
        return {name: self.dimensions[name].stored(value) for name, value in setting.items()}

    def distributions(self, optuna: Any) -> dict[str, Any]:
        """Return the Optuna distribution of each argument and field."""
        return {name: own.distribution(optuna) for name, own in self.dimensions.items()}

    def setting(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the parameters of an Optuna trial to a setting."""
        return {name: own.value(params[name]) for name, own in self.dimensions.items()}


def read_space(path: str, model_args: ModelArguments) -> SearchSpace:
    """Read a search space from a file.

    The file contains a mapping of names to values: a range `{low: 1e-5, high: 1e-4, log: true}`, a list, or one value.
    A range may have `log` or `step`. Ranges of whole numbers have whole steps.

    Args:
        path: a .yaml, .yml or .json file.
        model_args: the model. The fields belong to the configuration of its family.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: an entry is invalid. The message names the file, the entry and a remedy.
    """
    content = _read(Path(path))
    if not isinstance(content, dict) or not content:
        raise ValueError(
            f"--search_space {path}: expected names with values to try, such as learning_rate: [1e-5, 2e-5]."
        )
    fields: dict[str, str] = {}
    settings: tuple[str, ...] = ()
    if model_args.family not in (None, PLAIN):
        family = get_family(str(model_args.family))
        # Types stay text, because `typing.get_type_hints` fails on transformers' configurations: their module imports
        # some names in annotations for type checkers only.
        fields = {field.name: str(field.type) for field in dataclasses.fields(family.config)}
        config_class: Any = family.config  # for a function with a cache
        fields |= {name: _plain(kind) for name, kind in field_types(config_class).items()}
        settings = family.tokenizer_settings
    space = SearchSpace({}, {})
    for name, values in content.items():
        try:
            if name in SEARCHABLE:
                space.arguments[name] = _dimension(values, ARGUMENT_TYPES[name])
                continue
            if name in settings or name in ARGUMENT_TYPES:
                cause = "is a setting of the tokenizer" if name in settings else "is the same for all trials"
                raise ValueError(
                    f"this {cause} and cannot be searched; give {', '.join(SEARCHABLE)}, and fields of --family."
                )
            _check_field(str(name), model_args.family, fields)
            space.fields[name] = _dimension(values, fields[name])
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


def _check_field(name: str, family: str | None, fields: Mapping[str, str]) -> None:
    try:
        if fields:
            get_family(str(family)).split_fields({name: None})
            return
    except ValueError as error:
        if nearest := difflib.get_close_matches(name, SEARCHABLE, n=1):
            raise ValueError(f"no such argument or field. Did you mean {nearest[0]!r}?") from None
        raise error
    nearest = difflib.get_close_matches(name, SEARCHABLE, n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else " Fields of a configuration need --family and --backbone."
    raise ValueError(f"no such argument.{hint}")


def _plain(kind: Any) -> str:
    """Return the text of an annotation without the bounds of its values."""
    if typing.get_origin(kind) is typing.Annotated:
        return _plain(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " | ".join(map(_plain, typing.get_args(kind)))
    return getattr(kind, "__name__", str(kind)) if isinstance(kind, type) else str(kind)


def _dimension(values: Any, kind: str) -> Range | Choices:
    """Parse the values of an argument or field; `kind` is its annotation."""
    if isinstance(values, dict):
        return _range(values, kind)
    choices = [_value(value, kind) for value in (values if isinstance(values, list) else [values])]
    if not choices:
        raise ValueError("the list is empty: give at least one value.")
    if len({json.dumps(value) for value in choices}) < len(choices):
        raise ValueError("the list contains a value twice: remove one of them.")
    return Choices(choices)


def _range(found: dict[str, Any], kind: str) -> Range:
    names = [field.name for field in dataclasses.fields(Range)]
    for name in found:
        if name not in names:
            nearest = difflib.get_close_matches(str(name), names, n=1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            raise ValueError(f"a range has {', '.join(names)}, not {name!r}.{hint}")
    if not {"low", "high"} <= set(found):
        raise ValueError("a range needs low and high, such as {low: 1e-5, high: 1e-4}; or give a list.")
    if not _is_number(kind):
        raise ValueError("only numbers have ranges: give a list of values.")
    low, high = _value(found["low"], kind), _value(found["high"], kind)
    log, step = found.get("log", False), found.get("step")
    step = None if step is None else _value(step, kind)
    if not isinstance(log, bool):
        raise ValueError(f"log must be true or false; got {log!r}.")
    if low is None or high is None or not low < high:
        raise ValueError(f"low must be below high; got {low} and {high}.")
    if log and low <= 0:
        raise ValueError(f"low must be above 0 in a range with log; got {low}.")
    if log and step is not None:
        raise ValueError("a range can have log or step, not both.")
    if step is not None and not 0 < step <= high - low:
        raise ValueError(f"step must be above 0 and no larger than the range; got {step}.")
    return Range(low, high, log, step)


def _is_number(kind: str) -> bool:
    return "list" not in kind and re.search(r"\b(int|float)\b", kind) is not None


def _value(value: Any, kind: str) -> Any:
    """Convert a number to the type of a field; keep other values. YAML 1.1 reads some numbers as text (1e-4)."""
    if not _is_number(kind) or (value is None and "None" in kind):
        return value
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number.")
    if "float" in kind:
        return number
    if number != int(number):
        raise ValueError(f"{value!r} is not a whole number.")
    return int(number)
