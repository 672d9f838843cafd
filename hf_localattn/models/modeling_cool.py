"""COOL: a context outlooker on top of a pretrained encoder.

Source: COOL, a Context Outlooker, and its Application to Question Answering and other Natural Language Processing
Tasks (Zhu, Ng and Bressan), section 3 and figure 2.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils import can_return_tuple

from .configuration_cool import CoolConfig
from .convolution_block import ConvolutionBlock
from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalModelOutput, register_auto_classes
from .outlook_attention import OutlookLayer
from .task_heads import QuestionAnsweringHead


class ContextOutlooker(nn.Module):
    """The convolutional block, if any, and the outlook layers above it (section 3.3).

    Args:
        config: says how it is built; the input has the backbone's width, the output `config.local_size`.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        self.convolution_block = None
        if config.use_conv:
            self.convolution_block = ConvolutionBlock(
                config.hidden_size,
                config.conv_kernel_sizes,
                config.conv_filters,
                config.conv_pooling,
                config.conv_alignment,
            )
        self.layers = nn.ModuleList(
            OutlookLayer(
                config.local_size,
                config.outlook_kernel_size,
                num_heads=config.outlook_num_heads,
                num_ffn_layers=config.num_ffn_layers,
                joint_softmax=config.outlook_softmax == "window",
                mask_outside_window=config.mask_outside_window,
                dropout=config.outlook_dropout,
                bias=config.qkv_bias,
                layer_norm=config.use_layer_norm,
            )
            for _ in range(config.num_local_layers or 0)
        )

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None]:
        """Map states (B, L, H) to (B, L, F), with each layer's weights (B, L, K, K, heads) if asked for."""
        if self.convolution_block is not None:
            states = self.convolution_block(states, mask)
        all_weights: tuple[torch.Tensor, ...] = ()
        for layer in self.layers:
            states, weights = layer(states, mask, output_attentions)
            if weights is not None:
                all_weights += (weights,)
        return states, all_weights if output_attentions else None


class CoolPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of COOL's models: configuration, names and initialisation."""

    config_class = CoolConfig
    base_model_prefix = "cool"
    _no_split_modules = ["OutlookLayer", "ConvolutionBlock"]  # noqa: RUF012 (transformers' own type)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, ConvolutionBlock | OutlookLayer):
            # torch's own default, which keeps the scale at every width; 0.02 fits only a width of about 768.
            for layer in module.modules():
                if isinstance(layer, nn.Linear | nn.Conv1d):
                    init.kaiming_uniform_(layer.weight, a=math.sqrt(5))


class CoolModel(CoolPreTrainedModel):
    """The encoder with the context outlooker, without a head."""

    def __init__(self, config: CoolConfig):
        super().__init__(config)
        self.add_backbone()
        self.outlooker = ContextOutlooker(config)
        self.output_size = config.local_size
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
        """States (B, L, F) of every token after the local layers.

        Args:
            input_ids: (B, L); or `inputs_embeds` (B, L, E).
            attention_mask: (B, L), 1 at real tokens, 0 at pads on either side; all real when absent.
            token_type_ids: (B, L), where the backbone has segments.
            position_ids: (B, L); real tokens are counted when absent.
            **kwargs: `output_attentions`, `output_hidden_states` and others of the backbone.
        """
        kwargs["output_attentions"] = self.is_asked_for("output_attentions", kwargs)
        kwargs["output_hidden_states"] = self.is_asked_for("output_hidden_states", kwargs)
        outputs = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        mask = None if attention_mask is None else attention_mask != 0
        states, weights = self.outlooker(outputs.last_hidden_state, mask, kwargs["output_attentions"])
        return LocalModelOutput(
            last_hidden_state=states,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=weights,
        )


class CoolForQuestionAnswering(CoolPreTrainedModel, QuestionAnsweringHead):
    """COOL with start and end logits of an answer span on top (section 3.4)."""

    base_model_class = CoolModel


register_auto_classes(CoolConfig, AutoModel=CoolModel, AutoModelForQuestionAnswering=CoolForQuestionAnswering)
