"""All public names of this folder."""
# ruff: noqa: F403, F405

from .configuration_cool import CoolConfig
from .configuration_oa_xlnet import OaXLNetConfig
from .configuration_sam_roberta import SamRobertaConfig
from .configuration_sla_bert import SlaBertConfig
from .cool_baselines import *  # the models with all layers
from .cool_baselines_generation import *
from .cool_outlook import outlook_attention
from .cue_markers import mark_cues
from .modeling_oa_xlnet import *
from .sam_baselines import *
from .sam_entmax import *
from .sla_baselines import *
from .sla_distances import *
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
