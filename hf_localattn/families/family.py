"""Description of a family of models for the rest of the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn import models, names
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
        matrix: Function from the local attention of a layer and the padding mask (B, L) to a matrix (B, L, columns).
            The columns are all tokens, or those of the family's query in order, then padding. Defaults to the mean
            over heads.
        layers: Function from a configuration to the indices of the layers with gates, from 0.
    """

    is_available: Callable[[Any], bool]
    settings: str
    title: str = ""
    by_default: bool = True
    matrix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = lambda weights, mask: weights.double().mean(1)
    layers: Callable[[Any], Sequence[int]] = lambda config: ()


@dataclass(frozen=True)
class Family:
    """A family of models: its classes, and all other differences between families.

    The text of its model cards is in `<model_type>.yaml` in the folder of its entry, which `names.family_notes` reads.

    Attributes:
        config: Configuration class. Its `model_type` is the name of the family.
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
        tiny_fields: Fields that keep the new layers tiny, for tests.
    """

    config: type[LocalAttentionConfig]
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
    tiny_fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the family, the `model_type` of its configurations."""
        return self.config.model_type

    @property
    def model(self) -> type[PreTrainedModel]:
        """Class of the model without a head."""
        model: type[PreTrainedModel] = getattr(models, self.config.__name__.replace("Config", "Model"))
        return model

    @cached_property
    def heads(self) -> dict[str, type[PreTrainedModel]]:
        """Model class of each task, a key of `AUTO_CLASSES`."""
        prefix = self.config.__name__.removesuffix("Config")
        classes = {task: f"{prefix}{ending}" for task, ending in names.CLASS_ENDINGS.items()}
        return {task: getattr(models, name) for task, name in classes.items() if hasattr(models, name)}

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
