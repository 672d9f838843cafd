"""The registry of families: one line each, from which Auto registration, commands, tests and benchmarks follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_localattn.models import (
    CoolConfig,
    CoolForConditionalGeneration,
    CoolForMultipleChoice,
    CoolForQuestionAnswering,
    CoolForSequenceClassification,
    CoolForTokenClassification,
    CoolModel,
    OaXLNetConfig,
    OaXLNetForMultipleChoice,
    OaXLNetForQuestionAnswering,
    OaXLNetForSequenceClassification,
    OaXLNetForTokenClassification,
    OaXLNetModel,
    OaXLNetTokenizer,
    SamRobertaConfig,
    SamRobertaForMultipleChoice,
    SamRobertaForQuestionAnswering,
    SamRobertaForSequenceClassification,
    SamRobertaForTokenClassification,
    SamRobertaModel,
    SlaBertConfig,
    SlaBertForMultipleChoice,
    SlaBertForQuestionAnswering,
    SlaBertForSequenceClassification,
    SlaBertForTokenClassification,
    SlaBertModel,
    SlaBertTokenizer,
)
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.modeling_local_attention import check_config_fields
from hf_localattn.parsing import parse_yaml
from hf_localattn.pipelines import register_pipelines

AUTO_CLASSES: dict[str, Any] = {
    "question-answering": AutoModelForQuestionAnswering,
    "text-classification": AutoModelForSequenceClassification,
    "token-classification": AutoModelForTokenClassification,
    "multiple-choice": AutoModelForMultipleChoice,
    "text2text-generation": AutoModelForSeq2SeqLM,
}
"""The Auto class of each task, which serves families and stock backbones alike."""


@dataclass(frozen=True)
class Family:
    """The classes of a family: configuration, headless model, the model of each task, a tokenizer if it has one."""

    config: type[LocalAttentionConfig]
    model: type[PreTrainedModel]
    heads: dict[str, type[PreTrainedModel]]
    tokenizer: Any = None

    def split_fields(self, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Part what a user sets into the configuration's fields and the tokenizer's settings.

        Raises:
            ValueError: a name is neither; the nearest is named.
        """
        own = () if self.tokenizer is None else self.tokenizer.SETTINGS
        check_config_fields(self.config, fields, own)
        settings = {name: value for name, value in fields.items() if name in own}
        return {name: value for name, value in fields.items() if name not in own}, settings

    def tokenizer_assignments(self, assignments: Iterable[str]) -> list[str]:
        """Return those of some `field=value` strings that are settings of the family's tokenizer."""
        own = () if self.tokenizer is None else self.tokenizer.SETTINGS
        return [assignment for assignment in assignments if assignment.partition("=")[0].strip() in own]

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


FAMILIES: dict[str, Family] = {
    "cool": Family(
        CoolConfig,
        CoolModel,
        {
            "question-answering": CoolForQuestionAnswering,
            "text-classification": CoolForSequenceClassification,
            "token-classification": CoolForTokenClassification,
            "multiple-choice": CoolForMultipleChoice,
            "text2text-generation": CoolForConditionalGeneration,
        },
    ),
    "sla-bert": Family(
        SlaBertConfig,
        SlaBertModel,
        {
            "question-answering": SlaBertForQuestionAnswering,
            "text-classification": SlaBertForSequenceClassification,
            "token-classification": SlaBertForTokenClassification,
            "multiple-choice": SlaBertForMultipleChoice,
        },
        SlaBertTokenizer,
    ),
    "oa-xlnet": Family(
        OaXLNetConfig,
        OaXLNetModel,
        {
            "question-answering": OaXLNetForQuestionAnswering,
            "text-classification": OaXLNetForSequenceClassification,
            "token-classification": OaXLNetForTokenClassification,
            "multiple-choice": OaXLNetForMultipleChoice,
        },
        OaXLNetTokenizer,
    ),
    "sam-roberta": Family(
        SamRobertaConfig,
        SamRobertaModel,
        {
            "question-answering": SamRobertaForQuestionAnswering,
            "text-classification": SamRobertaForSequenceClassification,
            "token-classification": SamRobertaForTokenClassification,
            "multiple-choice": SamRobertaForMultipleChoice,
        },
    ),
}


def register() -> None:
    """Make the Auto classes know all families, and `pipeline` what answers. Calling it again changes nothing."""
    register_pipelines()
    for family in FAMILIES.values():
        AutoConfig.register(family.config.model_type, family.config, exist_ok=True)
        AutoModel.register(family.config, family.model, exist_ok=True)
        for task, head in family.heads.items():
            AUTO_CLASSES[task].register(family.config, head, exist_ok=True)
        if family.tokenizer is not None:
            AutoTokenizer.register(family.config, fast_tokenizer_class=family.tokenizer, exist_ok=True)


def parse_tokenizer_settings(model_type: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Turn `setting=value` strings into settings for the tokenizer of a checkpoint, whose fields are what they are.

    Raises:
        ValueError: a string is of another form, or names no setting of a tokenizer of this model type.
    """
    if not assignments:
        return {}
    family = FAMILIES.get(model_type)
    if family is None or family.tokenizer is None:
        raise ValueError(
            f"{assignments[0]!r} sets nothing: the tokenizer of a {model_type!r} checkpoint has no settings."
        )
    fields, settings = family.split_fields(parse_config_fields(model_type, assignments))
    if fields:
        raise ValueError(
            f"`{next(iter(fields))}` is a field of the model, which a checkpoint has settled. The settings of its"
            f" tokenizer are {', '.join(family.tokenizer.SETTINGS)}."
        )
    return settings


def get_family(name: str) -> Family:
    """Look up a family.

    Raises:
        ValueError: there is none of that name; the message lists those there are.
    """
    if name not in FAMILIES:
        raise ValueError(f"There is no family {name!r}. Choose one of {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def read_value(text: str, assignment: str) -> Any:
    """Return a value of the command line, read as YAML (`2`, `true`, `[3, 4]`, `null`).

    Args:
        text: the value.
        assignment: as it was given, for errors.

    Raises:
        ValueError: it is not YAML.
    """
    value = parse_yaml(text, f"Cannot read the value of {assignment!r}, to be written as YAML, such as 2 or [3, 4]")
    try:  # what YAML 1.1 takes for text: 1e-1
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def parse_config_fields(family: str, assignments: Iterable[str]) -> dict[str, Any]:
    """Turn `field=value` strings into what a user sets; values are read as YAML (`2`, `true`, `[3, 4]`, `null`).

    Raises:
        ValueError: a string without "=", or a field the family does not have (the nearest is named).
    """
    config_fields = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(f"{assignment!r} is not of the form field=value, such as num_local_layers=2.")
        config_fields[name.strip()] = read_value(value, assignment)
    get_family(family).split_fields(config_fields)
    return config_fields


register()
