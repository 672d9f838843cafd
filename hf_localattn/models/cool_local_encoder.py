"""Local layers of COOL, and the base class of its models.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), section 3.3.

Shapes: B batch, L tokens, F width of the local layers, K window, N heads.
"""

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_cool import CoolConfig
from .cool_convolution import ConvolutionBlock
from .cool_outlook import outlook_attention
from .modeling_local_attention import LocalAttentionPreTrainedModel


class LocalLayer(GradientCheckpointingLayer):
    """Base class of local layers. A layer is built from a `CoolConfig`."""

    def initialize(self) -> None:
        """Initialize the parameters that belong to no submodule. Called by `_init_weights`."""


class OutlookLayer(LocalLayer):
    """Outlook attention and linear layers, each with a residual (equations 6-13). F is `config.local_size`."""

    def __init__(self, config: CoolConfig):
        super().__init__()
        size = config.local_size
        self.window = config.outlook_kernel_size
        self.num_heads = config.outlook_num_heads or size
        self.scale = (size // self.num_heads) ** -0.5
        self.joint_softmax = config.outlook_softmax == "window"
        self.mask_outside_window = config.mask_outside_window
        self.dropout = config.outlook_dropout
        self.value = nn.Linear(size, size, bias=config.qkv_bias)
        self.attention_scores = nn.Linear(size, self.window * self.window * self.num_heads, bias=config.qkv_bias)
        self.feed_forward = nn.ModuleList(nn.Linear(size, size) for _ in range(config.num_ffn_layers))
        self.attention_norm = nn.LayerNorm(size) if config.use_layer_norm else nn.Identity()
        self.feed_forward_norm = nn.LayerNorm(size) if config.use_layer_norm else nn.Identity()

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, F) to the same shape. Weights (B, L, K, K, N) are returned with `output_attentions`."""
        normed = self.attention_norm(states)
        scores = self.attention_scores(normed).unflatten(-1, (self.window, self.window, self.num_heads))
        mixed, weights = outlook_attention(
            self.value(normed),
            scores if self.scale == 1.0 else scores * self.scale,
            mask,
            joint_softmax=self.joint_softmax,
            mask_outside_window=self.mask_outside_window,
            dropout=self.dropout if self.training else 0.0,
            return_weights=output_attentions,
        )
        states = states + mixed
        hidden = self.feed_forward_norm(states)
        for index, linear in enumerate(self.feed_forward):
            hidden = linear(functional.gelu(hidden) if index else hidden)
        return states + hidden, weights


LOCAL_LAYERS: dict[str, type[LocalLayer]] = {"outlook": OutlookLayer}
"""Classes of local layers by the value of `local_attention`. `cool_baselines.py` adds those of the baselines."""


class Fusion(nn.Module):
    """Combine the global and the local state of every token, which the paper does not define.

    "concat" has two linear layers with GELU between them over both states; "sum" adds the projected local state to the
    global one; "gate" averages these two, by a weight that each token predicts.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        self.kind = config.fusion
        size = config.encoder_size
        local_size = config.local_size
        self.projection = nn.Linear(size + local_size if self.kind == "concat" else local_size, size)
        if self.kind == "concat":
            self.output = nn.Linear(size, size)
        elif self.kind == "gate":
            self.balance = nn.Linear(2 * size, 1)

    def forward(self, global_states: torch.Tensor, local_states: torch.Tensor) -> torch.Tensor:
        """Map global states (B, L, H) and local states (B, L, F) to (B, L, H)."""
        if self.kind == "concat":
            joined = torch.cat([global_states, local_states], dim=-1)
            return self.output(functional.gelu(self.projection(joined)))
        local_states = self.projection(local_states)
        if self.kind == "sum":
            return global_states + local_states
        gate = self.balance(torch.cat([global_states, local_states], dim=-1)).sigmoid()
        return gate * global_states + (1 - gate) * local_states


class LocalEncoder(nn.Module):
    """Optional convolutional block, local layers, and a projection or fusion to the output width if needed."""

    def __init__(self, config: CoolConfig):
        super().__init__()
        self.convolution_block = ConvolutionBlock(config) if config.has_convolution_block else None
        layers = range(config.num_active_local_layers)
        self.layers = nn.ModuleList(config.choose_layer("local_attention", LOCAL_LAYERS)(config) for _ in layers)
        self.projection = None
        self.fusion = Fusion(config) if config.has_balance else None
        if config.local_size != config.local_output_size and self.fusion is None:
            self.projection = nn.Linear(config.local_size, config.local_output_size)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None]:
        """Map states (B, L, input size) to (B, L, output size), with a mask (B, L) that is True at tokens.

        With `output_attentions` the weights of all layers that have weights are returned, too: (B, L, K, K, N) of
        outlook layers, and (B, L, neighbors from left to right, N) of others.
        """
        inputs = states
        if self.convolution_block is not None:
            states = self.convolution_block(states, mask)
        all_weights: tuple[torch.Tensor, ...] = ()
        for layer in self.layers:
            states, weights = layer(states, mask, output_attentions)
            if weights is not None:
                all_weights += (weights,)
        if self.projection is not None:
            states = self.projection(states)
        elif self.fusion is not None:
            states = self.fusion(inputs, states)
        return states, all_weights if output_attentions else None


class CoolPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of COOL's models: configuration, names and initialization."""

    config_class = CoolConfig
    base_model_prefix = "cool"
    _no_split_modules: ClassVar[list[str]] = ["ConvolutionBlock", "OutlookLayer"]

    def fresh_modules(self) -> Iterator[nn.Module]:
        if self.config.local_attention == "deeper":  # ALBERT repeats its layers, and has no new ones
            count = self.config.num_hidden_layers
            encoder = self.backbone_model.get_encoder() if self.config.is_encoder_decoder else self.backbone_model
            for module in encoder.modules():
                if isinstance(module, nn.ModuleList) and len(module) == count + self.config.num_extra_layers:
                    yield from module[count:]
