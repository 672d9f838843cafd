"""The registry of families: one entry each, from which Auto registration, commands, tests and benchmarks follow."""

from __future__ import annotations

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
)

from hf_localattn.pipelines import register_pipelines
from hf_localattn.registry.cool import COOL
from hf_localattn.registry.family import Family
from hf_localattn.registry.oa_xlnet import OA_XLNET
from hf_localattn.registry.sam_roberta import SAM_ROBERTA
from hf_localattn.registry.sla_bert import SLA_BERT
from hf_localattn.registry.views import Gates, LocalMap, Query, View

__all__ = [
    "AUTO_CLASSES",
    "FAMILIES",
    "Family",
    "Gates",
    "LocalMap",
    "Query",
    "View",
    "family_of",
    "get_family",
    "register",
    "task_of_class",
]

FAMILIES: dict[str, Family] = {family.name: family for family in (COOL, SLA_BERT, OA_XLNET, SAM_ROBERTA)}

AUTO_CLASSES: dict[str, Any] = {
    "question-answering": AutoModelForQuestionAnswering,
    "text-classification": AutoModelForSequenceClassification,
    "token-classification": AutoModelForTokenClassification,
    "multiple-choice": AutoModelForMultipleChoice,
    "text2text-generation": AutoModelForSeq2SeqLM,
}
"""The Auto class of each task, which serves families and stock backbones alike."""

_CLASS_ENDINGS = {
    "ForQuestionAnswering": "question-answering",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForConditionalGeneration": "text2text-generation",
}


def register() -> None:
    """Make the Auto classes know all families, and `pipeline` what answers. Calling it again changes nothing."""
    register_pipelines()
    for family in FAMILIES.values():
        AutoConfig.register(family.name, family.config, exist_ok=True)
        AutoModel.register(family.config, family.model, exist_ok=True)
        for task, head in family.heads.items():
            AUTO_CLASSES[task].register(family.config, head, exist_ok=True)
        if family.tokenizer is not None:
            AutoTokenizer.register(family.config, fast_tokenizer_class=family.tokenizer, exist_ok=True)


def get_family(name: str) -> Family:
    """Look up a family.

    Raises:
        ValueError: there is none of that name; the message lists those there are.
    """
    if name not in FAMILIES:
        raise ValueError(f"There is no family {name!r}. Choose one of {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def family_of(config: PreTrainedConfig) -> Family | None:
    """Return the family of a configuration; None for one of transformers itself."""
    return FAMILIES.get(config.model_type)


def task_of_class(name: str) -> str | None:
    """Return the task of a model class, ours or one of transformers, by its name; None if it is headless."""
    return next((task for ending, task in _CLASS_ENDINGS.items() if name.endswith(ending)), None)


register()
