"""Services that only the installed package has: backbones, checks of strangers' files, kernels.

`models/` travels with checkpoints and reaches these services through `LocalAttentionConfig.installed`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import PreTrainedTokenizerBase

from hf_localattn.installed.backbones import build_from_backbone
from hf_localattn.installed.configurations import check_backbone, check_model
from hf_localattn.installed.files import check_content, loading
from hf_localattn.installed.parse_store import read_parses, write_parses
from hf_localattn.installed.parsers import lighten, load_declared, parser_version
from hf_localattn.installed.structure import check_structure
from hf_localattn.installed.tokenizers import build_tokenizer, check_texts, check_tokenizer
from hf_localattn.kernels import KERNELS
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig

__all__ = ["code_files", "install"]


def from_backbone(made: Any, backbone: Any, **arguments: Any) -> Any:
    """Build a model from a pretrained backbone, or a tokenizer from the backbone's tokenizer."""
    build = build_tokenizer if issubclass(made, PreTrainedTokenizerBase) else build_from_backbone
    return build(made, backbone, **arguments)


def install(note_fields: Callable[[Any], None]) -> None:
    """Give `models/` the services of the package. `note_fields` warns of fields of a configuration without effect."""
    LocalAttentionConfig.installed = SimpleNamespace(
        note_fields=note_fields,
        check_content=check_content,
        check_backbone=check_backbone,
        check_model=check_model,
        loading=loading,
        from_backbone=from_backbone,
        kernel=lambda name: KERNELS.get(name),  # torch 2.8 cannot compile a call of `KERNELS.get` itself
        check_tokenizer=check_tokenizer,
        check_texts=check_texts,
        load_parser=load_declared,
        parser_version=parser_version,
        lighten_parser=lighten,
        read_parses=read_parses,
        write_parses=write_parses,
        check_structure=check_structure,
    )


def code_files(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the code files of a checkpoint, sorted by name."""
    return sorted(Path(folder).glob("*.py"))
