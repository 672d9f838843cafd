"""The local branch of COOL: the context outlooker or an alternative from the paper.

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
    """A stack of an optional convolutional block, local layers and an optional projection to the output width.

    Args:
        config: Configuration. The widths are `config.local_input_size` for the input, `config.local_size` for the
            layers and `config.local_output_size` for the output.
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
            states: Hidden states or word embeddings of the encoder.
            mask: (B, L), True at tokens and False at padding. By default all are tokens.
            output_attentions: Return the weights of the layers, too.

        Returns:
            The new states, and a tuple of weights, one per layer with weights, or `None`. Outlook weights are
            (B, L, K, K, heads), all others (B, L, neighbors from left to right, heads).
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
    """Build one local layer of width `config.local_size`."""
    size, window, neighbors = config.local_size, config.outlook_kernel_size, config.graph_window
    # The backbone's number of heads, or fewer if it does not divide the width of narrow word embeddings.
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
