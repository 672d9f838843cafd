"""Model code that is saved with every checkpoint.

Files here import only the standard library, torch, transformers and other files of this folder.
"""

from .configuration_cool import CoolConfig
from .configuration_oa_xlnet import OaXLNetConfig
from .configuration_sam_roberta import SamRobertaConfig
from .configuration_sla_bert import SlaBertConfig
from .cool_baselines import (  # with all layers
    CoolForMaskedLM,
    CoolForMultipleChoice,
    CoolForQuestionAnswering,
    CoolForSequenceClassification,
    CoolForTokenClassification,
    CoolModel,
)
from .cool_baselines_generation import CoolForConditionalGeneration
from .cool_local_encoder import CoolPreTrainedModel
from .cool_outlook import outlook_attention
from .cue_markers import mark_cues
from .modeling_oa_xlnet import (
    OaXLNetForMaskedLM,
    OaXLNetForMultipleChoice,
    OaXLNetForQuestionAnswering,
    OaXLNetForSequenceClassification,
    OaXLNetForTokenClassification,
    OaXLNetModel,
    OaXLNetPreTrainedModel,
)
from .modeling_sam_roberta import SamRobertaPreTrainedModel
from .modeling_sla_bert import SlaBertPreTrainedModel
from .sam_baselines import (  # with all layers
    SamRobertaForMaskedLM,
    SamRobertaForMultipleChoice,
    SamRobertaForQuestionAnswering,
    SamRobertaForSequenceClassification,
    SamRobertaForTokenClassification,
    SamRobertaModel,
)
from .sla_baselines import (  # with all layers
    SlaBertForMaskedLM,
    SlaBertForMultipleChoice,
    SlaBertForQuestionAnswering,
    SlaBertForSequenceClassification,
    SlaBertForTokenClassification,
    SlaBertModel,
)
from .tokenization_oa_xlnet import OaXLNetTokenizer
from .tokenization_sla_bert import SlaBertTokenizer

__all__ = [
    "CoolConfig",
    "CoolForConditionalGeneration",
    "CoolForMaskedLM",
    "CoolForMultipleChoice",
    "CoolForQuestionAnswering",
    "CoolForSequenceClassification",
    "CoolForTokenClassification",
    "CoolModel",
    "CoolPreTrainedModel",
    "OaXLNetConfig",
    "OaXLNetForMaskedLM",
    "OaXLNetForMultipleChoice",
    "OaXLNetForQuestionAnswering",
    "OaXLNetForSequenceClassification",
    "OaXLNetForTokenClassification",
    "OaXLNetModel",
    "OaXLNetPreTrainedModel",
    "OaXLNetTokenizer",
    "SamRobertaConfig",
    "SamRobertaForMaskedLM",
    "SamRobertaForMultipleChoice",
    "SamRobertaForQuestionAnswering",
    "SamRobertaForSequenceClassification",
    "SamRobertaForTokenClassification",
    "SamRobertaModel",
    "SamRobertaPreTrainedModel",
    "SlaBertConfig",
    "SlaBertForMaskedLM",
    "SlaBertForMultipleChoice",
    "SlaBertForQuestionAnswering",
    "SlaBertForSequenceClassification",
    "SlaBertForTokenClassification",
    "SlaBertModel",
    "SlaBertPreTrainedModel",
    "SlaBertTokenizer",
    "mark_cues",
    "outlook_attention",
]
