"""Convolutional block below the outlook layers, for n-gram features of every token.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), section 3.3, equations 2-5.

Shapes: B batch, L tokens, H input width, F output width.
"""

from functools import reduce
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .configuration_cool import CoolConfig

PADDING = 2
"""Zeros on either side of the sequence (section 4.1). A kernel of size k gives L + 5 - k outputs."""


class ShiftedConvolution(nn.Conv1d):
    """`nn.Conv1d` over states (B, N, H), by one matrix product and shifted sums.

    On a CPU this is faster than `Conv1d`, whose backward pass Inductor compiles again for every length.
    """

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map states (B, N, H) to (B, N + 1 - k, F)."""
        assert self.bias is not None
        kernel = self.kernel_size[0]
        length = states.shape[1] + 1 - self.kernel_size[0]
        products = functional.linear(states, self.weight.permute(2, 0, 1).flatten(0, 1))
        products = products.unflatten(-1, (kernel, self.out_channels))
        return sum((products[:, offset : offset + length, offset] for offset in range(kernel)), start=self.bias)


class ConvolutionBlock(nn.Module):
    """Parallel convolutions of several kernel sizes, each followed by ReLU and pooling to the sequence length.

    The paper's k x (H + 4) kernels with padding 2 are 1-d convolutions, since the four extra columns see only zeros.
    It does not name the pooling; "max" keeps the strongest match of an n-gram.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        self.kernel_sizes = tuple(config.conv_kernel_sizes)
        self.pooling = config.conv_pooling
        self.alignment = config.conv_alignment
        self.convolutions = nn.ModuleList(
            ShiftedConvolution(config.local_input_size, config.conv_filters, kernel) for kernel in self.kernel_sizes
        )

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Map states (B, L, H) to (B, L, F). States where the mask (B, L) is False count as outside the sequence."""
        if mask is not None:
            states = states.masked_fill(~mask.to(torch.bool)[..., None], 0.0)
        outputs = []
        convolution: Any
        for convolution, kernel in zip(self.convolutions, self.kernel_sizes, strict=True):
            margins = (PADDING, PADDING) if self.alignment == "adaptive" else ((kernel - 1) // 2, kernel // 2)
            features = convolution(functional.pad(states, (0, 0, *margins))).relu()
            outputs.append(adaptive_pool(features, mask, self.pooling, states.shape[1]))
        return torch.cat(outputs, dim=-1)


def adaptive_pool(features: torch.Tensor, mask: torch.Tensor | None, pooling: str, length: int) -> torch.Tensor:
    """Pool features (B, L + e, C) to (B, L, C), with e >= 0, independently of padding.

    Output i of an example with n tokens pools positions floor(i (n+e) / n) .. ceil((i+1) (n+e) / n) - 1, counted from
    its first token. Without padding these are the windows of torch's adaptive pooling. The mask (B, L) is True from
    the first to the last token of each example. Values at padding are undefined.
    """
    extra = features.shape[1] - length
    if extra == 0:
        return features
    index = torch.arange(length, device=features.device)[None]
    tokens: torch.Tensor | int = length
    if mask is not None:
        mask = mask.to(torch.int64)
        first = mask.argmax(-1, keepdim=True)
        last = length - 1 - mask.flip(-1).argmax(-1, keepdim=True)
        tokens = torch.where(mask.any(-1, keepdim=True), last - first + 1, 1)
        # Padding uses the window of the nearest token, so that its values stay finite.
        index = torch.minimum((index - first).clamp(min=0), tokens - 1)
    # Start and end of each window, relative to the output's index: (B or 1, L).
    start = index * extra // tokens
    end = 1 + ((index + 1) * extra + tokens - 1) // tokens
    candidates = []
    neutral = torch.finfo(features.dtype).min if pooling == "max" else 0.0
    for offset in range(extra + 1):
        inside = ((start <= offset) & (offset < end))[..., None]
        candidates.append(features[:, offset : offset + length].masked_fill(~inside, neutral))
    if pooling == "max":
        return reduce(torch.maximum, candidates)
    return sum(candidates) / (end - start)[..., None].to(features.dtype)
