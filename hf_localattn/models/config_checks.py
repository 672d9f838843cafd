"""Validation of configurations, especially from untrusted files.

The configuration of a checkpoint may hold only data. It must not name code, files or kernels, replace a method of its
class, or hold a number so large that building the model would take forever. `check_content` applies only to files, not
to fields set in code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import torch
from transformers import PreTrainedConfig

MOST = 10_000_000
"""Largest size or count that a field may have; no model could be built with more."""

MOST_LABELS = 100_000
"""Largest number of classes; a configuration names each of them."""

MOST_LAYERS = 10_000
MOST_TEXTS = 1000
LARGEST = 2**31
"""Largest absolute value of a number. weight_checks.py limits the memory that a model takes."""

DEEPEST = 20
"""Largest number of nested lists and objects."""

ATTENTIONS = ("eager", "sdpa", "flex_attention")
"""Attention implementations of torch and transformers; other names may stand for kernels on the Hub."""

_IMPLEMENTATIONS = tuple(
    f"{start}{kind}_implementation{end}"
    for kind in ("attn", "experts")
    for start, end in (("", ""), ("_", ""), ("_", "_internal"))
)

OF_A_MACHINE = ("fusion_config", "distributed_config", "kernel_config", "use_kernels")
"""Entries of transformers' configurations that describe one machine. They are not saved."""

_NOT_DATA = {
    "transformers_weights": "it names the file of the weights: rename that to model.safetensors",
    "quantization_config": "it names other libraries: save a model before it is quantized, and quantize when loading",
    "fusion_config": "it changes classes of transformers: pass it to `from_pretrained`",
    "distributed_config": "it describes one machine: pass it to `from_pretrained`",
    "kernel_config": "it names kernels of the Hub: pass it to `from_pretrained`",
    "use_kernels": "it asks for kernels of the Hub: pass it to `from_pretrained`",
    "per_layer_config": "its layers would differ from each other, which local attention does not support",
}
"""Entries that are instructions to transformers and not data, each with its remedy."""

PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")


def check_content(content: Any, known: Collection[str] = ()) -> None:
    """Raise `ValueError` if a configuration file holds more than data.

    Args:
        content: The content of the file.
        known (*optional*): Names of fields whose integers are checked as sizes and counts. Other names have no effect.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"`config.json` is {_short(content)}; it must be an object of names and values.")
    for name, value in _entries(content, "", DEEPEST):
        _check_entry(name, value, known)


def check_generation_config(config: Any) -> None:
    """Raise `ValueError` if a generation configuration asks for too many beams or sequences."""
    for name in ("num_beams", "num_return_sequences"):
        value = getattr(config, name, None)
        if value is not None and (type(value) is not int or not 0 < value <= MOST_TEXTS):
            raise ValueError(
                f"generation_config.json: `{name}` is {_short(value)}; it must be from 1 to {MOST_TEXTS}."
            )


def _entries(content: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each entry, including entries of nested objects and lists."""
    if not depth:
        raise ValueError(f"`{path.rstrip('.')}` is nested deeper than {DEEPEST} levels: remove it.")
    for name, value in content.items():
        yield f"{path}{name}", value
        if name in ("id2label", "label2id"):  # keys are labels here; `check_shared_fields` checks them
            continue
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            yield from _entries(value, f"{path}{name}.", depth - 1)


