"""Families of models, a folder each. Auto classes, commands, tests and benchmarks read the families from here.

The folder of a family has its entry (`FAMILY` of `entry.py`) and the text of its model cards (`card.yaml`).
"""

from __future__ import annotations

from importlib import import_module

from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig
from transformers.utils import logging

from hf_localattn.families.describe import document
from hf_localattn.families.family import AUTO_CLASSES, Family, View
from hf_localattn.installed.services import install
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.names import family_names, task_of_class
from hf_localattn.pipelines import register_pipelines

__all__ = ["AUTO_CLASSES", "FAMILIES", "Family", "View", "family_of", "get_family", "register", "task_of_class"]

logger = logging.get_logger(__name__)

FAMILIES: dict[str, Family] = {
    name: import_module(f"{__name__}.{name.replace('-', '_')}.entry").FAMILY for name in family_names()
}
"""All families by name."""


def warn_of_inactive_fields(config: PreTrainedConfig) -> None:
    """Warn of fields of a new configuration that differ from their default but have no effect."""
    family = family_of(config)
    if family is None:  # a user's own family, which is not registered here
        return
    for field in family.inactive_fields(config):
        logger.warning_once(f"`{field}` is {getattr(config, field)!r}, which has no effect with the other fields.")


def register() -> None:
    """Register the families with the Auto classes, and register the pipelines. Further calls have no effect."""
    register_pipelines()
    install(warn_of_inactive_fields)
    document(LocalAttentionConfig)
    for family in FAMILIES.values():
        document(family.config)
        AutoConfig.register(family.name, family.config, exist_ok=True)
        AutoModel.register(family.config, family.model, exist_ok=True)
        for task, head in family.heads.items():
            AUTO_CLASSES[task].register(family.config, head, exist_ok=True)
        if family.tokenizer is not None:
            document(family.tokenizer)
            AutoTokenizer.register(family.config, fast_tokenizer_class=family.tokenizer, exist_ok=True)


def get_family(name: str) -> Family:
    """Return the family with this name, such as "cool".

    Raises:
        ValueError: There is no family with this name. The message lists all names.
    """
    if name not in FAMILIES:
        raise ValueError(f"There is no family {name!r}. Choose one of {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def family_of(config: PreTrainedConfig) -> Family | None:
    """Return the family of a configuration; None for a model of transformers."""
    return FAMILIES.get(config.model_type)


register()
