"""Families of models, a folder each. Auto classes, commands, tests and benchmarks read the families from here.

The folder of a family has its entry (`FAMILY` of `entry.py`) and the text of its model cards (`card.yaml`). Another
package has a family if an entry point of the group `hf_localattn.families` names it, with the package that is its
folder; the files that are saved with its checkpoints are in a folder `models` there.
"""

from __future__ import annotations

from importlib import import_module

from transformers import CONFIG_MAPPING, AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig
from transformers.utils import logging

from hf_localattn.families.describe import document
from hf_localattn.families.family import AUTO_CLASSES, Family, View
from hf_localattn.installed.services import install
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.names import (
    NO_FAMILY,
    BrokenFamily,
    add_family,
    add_models,
    family_clashes,
    family_notes,
    family_packages,
    task_of_class,
)
from hf_localattn.pipelines import register_pipelines

__all__ = ["AUTO_CLASSES", "FAMILIES", "Family", "View", "family_of", "get_family", "register", "task_of_class"]

logger = logging.get_logger(__name__)

FAMILIES: dict[str, Family] = {}
"""All families by name."""

BROKEN: dict[str, BrokenFamily] = {}
"""Families of other packages that cannot be used, by name, and why."""


def warn_of_inactive_fields(config: PreTrainedConfig) -> None:
    """Warn of fields of a new configuration that differ from their default but have no effect."""
    family = family_of(config)
    if family is None:  # a user's own family, which is not registered here
        return
    for field in family.inactive_fields(config):
        logger.warning_once(f"`{field}` is {getattr(config, field)!r}, which has no effect with the other fields.")


def register(family: Family | str) -> Family:
    """Register a family with the Auto classes, for this process. Families that are installed are already registered.

    Args:
        family: The family; or the name of the package that is its folder, with `entry.py`, `card.yaml` and `models/`.

    Returns:
        The family.

    Raises:
        ImportError: There is no such package, or it cannot be imported.
        ValueError: Another family or a model of transformers has the name of the family, a class or the text of its
            cards is missing, or a file in `models/` has the name of another one.
    """
    if isinstance(family, str):
        add_models(family)
        entry = register(import_module(f"{family}.entry").FAMILY)
        if entry.name not in family_packages():
            add_family(entry.name, family)
        return entry
    is_taken = family.name in CONFIG_MAPPING or family.name == NO_FAMILY
    if is_taken and FAMILIES.get(family.name) is not family:
        raise ValueError(f"{family.name!r} is the name of another model")
    family.check_classes()
    document(family.config)
    AutoConfig.register(family.name, family.config, exist_ok=True)
    AutoModel.register(family.config, family.model, exist_ok=True)
    for task, head in family.heads.items():
        AUTO_CLASSES[task].register(family.config, head, exist_ok=True)
    if family.tokenizer is not None:
        document(family.tokenizer)
        AutoTokenizer.register(family.config, fast_tokenizer_class=family.tokenizer, exist_ok=True)
    FAMILIES[family.name] = family
    return family


def get_family(name: str) -> Family:
    """Return the family with this name, such as "cool".

    Raises:
        BrokenFamily: The family is of another package, and cannot be used.
        ValueError: There is no family with this name. The message lists all names.
    """
    if name in BROKEN:
        raise BROKEN[name]
    if name not in FAMILIES:
        raise ValueError(f"There is no family {name!r}. Choose one of {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def family_of(config: PreTrainedConfig) -> Family | None:
    """Return the family of a configuration; None for a model of transformers."""
    return FAMILIES.get(config.model_type)


def _register_installed() -> None:
    """Register all families that are installed. A problem of another package is told when its family is used."""
    for name, package in family_clashes():
        logger.warning(f"The family {name!r} of the package {package} is left out, because another one has its name.")
    for name, package in family_packages().items():
        try:
            family_notes(name)  # reads and checks the texts
            family = register(package)
            if family.name != name:
                raise ValueError(f"its name is {family.name!r}")
        except Exception as error:
            if package.startswith(f"{__name__}."):
                raise
            BROKEN[name] = error if isinstance(error, BrokenFamily) else BrokenFamily(name, error)
            FAMILIES.pop(name, None)


register_pipelines()
install(warn_of_inactive_fields)
document(LocalAttentionConfig)
_register_installed()
