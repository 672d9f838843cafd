"""Checks of a configuration that was read from a file, whoever wrote it.

Such a configuration is data. It names no code, no file and no kernel, hides no method of its class, and has no number
that would keep a machine busy before a weight is read. What a program sets by itself is not asked any of this.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import torch
from transformers import PreTrainedConfig

MOST = 10_000_000
"""The largest size or count that a field may have; with more no model could be built."""

MOST_LABELS = 100_000
"""The largest number of classes: a configuration names each."""

MOST_LAYERS = 10_000
MOST_TEXTS = 1000
LARGEST = 2**31
"""No width, length or count is larger; what memory it takes is settled by the weights (weight_checks.py)."""

DEEPEST = 20
"""Levels of lists and objects inside each other."""

ATTENTIONS = ("eager", "sdpa", "flex_attention")
"""Attentions that are part of torch and transformers; other names may stand for a kernel on the Hub."""

_IMPLEMENTATIONS = tuple(
    f"{start}{kind}_implementation{end}"
    for kind in ("attn", "experts")
    for start, end in (("", ""), ("_", ""), ("_", "_internal"))
)

OF_A_MACHINE = ("fusion_config", "distributed_config", "kernel_config", "use_kernels")
"""Instructions that transformers keeps in a configuration and that are not saved."""

_NOT_DATA = {
    "transformers_weights": "it names the file of the weights: rename that to model.safetensors",
    "quantization_config": "it names other libraries: save a model before it is quantized, and quantize when loading",
    "fusion_config": "it changes classes of transformers: give it when loading",
    "distributed_config": "it describes one machine: pass it to `from_pretrained`",
    "kernel_config": "it names kernels of the Hub: give it when loading",
    "use_kernels": "it asks for kernels of the Hub: give it when loading",
    "per_layer_config": "its layers would differ from each other, which local attention does not support",
}
"""Entries that are instructions to transformers, and what to do about each."""

PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")


def check_content(content: Any, known: Collection[str] = ()) -> None:
    """Raise `ValueError` for a configuration that is more than data, naming the entry, its value and the remedy.

    Args:
        content: what the file says.
        known: names whose numbers are sizes and counts. Other entries are kept and mean nothing.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"`config.json` is {_short(content)}; it must be an object of names and values.")
    for name, value in _entries(content, "", DEEPEST):
        _check_entry(name, value, known)


def check_generation_config(config: Any) -> None:
    """Raise `ValueError` for a generation configuration that asks for more texts at once than anybody would."""
    for name in ("num_beams", "num_return_sequences"):
        value = getattr(config, name, None)
        if value is not None and (type(value) is not int or not 0 < value <= MOST_TEXTS):
            raise ValueError(
                f"generation_config.json: `{name}` is {_short(value)}; it must be from 1 to {MOST_TEXTS}."
            )


