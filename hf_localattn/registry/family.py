"""Description of a family of models for the rest of the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn import models
from hf_localattn.installed.backbones import check_config_fields
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig

HEADS = {
    "question-answering": "ForQuestionAnswering",
    "text-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
    "multiple-choice": "ForMultipleChoice",
    "fill-mask": "ForMaskedLM",
    "text2text-generation": "ForConditionalGeneration",
}
"""Ending of the names of model classes by task."""


@dataclass(frozen=True)
class Query:
    """An input that marks the tokens of a query, such as a question or a cue.

    Attributes:
        input: Name of the input, (B, L), nonzero at the tokens of the query.
        remedy: Advice for errors about a text without a query.
        warning: Warning for training data without any query.
    """

    input: str
    remedy: str
    warning: str


@dataclass(frozen=True)
class View:
    """A kind of attention weights that some configurations of a family have.

    Attributes:
        is_available: Function from a configuration to True if its models have the weights.
        settings: Description of the fields that enable the weights, for error messages.
    """

    is_available: Callable[[Any], bool]
    settings: str


def mean_over_heads(weights: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean over heads of weights (B, heads, rows, columns), as float64."""
    return weights.double().mean(1)


@dataclass(frozen=True)
class LocalMap(View):
    """Local attention between tokens, from `local_attentions` of a model's output.

    Attributes:
        title: Name of this attention.
        by_default: True if this map is shown by default instead of the encoder's self-attention.
        query: Input that marks the tokens of the columns. The columns are these tokens in order, then padding. None if
            the columns are all tokens.
        matrix: Function from the weights of a layer and the padding mask (B, L) to a matrix (B, L, columns).
    """

    title: str
    by_default: bool = True
    query: Query | None = None
    matrix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = mean_over_heads


@dataclass(frozen=True)
class Gates(View):
    """Shares of local attention, from `gates` of a model's output.

    Attributes:
        layers: Function from a configuration to the indices of the layers with gates, from 0.
    """

    layers: Callable[[Any], Sequence[int]]


@dataclass(frozen=True)
class Family:
    """A family of models: its classes, and all other differences between families.

    The text of its model cards is in `<model_type>.yaml` in the folder of its entry, which `names.family_notes` reads.

    Attributes:
        config: Configuration class. Its `model_type` is the name of the family.
        classes: Module with the model classes. Their names begin with that of the configuration.
        tokenizer: `BackboneTokenizer` class, or None if the family uses the backbone's tokenizer.
        paper: Prefix of the names of the paper's tables in `reproduction/tables/`; "" without tables.
        example: Example text on model cards.
        query: Input that marks the tokens of a query, or None.
        parse: Name of the input with the dependency parse, or None.
        length_limit: Explanation of `max_tokens` of the configurations, for warnings.
        local_map: View of local attention between tokens for `hf_localattn.inspection`, or None.
        gates: View of gates for `hf_localattn.inspection`, or None.
        token_weights: View of token weights for `hf_localattn.inspection`, or None.
        tokenizer_defaults: Function from a configuration to settings of the tokenizer that it changes.
        controls: Names of the fields that decide which other fields take effect.
        effects: Function from a configuration to groups of fields, each with True if the group takes effect. Fields
            that always take effect are left out.
        sample_inputs: Function from an attention mask (B, L) to valid additional inputs, for tests and export.
        tiny_fields: Fields that keep the new layers tiny, for tests.
        ablations: Settings of the paper's ablations and baselines, for tests. The first ablation sets one field.
    """

    config: type[LocalAttentionConfig]
    classes: Any = models
    tokenizer: Any = None
    paper: str = ""
    example: str = "The baker Mira grows white roses."
    query: Query | None = None
    parse: str | None = None
    length_limit: str = ""
    local_map: LocalMap | None = None
    gates: Gates | None = None
    token_weights: View | None = None
    tokenizer_defaults: Callable[[Any], dict[str, Any]] = lambda config: {}
    controls: Sequence[str] = ()
    effects: Callable[[Any], Mapping[tuple[str, ...], bool]] = lambda config: {}
    sample_inputs: Callable[[torch.Tensor], dict[str, torch.Tensor]] = lambda mask: {}
    tiny_fields: Mapping[str, Any] = field(default_factory=dict)
    ablations: Sequence[Mapping[str, Any]] = ()

    @property
    def name(self) -> str:
        """Name of the family, the `model_type` of its configurations."""
        return self.config.model_type

    @property
    def model(self) -> type[PreTrainedModel]:
        """Class of the model without a head."""
        model: type[PreTrainedModel] = getattr(self.classes, self.config.__name__.replace("Config", "Model"))
        return model

    @cached_property
    def heads(self) -> dict[str, type[PreTrainedModel]]:
        """Model class of each task, a key of `AUTO_CLASSES`."""
        names = {task: self.config.__name__.replace("Config", ending) for task, ending in HEADS.items()}
        return {task: getattr(self.classes, name) for task, name in names.items() if hasattr(self.classes, name)}

    @property
    def tokenizer_settings(self) -> tuple[str, ...]:
        """Names of the settings of the family's tokenizer."""
        return () if self.tokenizer is None else tuple(self.tokenizer.SETTINGS)

    def needs_parse(self, config: PreTrainedConfig) -> bool:
        """Return True if a model with this configuration reads the dependency parse of a text."""
        return self.parse is not None and self.parse in getattr(config, "required_inputs", ())

    def inactive_fields(self, config: PreTrainedConfig) -> list[str]:
        """Return the fields that differ from their default but have no effect under the current settings."""
        inactive = [field for fields, active in self.effects(config).items() if not active for field in fields]
        return [field for field in inactive if getattr(config, field) != getattr(self.config, field)]

    def split_fields(self, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split user settings into fields of the configuration and settings of the tokenizer.

        Raises:
            ValueError: A name is unknown. The message has the nearest name.
        """
        check_config_fields(self.config, fields, self.tokenizer_settings)
        settings = {name: value for name, value in fields.items() if name in self.tokenizer_settings}
        return {name: value for name, value in fields.items() if name not in settings}, settings

    def adapt_tokenizer(
        self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, **settings: Any
    ) -> PreTrainedTokenizerBase:
        """Build the family's tokenizer from the backbone's; return the backbone's if the family has none.

        Embeddings for new special tokens are added to the model.
        """
        if self.tokenizer is None:
            return tokenizer
        adapted = self.tokenizer.from_backbone(tokenizer, **{**self.tokenizer_defaults(model.config), **settings})
        if len(tokenizer) <= model.config.vocab_size < len(adapted):
            model.resize_token_embeddings(len(adapted))
        return adapted

    def initial_model(self, backbone_config: PreTrainedConfig, task: str | None = None) -> type[PreTrainedModel]:
        """Return the class of new checkpoints.

        Args:
            backbone_config: Configuration of the backbone.
            task (*optional*): A key of `heads`. By default the model has no head, or generates if the backbone is an
                encoder-decoder.

        Raises:
            ValueError: The family has no head for the task.
        """
        if task is not None:
            if task not in self.heads:
                raise ValueError(f"{self.name!r} has no head for {task!r}. Choose one of {', '.join(self.heads)}.")
            return self.heads[task]
        generating = [head for head in self.heads.values() if head.can_generate()]
        return generating[0] if backbone_config.is_encoder_decoder and generating else self.model
