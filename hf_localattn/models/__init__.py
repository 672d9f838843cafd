"""The suitcase: everything that travels to the Hub with a checkpoint.

Files here import the standard library, torch, transformers and each other (same folder), nothing else.
"""

from .configuration_cool import CoolConfig
from .modeling_cool import (
    CoolForConditionalGeneration,
    CoolForMultipleChoice,
    CoolForQuestionAnswering,
    CoolForSequenceClassification,
    CoolForTokenClassification,
    CoolModel,
    CoolPreTrainedModel,
)
from .outlook_attention import outlook_attention, outlook_attention_matrix

__all__ = [
    "CoolConfig",
    "CoolForConditionalGeneration",
    "CoolForMultipleChoice",
    "CoolForQuestionAnswering",
    "CoolForSequenceClassification",
    "CoolForTokenClassification",
    "CoolModel",
    "CoolPreTrainedModel",
    "outlook_attention",
    "outlook_attention_matrix",
]
