"""COOL: a pretrained encoder with a context outlooker on top of, below or parallel to it.

Source: COOL, a Context Outlooker, and its Application to Question Answering and other Natural Language Processing
Tasks (Zhu, Ng and Bressan), section 3 and figures 1 and 2.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import nn
from transformers.utils import can_return_tuple

from .backbone_features import LocalModelOutput, check_inputs
from .configuration_cool import CoolConfig
from .cool_baselines import GraphAttentionLayer, HeterogeneousGraphLayer
from .cool_fusion import Fusion
from .cool_generation import ConditionalGenerationHead
from .cool_local_encoder import LocalEncoder
from .masked_lm_head import MaskedLMHead
from .modeling_local_attention import LocalAttentionPreTrainedModel, register_auto_classes
from .task_heads import MultipleChoiceHead, QuestionAnsweringHead, SequenceClassificationHead, TokenClassificationHead


class CoolPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of COOL's models: configuration, names and initialization."""

    config_class = CoolConfig
    base_model_prefix = "cool"
    _checkpoint_conversion_mapping: ClassVar = {
        r"(local_encoder\.layers\.\d+)\.score\.": r"\1.attention_scores.",
    }
    _no_split_modules = [  # noqa: RUF012 (transformers' own type)
        "ConvolutionBlock",
        "OutlookLayer",
        "DynamicConvolutionLayer",
        "VisualOutlookLayer",
        "RelationalGraphLayer",
        "GraphAttentionLayer",
        "HeterogeneousGraphLayer",
    ]

    def add_backbone(self) -> None:
        super().add_backbone()
        if self.config.local_attention == "deeper":
            with torch.device("meta"):
                plain = self.backbone_auto_class.from_config(copy.deepcopy(self.config.backbone_config))
            # Mark added modules, as names change when modules are wrapped. ALBERT has none: it repeats shared layers.
            known = {name for name, _ in plain.named_modules()}
            for name, module in self.backbone.named_modules():
                module.is_added = name not in known

    def fresh_modules(self) -> Iterator[nn.Module]:
        yield from (module for module in self.backbone_model.modules() if getattr(module, "is_added", False))

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, GraphAttentionLayer | HeterogeneousGraphLayer):
            module.initialize()


class CoolModel(CoolPreTrainedModel):
    """The encoder with the context outlooker, without a task head."""

    def __init__(self, config: CoolConfig):
        super().__init__(config)
        self.add_backbone()
        self.local_encoder = LocalEncoder(config)
        width = getattr(self.get_input_embeddings(), "embedding_dim", None)
        if config.mode != "g2l" and width != config.local_input_size:
            raise ValueError(
                f"`mode` is {config.mode!r}, but {config.backbone_config.model_type!r} has no word embeddings of "
                f"width {config.local_input_size} (found {width}): set `mode` to 'g2l'."
            )
        if config.mode == "g&l":
            self.fusion = Fusion(config.fusion, config.backbone_config.hidden_size, config.local_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> LocalModelOutput:
        """Compute the hidden states of all tokens.

        Args:
            input_ids: (B, L) token ids.
            attention_mask: (B, L), 1 for tokens and 0 for padding on either side. By default all are tokens.
            token_type_ids: (B, L) segment ids, if the backbone has segments.
            position_ids: (B, L) positions. By default tokens are numbered without padding.
            inputs_embeds: (B, L, E) embeddings in place of `input_ids`.
            **kwargs: `output_attentions`, `output_hidden_states` and other arguments of the backbone.

        Returns:
            Hidden states of width F in mode "g2l" and of the backbone's width in other modes, with the weights of the
            local layers as `local_attentions`.

        Raises:
            ValueError: Inputs are missing, or have invalid shapes or values.
        """
        self.resolve_output_flags(kwargs)
        given = check_inputs(input_ids, inputs_embeds, attention_mask)
        mask = None if attention_mask is None else attention_mask != 0
        local = weights = None
        if self.config.mode != "g2l":
            self._check_values(input_ids, inputs_embeds, token_type_ids, position_ids)
            words = given if input_ids is None else self.get_input_embeddings()(input_ids)
            local, weights = self.local_encoder(words, mask, kwargs["output_attentions"])
            if self.config.mode == "l2g":
                input_ids, inputs_embeds = None, local
        outputs = self.forward_backbone(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs
        )
        states = outputs.last_hidden_state
        if self.config.mode == "g2l":
            states, weights = self.local_encoder(states, mask, kwargs["output_attentions"])
        elif self.config.mode == "g&l":
            states = self.fusion(states, local)
        return LocalModelOutput(
            last_hidden_state=states,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=weights,
        )


class CoolForQuestionAnswering(CoolPreTrainedModel, QuestionAnsweringHead):
    """COOL with a span prediction head for extractive question answering (section 3.4).

    Example:
        >>> from transformers import AutoTokenizer
        >>> from hf_localattn import CoolForQuestionAnswering
        >>> from hf_localattn.resources import tiny_backbone
        >>> backbone = tiny_backbone()  # or "bert-base-cased"
        >>> model = CoolForQuestionAnswering.from_backbone(backbone, num_local_layers=1)
        >>> tokenizer = AutoTokenizer.from_pretrained(backbone)
        >>> inputs = tokenizer("Who is the baker?", "The baker is Mira.", return_tensors="pt")
        >>> model(**inputs).start_logits.shape == inputs.input_ids.shape
        True
    """

    base_model_class = CoolModel


class CoolForSequenceClassification(CoolPreTrainedModel, SequenceClassificationHead):
    """COOL with a classification or regression head for texts and pairs of texts."""

    base_model_class = CoolModel


class CoolForTokenClassification(CoolPreTrainedModel, TokenClassificationHead):
    """COOL with a token classification head."""

    base_model_class = CoolModel


class CoolForMultipleChoice(CoolPreTrainedModel, MultipleChoiceHead):
    """COOL with a multiple choice head."""

    base_model_class = CoolModel


class CoolForMaskedLM(CoolPreTrainedModel, MaskedLMHead):
    """COOL with the masked-language-model head of the backbone."""

    base_model_class = CoolModel


class CoolForConditionalGeneration(CoolPreTrainedModel, ConditionalGenerationHead):
    """An encoder-decoder for text generation with COOL's local layers on the encoder's output (section 4.3)."""

    local_encoder_class = LocalEncoder


register_auto_classes(
    CoolConfig,
    AutoModel=CoolModel,
    AutoModelForQuestionAnswering=CoolForQuestionAnswering,
    AutoModelForSequenceClassification=CoolForSequenceClassification,
    AutoModelForTokenClassification=CoolForTokenClassification,
    AutoModelForMultipleChoice=CoolForMultipleChoice,
    AutoModelForMaskedLM=CoolForMaskedLM,
    AutoModelForSeq2SeqLM=CoolForConditionalGeneration,
)
