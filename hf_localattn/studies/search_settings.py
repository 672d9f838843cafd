"""Validation of the settings of a search before training, and detection of settings that give the same model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from transformers import AutoConfig

from hf_localattn.assignments import format_assignments, parse_config_fields
from hf_localattn.errors import loading
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.names import PLAIN
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.registry import get_family
from hf_localattn.studies.search_space import SearchSpace
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.optimizers import import_lookahead


class SettingCheck:
    """Validates settings with training arguments and configuration only, without building a model.

    Args:
        space: the search space.
        model_args: the model.
        training_args: training arguments that are not searched.

    Raises:
        ValueError, OSError: the configuration of the backbone cannot be loaded.
    """

    def __init__(self, space: SearchSpace, model_args: ModelArguments, training_args: TrainingArguments):
        self.space, self.model_args, self.training_args = space, model_args, training_args
        self.backbone_config = None
        of_model = space.fields or "local_learning_rate" in space.arguments
        if of_model and model_args.family not in (None, PLAIN):
            source = resolve_backbone(model_args.source)
            hub = {"cache_dir": model_args.cache_dir, "revision": model_args.model_revision, "token": model_args.token}
            with loading("backbone", source):
                self.backbone_config = AutoConfig.from_pretrained(source, **hub)

    def __call__(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Validate a setting.

        Returns:
            The setting, with fields that have no effect set to their defaults. Settings of the same model are equal.

        Raises:
            ValueError: an argument or a field is invalid. The message names the setting.
            ImportError: the setting needs an extra that is not installed.
        """
        arguments = {name: value for name, value in setting.items() if name in self.space.arguments}
        fields = {name: value for name, value in setting.items() if name in self.space.fields}
        try:
            changed = dataclasses.replace(self.training_args, **arguments)
            if changed.lookahead_steps is not None:
                import_lookahead()
            if self.backbone_config is None:
                return dict(setting)
            config = self._config(fields)
            family = get_family(str(self.model_args.family))
            if changed.local_learning_rate is not None and not family.trains_backbone(config):
                raise ValueError(
                    "the backbone is frozen, so that local_learning_rate would apply to all trained parameters: search"
                    " learning_rate alone."
                )
        except ValueError as error:
            values = ", ".join(format_assignments(setting))
            raise ValueError(f"--search_space {self.training_args.search_space}, with {values}: {error}") from None
        idle = {name: getattr(type(config), name) for name in family.inactive_fields(config) if name in fields}
        return {**setting, **idle}

    def _config(self, fields: Mapping[str, Any]) -> LocalAttentionConfig:
        family = get_family(str(self.model_args.family))
        given, _ = family.split_fields(parse_config_fields(family.config.model_type, self.model_args.local_config))
        return family.config(backbone_config=self.backbone_config, **{**given, **fields})


def distinct(settings: Iterable[Mapping[str, Any]], check: SettingCheck) -> list[Mapping[str, Any]]:
    """Validate all settings, and return one setting for each group of settings of the same model."""
    first: dict[str, Mapping[str, Any]] = {}
    for setting in settings:
        first.setdefault(json.dumps(check(setting)), setting)
    return list(first.values())
