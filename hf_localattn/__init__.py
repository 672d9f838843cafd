"""Local attention for pretrained encoders, as Hugging Face model classes.

Importing this package registers its families with the Auto classes of transformers.
"""

from hf_localattn.families import register
from hf_localattn.inference import Answer, answer_question, find_scope
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
    mark_cues,
    outlook_attention,
    outlook_attention_matrix,
)
from hf_localattn.models.package_version import VERSION as __version__

__all__ = [
    "Answer",
    "CoolConfig",
    "CoolForConditionalGeneration",
    "CoolForMultipleChoice",
    "CoolForQuestionAnswering",
    "CoolForSequenceClassification",
    "CoolForTokenClassification",
    "CoolModel",
    "OaXLNetConfig",
    "OaXLNetForMultipleChoice",
    "OaXLNetForQuestionAnswering",
    "OaXLNetForSequenceClassification",
    "OaXLNetForTokenClassification",
    "OaXLNetModel",
    "OaXLNetTokenizer",
    "SamRobertaConfig",
    "SamRobertaForMultipleChoice",
    "SamRobertaForQuestionAnswering",
    "SamRobertaForSequenceClassification",
    "SamRobertaForTokenClassification",
    "SamRobertaModel",
    "SlaBertConfig",
    "SlaBertForMultipleChoice",
    "SlaBertForQuestionAnswering",
    "SlaBertForSequenceClassification",
    "SlaBertForTokenClassification",
    "SlaBertModel",
    "SlaBertTokenizer",
    "__version__",
    "answer_question",
    "find_scope",
    "mark_cues",
    "outlook_attention",
    "outlook_attention_matrix",
]

register()
