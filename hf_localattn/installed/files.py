"""Checks of a stranger's checkpoint: a configuration is data, and weights are not unpickled.

Without `trust_remote_code` nothing that a checkpoint contains is imported, executed or unpickled. transformers reads
entries that name kernels or classes, so they are refused here.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from huggingface_hub.utils.tqdm import enable_progress_bars
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from hf_localattn.parsing import read_json

ATTENTIONS = ("eager", "sdpa", "flex_attention")
"""Attention implementations of torch and transformers; other names may stand for kernels on the Hub."""

IMPLEMENTATION = re.compile("_?(attn|experts)_implementation(_internal)?")

NOT_DATA = {
    "transformers_weights": "it names the file of the weights: rename that to model.safetensors",
    "quantization_config": "it names other libraries: save a model before it is quantized, and quantize when loading",
    "fusion_config": "it changes classes of transformers: pass it to `from_pretrained`",
    "distributed_config": "it describes one machine: pass it to `from_pretrained`",
    "kernel_config": "it names kernels of the Hub: pass it to `from_pretrained`",
    "use_kernels": "it asks for kernels of the Hub: pass it to `from_pretrained`",
}
"""Entries that are instructions to transformers and not data, each with its remedy."""

LOCATION = ("cache_dir", "revision", "token", "local_files_only", "force_download", "subfolder")
"""Arguments of `from_pretrained` that say where a checkpoint is."""

SHARD = re.compile(r"[^/\\]*\.safetensors")

INSTRUCTIONS = ("_auto_class", "attribute_map", "per_layer_config", "sub_configs")
"""Attributes of a configuration that change how it is read, built or saved."""

CONVERSION = (
    "A .bin file is a pickle, which may run any code when it is read. If you trust it, convert it in its folder: "
    'python -c "import torch; from safetensors.torch import save_file; '
    "weights = torch.load('pytorch_model.bin', weights_only=True); "
    "save_file({name: value.clone() for name, value in weights.items()}, 'model.safetensors', {'format': 'pt'})\""
)
"""Remedy for weights that would have to be unpickled."""

TIED = "but both are absent from the checkpoint"
"""Part of a warning that `quiet` drops."""


def check_content(config_class: Any, content: Any) -> dict[str, Any]:
    """Check the content of a `config.json` for a class of configurations.

    Returns:
        The content without `custom_pipelines`: the package registers its own, which need no trust.

    Raises:
        ValueError: The content is not an object, is of another model type, or an entry is more than data.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"`config.json` is {content!r}; it must be an object of names and values.")
    model_type = content.get("model_type", config_class.model_type)
    if model_type != config_class.model_type:
        raise ValueError(
            f"This is a {model_type!r} checkpoint, not a {config_class.model_type!r} one. To put new local layers on "
            "a pretrained encoder, use `from_backbone` of the model class."
        )
    for name in content:
        if name in INSTRUCTIONS or callable(getattr(config_class, name, None)):
            raise ValueError(f"`{name}` is not a field of {config_class.__name__}: remove it.")
    for path, value in _entries(content):
        name = path.rpartition(".")[2]
        if name in NOT_DATA and value:
            raise ValueError(f"`{path}` is {value!r}, which a checkpoint must not set: {NOT_DATA[name]}.")
        if name.startswith("__") and name != "__float__":  # transformers writes infinity and NaN as `__float__`
            raise ValueError(f"`{path}` is not a field of a configuration: remove it.")
        if IMPLEMENTATION.fullmatch(name) and value not in (None, *ATTENTIONS):
            raise ValueError(
                f"`{path}` is {value!r}; a checkpoint can ask for {', '.join(ATTENTIONS)}. Choose others when "
                "loading, with `attn_implementation=`."
            )
    return {name: value for name, value in content.items() if name != "custom_pipelines"}


def _entries(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each entry, also of nested objects and lists."""
    pairs = content.items() if isinstance(content, Mapping) else enumerate(content)
    for name, value in pairs:
        yield f"{path}{name}", value
        if isinstance(value, Mapping | list) and name not in ("id2label", "label2id"):
            yield from _entries(value, f"{path}{name}.")


@contextmanager
def loading(name_or_path: Any, arguments: dict[str, Any]) -> Iterator[None]:
    """Let `from_pretrained` read only safetensors files of this checkpoint within the block.

    `name_or_path` is None if the weights are among the arguments, in which `use_safetensors` is set.

    Raises:
        ValueError: `use_safetensors` is False, or the checkpoint is an adapter.
        OSError: There are no safetensors files.
    """
    if not arguments.setdefault("use_safetensors", True):
        raise ValueError(f"`use_safetensors={arguments['use_safetensors']}` would unpickle weights. {CONVERSION}")
    if name_or_path is not None:
        source = os.fspath(name_or_path)
        if adapter := _adapter(source, arguments):
            raise ValueError(
                f"{adapter!r} has an adapter_config.json, which can name any other model. Load a model that you know,"
                " and add the adapter: `peft.PeftModel.from_pretrained(model, adapter)`."
            )
        _check_shards(source, arguments)
    try:
        with quiet():
            yield
    except OSError as error:
        if not lacks_safetensors(error):
            raise
        raise OSError(f"{str(error).rstrip('.')}, and other formats are not read. {CONVERSION}") from error


def lacks_safetensors(error: OSError) -> bool:
    """Return True if an error of transformers says that a checkpoint has no safetensors file."""
    message = str(error)
    return "safetensors" in message and ("no file named" in message or "have a file named" in message)


def _adapter(source: str, arguments: dict[str, Any]) -> str | None:
    """Return the folder or repository of an adapter that transformers would load, if any."""
    adapter = (arguments.get("adapter_kwargs") or {}).get("_adapter_model_path")
    if adapter is not None:
        return os.fspath(adapter)
    if os.path.isfile(source):
        return None
    return source if _find(source, "adapter_config.json", arguments) else None


def _check_shards(source: str, arguments: dict[str, Any]) -> None:
    """Raise `ValueError` if weights are read from other files than the safetensors files of a checkpoint."""
    variant = f".{arguments['variant']}" if arguments.get("variant") else ""
    if path := _find(source, f"model.safetensors.index{variant}.json", arguments):
        shards = read_json(path).get("weight_map")
        for shard in shards.values() if isinstance(shards, dict) else [shards]:
            if not isinstance(shard, str) or not SHARD.fullmatch(shard):
                raise ValueError(f"{path} names the weights {str(shard)[:80]!r}, no safetensors file beside it.")
    if os.path.isfile(os.path.join(source, ".metadata")):
        raise ValueError(f"{source} is a distributed checkpoint, whose index would be unpickled. {CONVERSION}")


def _find(source: str, name: str, arguments: dict[str, Any]) -> str | None:
    """Return the path of a file of a checkpoint, in its folder or in the Hub's cache; None if it has no such file."""
    options = {option: arguments[option] for option in LOCATION if arguments.get(option) is not None}
    try:
        return cached_file(source, name, **options)
    except OSError:  # loading itself says why nothing can be found
        return None


@contextmanager
def quiet(*messages: str) -> Iterator[None]:
    """Load or save weights without a progress bar, except that of a download.

    Warnings that contain a message are dropped, and so is transformers' warning about tied weights: a headless
    checkpoint never has them.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return not any(message in record.getMessage() for message in (TIED, *messages))

    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(is_other)
    if shows_bars := transformers_logging.is_progress_bar_enabled():
        transformers_logging.disable_progress_bar()
        enable_progress_bars()
    try:
        yield
    finally:
        logger.removeFilter(is_other)
        if shows_bars:
            transformers_logging.enable_progress_bar()
