"""The services of the package as one object, which `models/` reaches through `LocalAttentionConfig.installed`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from hf_localattn.installed.backbones import build_model
from hf_localattn.installed.configurations import (
    check_backbone,
    check_backbone_type,
    check_content,
    check_model,
    check_values,
)
from hf_localattn.installed.files import as_data, check_checkpoint
from hf_localattn.installed.parse_store import read_parses, write_parses
from hf_localattn.installed.parsers import lighten, load_declared, parser_version
from hf_localattn.installed.structure import check_structure
from hf_localattn.installed.tokenizers import build_tokenizer, check_texts
from hf_localattn.kernels import KERNELS
from hf_localattn.models.configuration_local_attention import InstalledServices, LocalAttentionConfig

__all__ = ["PackageServices", "install"]


class PackageServices(InstalledServices):
    """All services that `InstalledServices` names.

    Args:
        warn_of_inactive_fields: Function that warns of fields of a configuration without effect. `families` knows
            them, which is built upon this module.
    """

    build_model = staticmethod(build_model)
    build_tokenizer = staticmethod(build_tokenizer)
    check_content = staticmethod(check_content)
    check_values = staticmethod(check_values)
    loading = staticmethod(as_data)
    check_backbone_type = staticmethod(check_backbone_type)
    check_backbone = staticmethod(check_backbone)
    check_model = staticmethod(check_model)
    check_texts = staticmethod(check_texts)
    check_structure = staticmethod(check_structure)
    load_parser = staticmethod(load_declared)
    parser_version = staticmethod(parser_version)
    lighten_parser = staticmethod(lighten)
    read_parses = staticmethod(read_parses)
    write_parses = staticmethod(write_parses)

    def __init__(self, warn_of_inactive_fields: Callable[[Any], None]):
        self._warn_of_inactive_fields = warn_of_inactive_fields

    def warn_of_inactive_fields(self, config: Any) -> None:
        self._warn_of_inactive_fields(config)

    def check_checkpoint(self, checkpoint: Any, arguments: Mapping[str, Any]) -> None:
        check_checkpoint(checkpoint, arguments, weights=False)

    def kernel(self, name: str) -> ModuleType | None:
        return KERNELS.get(name)


def install(warn_of_inactive_fields: Callable[[Any], None]) -> None:
    """Give `models/` the services of the package."""
    LocalAttentionConfig.installed = PackageServices(warn_of_inactive_fields)