def _entries(content: Mapping[str, Any], place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """All entries of a configuration, and those of the objects and lists in it, by their place."""
    if not depth:
        raise ValueError(f"`{place.rstrip('.')}` lies deeper than {DEEPEST} levels: no configuration does.")
    for name, value in content.items():
        yield f"{place}{name}", value
        if name in ("id2label", "label2id"):  # whose names are labels, which `check_shared_fields` checks
            continue
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            yield from _entries(value, f"{place}{name}.", depth - 1)


def _check_entry(place: str, value: Any, known: Collection[str]) -> None:
    name = place.rpartition(".")[2]
    if value is None:
        return
    if name in _NOT_DATA and value not in (False, {}, []):
        raise ValueError(f"`{place}` is {_short(value)} in a checkpoint, where it cannot be: {_NOT_DATA[name]}.")
    if name.startswith("__") and name != "__float__":  # as which transformers writes what JSON has no number for
        raise ValueError(f"`{place}` is no field of a configuration: remove it.")
    if name in _IMPLEMENTATIONS and (not isinstance(value, str) or value not in ATTENTIONS):
        raise ValueError(
            f"`{place}` is {_short(value)}; a checkpoint can ask for {', '.join(ATTENTIONS)}. Others are chosen when "
            "loading, with `attn_implementation=`."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{place}` is {value}; it must be a finite number.")
    if isinstance(value, int) and name in known:  # others mean nothing here
        most = MOST_LAYERS if "layer" in name or "group" in name else LARGEST
        if abs(value) > most:
            raise ValueError(f"`{place}` is {_short(value)}; no model has more than {most}.")


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**40:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def check_names(config_class: type[PreTrainedConfig], names: Iterable[str]) -> None:
    """Raise `ValueError` for names that would replace a method or a computed property."""
    known = {"model_type", *(field.name for field in fields(config_class))}
    for name in names:
        there = getattr(config_class, name, None) if isinstance(name, str) else None
        is_free = there is None or name in known or getattr(there, "fset", None) is not None
        is_free &= name not in ("per_layer_config", "_auto_class")  # layers that differ; what is saved as code
        is_free &= isinstance(name, str) and not name.startswith("__")  # in a file these are refused as well
        is_value = isinstance(there, str | bool | int | float) and name != "_auto_class"
        if not isinstance(name, str) or not (is_free or is_value):
            raise ValueError(f"`{name}` is no field of {config_class.__name__} that can be set: leave it out.")


def check_shared_fields(given: Mapping[str, Any]) -> None:
    """Raise `ValueError` for impossible values of fields that all models have and transformers does not check."""
    count, names, kind = given.get("num_labels", 1), given.get("id2label"), given.get("problem_type")
    if type(count) is not int or not 1 <= count <= MOST_LABELS:
        raise ValueError(f"`num_labels` is {count!r}; it must be a whole number from 1 to {MOST_LABELS:,}.")
    if names is not None and not _is_numbered(names):
        raise ValueError(f"`id2label` is {names!r}; give a name for each class by its number, from 0.")
    if not isinstance(given.get("label2id"), dict | None):
        raise ValueError(f"`label2id` is {given['label2id']!r}; give the number of each class by its name.")
    if kind is not None and kind not in PROBLEM_TYPES:
        raise ValueError(f"`problem_type` is {kind!r}; choose one of {', '.join(PROBLEM_TYPES)}, or leave it out.")
    for name in ("dtype", "torch_dtype"):
        dtype = given.get(name)
        dtype = getattr(torch, dtype, dtype) if isinstance(dtype, str) else dtype
        if not isinstance(dtype, torch.dtype | None) and dtype != "auto":
            raise ValueError(f"`{name}` is {given[name]!r}; it must be a type of torch's numbers, such as 'float32'.")
    kind_of_attention = given.get("attn_implementation")
    if not isinstance(kind_of_attention, str | dict | None):
        raise ValueError(f"`attn_implementation` is {kind_of_attention!r}; it must be a name, such as 'sdpa'.")
    if not isinstance(given.get("output_attentions"), bool | None):
        raise ValueError(f"`output_attentions` is {given['output_attentions']!r}; it must be true or false.")
    layers = given.get("output_hidden_states")
    if not isinstance(layers, bool | None) and not _are_indices(layers):
        raise ValueError(f"`output_hidden_states` is {layers!r}; it must be true, false or a list of indices.")
    classes = given.get("architectures")
    if classes is not None and not (
        isinstance(classes, list | tuple) and all(isinstance(one, str) for one in classes)
    ):
        raise ValueError(f"`architectures` is {classes!r}; it must be a list of names of classes.")


def _are_indices(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(type(one) is int and abs(one) <= MOST_LAYERS for one in values)


def _is_numbered(names: Any) -> bool:
    """Return True for class names under the keys 0, 1, 2, ..., which are text in a file."""
    if not isinstance(names, dict) or not names:
        return False
    numbers = {str(number) for number in names}
    return numbers == {str(number) for number in range(len(names))} and all(
        isinstance(name, str | int | float) for name in names.values()
    )


def as_line(error: BaseException) -> str:
    """Return the text of an error in one line, to be continued."""
    return " ".join(str(error).split()).rstrip(".")