def _check_entry(path: str, value: Any, known: Collection[str]) -> None:
    name = path.rpartition(".")[2]
    if value is None:
        return
    if name in _NOT_DATA and value not in (False, {}, []):
        raise ValueError(f"`{path}` is {_short(value)}, which a checkpoint must not set: {_NOT_DATA[name]}.")
    if name.startswith("__") and name != "__float__":  # transformers writes infinity and NaN as `__float__`
        raise ValueError(f"`{path}` is not a field of a configuration: remove it.")
    if name in _IMPLEMENTATIONS and (not isinstance(value, str) or value not in ATTENTIONS):
        raise ValueError(
            f"`{path}` is {_short(value)}; a checkpoint can ask for {', '.join(ATTENTIONS)}. Choose others when "
            "loading, with `attn_implementation=`."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{path}` is {value}; it must be a finite number.")
    if name in known:  # other names have no effect
        check_size(path, value)


def bound_of(name: str, otherwise: int) -> int:
    """Return the largest value of a field: `MOST_LAYERS` if it counts layers or groups, and `otherwise` if not."""
    return MOST_LAYERS if "layer" in name or "group" in name else otherwise


def check_size(path: str, value: Any) -> None:
    """Raise `ValueError` for an integer beyond the bound of its field, given the field's dotted path."""
    most = bound_of(path.rpartition(".")[2], LARGEST)
    if isinstance(value, int) and abs(value) > most:
        raise ValueError(f"`{path}` is {_short(value)}; it must be from -{most} to {most}.")


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**40:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def field_names(config_class: type[PreTrainedConfig]) -> set[str]:
    """Return the names of a configuration's fields, with all names of fields that have several."""
    return {field.name for field in fields(config_class)} | set(config_class.attribute_map)


def check_names(config_class: type[PreTrainedConfig], names: Iterable[str]) -> None:
    """Raise `ValueError` for fields whose names would replace a method or a computed property of the class."""
    known = {"model_type", *(field.name for field in fields(config_class))}
    for name in names:
        there = getattr(config_class, name, None) if isinstance(name, str) else None
        is_free = there is None or name in known or getattr(there, "fset", None) is not None
        is_free &= name not in ("per_layer_config", "_auto_class")  # they change single layers, and the saved code
        is_free &= isinstance(name, str) and not name.startswith("__")  # `check_content` refuses these in files
        is_value = isinstance(there, str | bool | int | float) and name != "_auto_class"
        if not isinstance(name, str) or not (is_free or is_value):
            raise ValueError(f"`{name}` is not a field of {config_class.__name__} that can be set: remove it.")


def check_shared_fields(given: Mapping[str, Any]) -> None:
    """Raise `ValueError` for invalid values of fields that all models have and transformers does not check."""
    count, names, kind = given.get("num_labels", 1), given.get("id2label"), given.get("problem_type")
    if type(count) is not int or not 1 <= count <= MOST_LABELS:
        raise ValueError(f"`num_labels` is {count!r}; it must be a whole number from 1 to {MOST_LABELS:,}.")
    if names is not None and not _is_numbered(names):
        raise ValueError(f"`id2label` is {names!r}; it must map the id of each class, from 0, to its name.")
    if not isinstance(given.get("label2id"), dict | None):
        raise ValueError(f"`label2id` is {given['label2id']!r}; it must map the name of each class to its id.")
    if kind is not None and kind not in PROBLEM_TYPES:
        raise ValueError(f"`problem_type` is {kind!r}; choose one of {', '.join(PROBLEM_TYPES)}, or leave it out.")
    for name in ("dtype", "torch_dtype"):
        dtype = given.get(name)
        dtype = getattr(torch, dtype, dtype) if isinstance(dtype, str) else dtype
        if not isinstance(dtype, torch.dtype | None) and dtype != "auto":
            raise ValueError(f"`{name}` is {given[name]!r}; it must be a dtype of torch, such as 'float32'.")
    attention = given.get("attn_implementation")
    if not isinstance(attention, str | dict | None):
        raise ValueError(f"`attn_implementation` is {attention!r}; it must be a name, such as 'sdpa'.")
    if not isinstance(given.get("output_attentions"), bool | None):
        raise ValueError(f"`output_attentions` is {given['output_attentions']!r}; it must be true or false.")
    layers = given.get("output_hidden_states")
    if not isinstance(layers, bool | None) and not _are_indices(layers):
        raise ValueError(f"`output_hidden_states` is {layers!r}; it must be true, false or a list of indices.")
    classes = given.get("architectures")
    if classes is not None and not (
        isinstance(classes, list | tuple) and all(isinstance(one, str) for one in classes)
    ):
        raise ValueError(f"`architectures` is {classes!r}; it must be a list of class names.")


def _are_indices(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(type(one) is int and abs(one) <= MOST_LAYERS for one in values)


def _is_numbered(names: Any) -> bool:
    """Return True if the keys are 0, 1, 2, ... (strings in a file) and the values can be class names."""
    if not isinstance(names, dict) or not names:
        return False
    numbers = {str(number) for number in names}
    return numbers == {str(number) for number in range(len(names))} and all(
        isinstance(name, str | int | float) for name in names.values()
    )


def as_line(error: BaseException) -> str:
    """Return the text of an error on one line, without a final period."""
    return " ".join(str(error).split()).rstrip(".")
