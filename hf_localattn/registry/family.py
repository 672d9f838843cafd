"""A family of models, with all that the rest of the package has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import torch
import yaml
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.modeling_local_attention import check_config_fields
from hf_localattn.registry.views import Gates, LocalMap, Query, View


def no_inputs(mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the additional inputs of a family that takes none."""
    return {}


@dataclass(frozen=True)
class Family:
    """A family of models: its classes, and its answers to whatever else differs from family to family.

    The text of its model cards is in a file beside its entry, `<model_type>.yaml` (see `card_notes`).

    Attributes:
        config: the configuration, whose `model_type` is the name of the family.
        model: the headless model.
        heads: the model of each task, a key of `AUTO_CLASSES`.
        tokenizer: a `BackboneTokenizer` if the family has one.
        paper: prefix of the names of its paper's tables in `reproduction/tables/`; "" if it has none there.
        example: a text that its models can read, for the program on a model card.
        query: the input that marks the tokens which a text is asked about, if there is one.
        parse: the input that a dependency parser makes, if there is one.
        length_limit: explains, in a warning, the `max_tokens` of its configurations.
        trains_backbone: tells from a configuration if training changes the backbone.
        local_map, gates, token_weights: the views of its attention that `hf_localattn.inspection` can show.
        sample_inputs: makes valid values of its additional inputs from an attention mask (B, L), to test and export.
        tiny_fields: fields that keep its new layers tiny, for tests.
        ablations: settings of the paper's ablations and baselines; the first one sets one field. Tests run each.
    """

    config: type[LocalAttentionConfig]
    model: type[PreTrainedModel]
    heads: Mapping[str, type[PreTrainedModel]]
    tokenizer: Any = None
    paper: str = ""
    example: str = "The baker Mira grows white roses."
    query: Query | None = None
    parse: str | None = None
    length_limit: str = ""
    trains_backbone: Callable[[Any], bool] = lambda config: True
    local_map: LocalMap | None = None
    gates: Gates | None = None
    token_weights: View | None = None
    sample_inputs: Callable[[torch.Tensor], dict[str, torch.Tensor]] = no_inputs
    tiny_fields: Mapping[str, Any] = field(default_factory=dict)
    ablations: Sequence[Mapping[str, Any]] = ()

    @property
    def name(self) -> str:
        """Key of the family in `FAMILIES`, and `model_type` of its configurations."""
        return self.config.model_type

    @property
    def tokenizer_settings(self) -> tuple[str, ...]:
        """Settings of the family's tokenizer; none if it has none."""
        return () if self.tokenizer is None else tuple(self.tokenizer.SETTINGS)

    def card_notes(self) -> dict[str, Any]:
        """Read what a model card says of the family.

        Returns:
            `title`, `summary`, `inputs` and `limits` of the models; `paper`, `url` and `bibtex` of their paper.
        """
        file = files("hf_localattn.registry").joinpath(f"{self.name.replace('-', '_')}.yaml")
        return yaml.safe_load(file.read_text(encoding="utf-8"))

    def needs_parse(self, config: PreTrainedConfig) -> bool:
        """Return True if a model with this configuration reads the dependency parse of a text."""
        return self.parse is not None and self.parse in getattr(config, "required_inputs", ())

    def split_fields(self, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Part what a user sets into the configuration's fields and the tokenizer's settings.

        Raises:
            ValueError: a name is neither; the nearest is named.
        """
        fields = self.config.current_names(fields)
        check_config_fields(self.config, fields, self.tokenizer_settings)
        settings = {name: value for name, value in fields.items() if name in self.tokenizer_settings}
        return {name: value for name, value in fields.items() if name not in settings}, settings

    def adapt_tokenizer(
        self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, **settings: Any
    ) -> PreTrainedTokenizerBase:
        """Turn a backbone's tokenizer into what a model of the family needs; itself where that is nothing more.

        The model gets embeddings for the special tokens that are new.
        """
        if self.tokenizer is None:
            return tokenizer
        adapted = self.tokenizer.from_backbone(tokenizer, **{**model.config.tokenizer_settings, **settings})
        if len(tokenizer) <= model.config.vocab_size < len(adapted):
            model.resize_token_embeddings(len(adapted))
        return adapted

    def initial_model(self, backbone_config: PreTrainedConfig) -> type[PreTrainedModel]:
        """The class of a checkpoint that is not yet for one task: headless, or the one that generates."""
        generating = [head for head in self.heads.values() if head.can_generate()]
        return generating[0] if backbone_config.is_encoder_decoder and generating else self.model
