"""The local branch of COOL: the context outlooker, or one of the mechanisms it is compared with.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), section 3.3 and tables 4 and 9.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from .configuration_cool import CoolConfig
from .cool_baselines import (
    DynamicConvolutionLayer,
    GraphAttentionLayer,
    HeterogeneousGraphLayer,
    RelationalGraphLayer,
    VisualOutlookLayer,
)
from .cool_convolution import ConvolutionBlock
from .cool_outlook import OutlookLayer


class LocalEncoder(nn.Module):
    """The convolutional block, if any, the local layers above it, and a projection where the backbone reads them.

    Args:
        config: says which and how many; the input is `config.local_input_size` wide, the layers `config.local_size`,
            the output `config.local_output_size`.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        self.convolution_block = None
        if config.has_convolution_block:
            self.convolution_block = ConvolutionBlock(
                config.local_input_size,
                config.conv_kernel_sizes,
                config.conv_filters,
                config.conv_pooling,
                config.conv_alignment,
            )
        self.layers = nn.ModuleList(local_layer(config) for _ in range(config.num_active_local_layers))
        self.projection = None
        if config.local_size != config.local_output_size:
            self.projection = nn.Linear(config.local_size, config.local_output_size)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None]:
        """Map states (B, L, input size) to (B, L, output size).

        Args:
            states: of the encoder, or its word embeddings.
            mask: (B, L), true at real tokens; `None` when all are real.
            output_attentions: also give the weights of every layer that has any: (B, L, K, K, heads) of an outlook
                layer, (B, L, places, heads) of the others, whose places are the neighbors from left to right.
        """
        if self.convolution_block is not None:
            states = self.convolution_block(states, mask)
        all_weights: tuple[torch.Tensor, ...] = ()
        for layer in self.layers:
            states, weights = layer(states, mask, output_attentions)
            if weights is not None:
                all_weights += (weights,)
        if self.projection is not None:
            states = self.projection(states)
        return states, all_weights if output_attentions else None


def local_layer(config: CoolConfig) -> nn.Module:
    """One layer of the configuration's local encoder, with input and output of `config.local_size`."""
    size, window, neighbors = config.local_size, config.outlook_kernel_size, config.graph_window
    # The backbone's heads; fewer where they do not divide a word embedding that is narrower than its layers.
    heads = math.gcd(size, config.num_attention_heads)
    match config.local_attention:
        case "outlook":
            return OutlookLayer(
                size,
                window,
                num_heads=config.outlook_num_heads,
                num_ffn_layers=config.num_ffn_layers,
                joint_softmax=config.outlook_softmax == "window",
                mask_outside_window=config.mask_outside_window,
                dropout=config.outlook_dropout,
                bias=config.qkv_bias,
                layer_norm=config.use_layer_norm,
            )
        case "dynamic_conv":
            return DynamicConvolutionLayer(size, window, heads)
        case "visual_outlook":
            return VisualOutlookLayer(window)
        case "rgcn":
            return RelationalGraphLayer(size, neighbors)
        case "gat":
            return GraphAttentionLayer(size, neighbors, heads)
        case "hgt":
            return HeterogeneousGraphLayer(size, neighbors, heads)
        case other:
            raise ValueError(f"`local_attention` {other!r} has no layers.")
