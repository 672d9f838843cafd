"""Services that only the installed package has: backbones, checks of strangers' files, kernels.

`models/` travels with checkpoints and reaches these services through `LocalAttentionConfig.installed`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from hf_localattn.installed import parse_store
from hf_localattn.installed.backbones import build_from_backbone
from hf_localattn.installed.configurations import check_backbone, check_model
from hf_localattn.installed.files import check_content, loading
from hf_localattn.installed.parsers import lighten, load_declared, parser_version
from hf_localattn.installed.structure import check_structure
from hf_localattn.installed.tokenizers import build_tokenizer, check_texts, check_tokenizer
from hf_localattn.kernels import KERNELS
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig

__all__ = ["Package", "code_files"]


class Package:
    """Services of the installed package for `models/`.

    Args:
        note_fields: Function that warns of fields of a configuration without effect, which the registry knows.
    """

    def __init__(self, note_fields: Callable[[Any], None]):
        self.note_fields = note_fields

    def check_content(self, config_class: Any, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Raise `ValueError` if the content of a `config.json` is more than data; drop its pipelines."""
        return check_content(config_class, content)

    def check_backbone(self, config: Any) -> None:
        """Raise `ValueError` for a backbone that local layers cannot read. Warn of one that was not tested."""
        check_backbone(config)

    def check_model(self, model_class: Any, config: Any) -> None:
        """Raise `ValueError` if a model class does not support a configuration or its backbone."""
        check_model(model_class, config)

    def loading(self, name_or_path: Any, arguments: dict[str, Any]) -> AbstractContextManager[None]:
        """Return the context in which weights are loaded, after checks of the checkpoint and of the arguments."""
        return loading(name_or_path, arguments)

    def from_backbone(self, made: Any, backbone: Any, **arguments: Any) -> Any:
        """Build a model from a pretrained backbone, or a tokenizer from the backbone's tokenizer."""
        build = build_tokenizer if issubclass(made, PreTrainedTokenizerBase) else build_from_backbone
        return build(made, backbone, **arguments)

    def kernel(self, name: str) -> Any:
        """Return the Triton kernels of a mechanism, with `runs` and `attend`; None if it has none."""
        return KERNELS.get(name)

    def check_tokenizer(self, path: Any) -> None:
        """Raise `ValueError` if a `tokenizer_config.json` names files or Python objects."""
        check_tokenizer(path)

    def check_texts(self, text: Any, text_pair: Any, split: bool) -> None:
        """Raise `ValueError` if the arguments of a tokenizer's call are not texts, pairs or batches."""
        check_texts(text, text_pair, split)

    def load_parser(self, name: str) -> Any:
        """Load a spaCy pipeline that only a checkpoint names, if an installed distribution declares it."""
        return load_declared(name)

    def parser_version(self, parser: str, named_by_checkpoint: bool) -> str | None:
        """Return the version of a spaCy pipeline without importing it, if known."""
        return parser_version(parser, named_by_checkpoint)

    def lighten_parser(self, pipeline: Any) -> None:
        """Remove the components of a spaCy pipeline that its dependency parser does not need."""
        lighten(pipeline)

    def parse_store(self) -> Any:
        """Return the module with the cache of parses, or None if the environment names no folder."""
        return None if parse_store.open_store() is None else parse_store

    def check_structure(self, word_index: Any, dep_heads: Any) -> None:
        """Raise `ValueError` if the heads of words do not form trees."""
        check_structure(word_index, dep_heads)


def install(note_fields: Callable[[Any], None]) -> None:
    """Give `models/` the services of the package, with the registry's `note_fields`."""
    LocalAttentionConfig.installed = Package(note_fields)


def code_files(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the code files of a checkpoint, sorted by name."""
    return sorted(Path(folder).glob("*.py"))
