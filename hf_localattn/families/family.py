"""Description of a family of models for the rest of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn import models, names
from hf_localattn.families.facts import Facts
from hf_localattn.installed.backbones import check_config_fields
from hf_localattn.installed.files import quiet_weights
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.fields import Field, as_in_files, declarations

AUTO_CLASSES: dict[str, Any] = {task: getattr(transformers, name) for task, name in names.AUTO_CLASSES.items()}
"""Auto class of each task, for the families and for models of transformers."""


@dataclass(frozen=True)
class View:
    """A kind of attention weights that some configurations of a family have.

    Attributes:
        is_available: Function from a configuration to True if its models have the weights.
        settings: Description of the fields that enable the weights, for error messages.
        title: Name of local attention between tokens.
        by_default: True if local attention is shown by default instead of the encoder's self-attention.
        matrix: Function from the local attention of a layer and the padding mask (B, L) to (B, rows, columns).
            Rows are all tokens, or what `rows` names. Columns are all tokens, or those of the family's query in order,
            then padding. Defaults to the mean over heads.
        rows: Function from a configuration to the names of the rows, if they are not tokens, such as hops.
        row_label: Description of the rows.
        layers: Function from a configuration to the indices of the layers with gates, from 0.
    """

    is_available: Callable[[Any], bool]
    settings: str
    title: str = ""
    by_default: bool = True
    matrix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = lambda weights, mask: weights.double().mean(1)
    rows: Callable[[Any], Sequence[str]] | None = None
    row_label: str = "attending token"
    layers: Callable[[Any], Sequence[int]] = lambda config: ()


@dataclass(frozen=True)
class Family:
    """A family of models: its classes, and all other differences between families.

    The text of its model cards is in `card.yaml` in the folder of its entry, which `names.family_notes` reads.

    Attributes:
        config: Configuration class. Its `model_type` is the name of the family.
        modules: Names of the model files with its classes and with layers that no class imports, such as those of
            baselines. Defaults to the modeling file.
        tokenizer: `BackboneTokenizer` class, or None if the family uses the backbone's tokenizer.
        example: Example text on model cards.
        query: Name of the input that marks the tokens of a query, (B, L), or None.
        query_advice: How texts get a query, for messages about texts without one.
        parse: Name of the input with the dependency parse, or None.
        length_limit: Explanation of `max_tokens` of the configurations, for warnings.
        local_map: View of local attention between tokens for `hf_localattn.inspection`, or None.
        gates: View of gates for `hf_localattn.inspection`, or None.
        token_weights: View of token weights for `hf_localattn.inspection`, or None.
        sample_inputs: Function from an attention mask (B, L) to valid additional inputs, for tests and export.
    """

    config: type[LocalAttentionConfig]
    modules: Sequence[str] = ()
    tokenizer: Any = None
    example: str = "The baker Mira grows white roses."
    query: str | None = None
    query_advice: str = ""
    parse: str | None = None
    length_limit: str = ""
    local_map: View | None = None
    gates: View | None = None
    token_weights: View | None = None
    sample_inputs: Callable[[torch.Tensor], dict[str, torch.Tensor]] = lambda mask: {}

    @property
    def name(self) -> str:
        """Name of the family, the `model_type` of its configurations."""
        return self.config.model_type

    @cached_property
    def classes(self) -> dict[str, Any]:
        """Classes of the family by the ending of their names, such as "Model" and "ForTokenClassification"."""
        usual = self.config.__module__.rpartition(".")[2].replace("configuration_", "modeling_")
        modules = [import_module(f"{models.__name__}.{name}") for name in self.modules or (usual,)]
        prefix = self.config.__name__.removesuffix("Config")
        return {
            name.removeprefix(prefix): value
            for module in modules
            for name, value in vars(module).items()
            if name.startswith(prefix) and isinstance(value, type) and issubclass(value, PreTrainedModel)
        }

    @property
    def model(self) -> type[PreTrainedModel]:
        """Class of the model without a head."""
        model: type[PreTrainedModel] = self.classes["Model"]
        return model

    @cached_property
    def heads(self) -> dict[str, type[PreTrainedModel]]:
        """Model class of each task, a key of `AUTO_CLASSES`."""
        endings = names.CLASS_ENDINGS.items()
        return {task: self.classes[ending] for task, ending in endings if ending in self.classes}

    def check_classes(self) -> None:
        """Raise `ValueError` if the family lacks a class that its configurations name."""
        if missing := [ending for ending in self.config.heads.values() if ending not in self.classes]:
            name = f"{self.config.__name__.removesuffix('Config')}{missing[0]}"
            raise ValueError(f"it has no class {name}: write it, or set `heads` of {self.config.__name__}")

    @cached_property
    def facts(self) -> Facts:
        """Facts for tests, `FACTS` of `facts.py` in the folder of the family."""
        facts: Facts = import_module(f"{names.family_packages()[self.name]}.facts").FACTS
        return facts

    @cached_property
    def fields(self) -> dict[str, Field]:
        """Declarations of the fields that users set, by name."""
        return declarations(self.config)

    @cached_property
    def ablations(self) -> list[dict[str, Any]]:
        """Settings of the paper's ablations and baselines, one field each."""
        return [{name: value} for name, declared in self.fields.items() for value in declared.ablations]

    @property
    def tokenizer_settings(self) -> tuple[str, ...]:
        """Names of the settings of the family's tokenizer."""
        return () if self.tokenizer is None else tuple(self.tokenizer.SETTINGS)

    def needs_parse(self, config: PreTrainedConfig) -> bool:
        """Return True if a model with this configuration reads the dependency parse of a text."""
        return self.parse is not None and self.parse in getattr(config, "required_inputs", ())

    def inactive_fields(self, config: PreTrainedConfig) -> list[str]:
        """Return the fields that differ from their default but have no effect under the current settings."""
        return [
            name
            for name, declared in self.fields.items()
            if not declared.takes_effect(config)
            and as_in_files(getattr(config, name)) != as_in_files(getattr(self.config, name))
        ]

    def split_fields(self, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split user settings into fields of the configuration and settings of the tokenizer.

        Raises:
            ValueError: A name is unknown. The message lists the known names.
        """
        check_config_fields(self.config, fields, self.tokenizer_settings)
        settings = {name: value for name, value in fields.items() if name in self.tokenizer_settings}
        return {name: value for name, value in fields.items() if name not in settings}, settings

    def adapt_tokenizer(
        self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, **settings: Any
    ) -> PreTrainedTokenizerBase:
        """Build the family's tokenizer from the backbone's; return the backbone's if the family has none.

        Embeddings for new special tokens are added to the model. A parser that `settings` name is loaded now, so that
        a misspelt name is not written into a checkpoint.
        """
        if self.tokenizer is None:
            return tokenizer
        if self.parse is not None and not self.needs_parse(model.config):
            settings = {"parser": None, **settings}
        adapted = self.tokenizer.from_backbone(tokenizer, **settings)
        if settings.get("parser") is not None:
            adapted.check_parser()
        if len(tokenizer) <= model.config.vocab_size < len(adapted):
            with quiet_weights("mean_resizing"):
                model.resize_token_embeddings(len(adapted))
        return adapted

    def initial_model(self, backbone_config: PreTrainedConfig, task: str | None = None) -> type[PreTrainedModel]:
        """Return the class of new checkpoints of a task. Without one they have no head, or generate if they can.

        Raises:
            ValueError: The family has no head for the task.
        """
        if task is not None and task not in self.heads:
            raise ValueError(f"{self.name!r} has no head for {task!r}. Choose one of {', '.join(self.heads)}.")
        if task is None and backbone_config.is_encoder_decoder:
            task = "text2text-generation"
        return self.model if task is None else self.heads.get(task, self.model)
