"""The suitcase: everything that travels to the Hub with a checkpoint.

Files here import the standard library, torch, transformers and each other (same folder), nothing else.
"""

from .configuration_cool import CoolConfig
from .configuration_sla_bert import SlaBertConfig
from .modeling_cool import (
    CoolForConditionalGeneration,
    CoolForMultipleChoice,
    CoolForQuestionAnswering,
    CoolForSequenceClassification,
    CoolForTokenClassification,
    CoolModel,
    CoolPreTrainedModel,
)
from .modeling_sla_bert import (
    SlaBertForMultipleChoice,
    SlaBertForQuestionAnswering,
    SlaBertForSequenceClassification,
    SlaBertForTokenClassification,
    SlaBertModel,
    SlaBertPreTrainedModel,
)
from .outlook_attention import outlook_attention, outlook_attention_matrix
from .tokenization_sla_bert import SlaBertTokenizer

__all__ = [
    "CoolConfig",
    "CoolForConditionalGeneration",
    "CoolForMultipleChoice",
    "CoolForQuestionAnswering",
    "CoolForSequenceClassification",
    "CoolForTokenClassification",
    "CoolModel",
    "CoolPreTrainedModel",
    "SlaBertConfig",
    "SlaBertForMultipleChoice",
    "SlaBertForQuestionAnswering",
    "SlaBertForSequenceClassification",
    "SlaBertForTokenClassification",
    "SlaBertModel",
    "SlaBertPreTrainedModel",
    "SlaBertTokenizer",
    "outlook_attention",
    "outlook_attention_matrix",
]
