"""Baselines of COOL, and its models with them: dynamic convolution, visual outlook attention, and graphs of neighbors.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), tables 4 and 9, names these mechanisms. Each class cites the
paper of its equations. A token's neighbors are shifted views of the sequence, so that time and memory are linear in
the length.

Shapes: B batch, L tokens, H features, K window (odd), N heads of d = H/N features, w neighbors on either side.

Each layer is called with states (B, L, H), a mask (B, L) or None, and `output_attentions`. It returns new states, and
its weights or None.
"""

import math
from functools import reduce

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import initialization as init

from .configuration_cool import CoolConfig
from .cool_local_encoder import LOCAL_LAYERS, CoolPreTrainedModel, LocalLayer
from .modeling_cool import *  # noqa: F403  # hands on the models


class DynamicConvolutionLayer(LocalLayer):
    """Dynamic convolution: every token predicts a kernel over the tokens around it.

    The layer is a gated linear unit, a depthwise convolution centered on the token, a linear layer and a residual.
    Positions outside the sequence and padding are 0 but keep their share of the softmax, as in the authors' code.

    Source: Pay Less Attention with Lightweight and Dynamic Convolutions (Wu et al., 2019), section 4 and figure 2c.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        size = config.local_size
        self.window = config.outlook_kernel_size
        self.num_heads = config.num_local_heads
        self.gate = nn.Linear(size, 2 * size)
        self.kernel = nn.Linear(size, self.window * self.num_heads, bias=False)
        self.output = nn.Linear(size, size)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, H) to the same shape. Weights (B, L, K, N) are returned with `output_attentions`."""
        values = _zero_pads(functional.glu(self.gate(states)), mask)
        scores = self.kernel(values).unflatten(-1, (self.window, self.num_heads))
        weights = _zero_pads(scores.softmax(dim=2), mask)
        mixed = _mix(values.unflatten(-1, (self.num_heads, -1)), weights)
        return states + self.output(mixed), weights if output_attentions else None


class VisualOutlookLayer(LocalLayer):
    """VOLO's outlook attention and a linear layer on the states as an image of L x H pixels with one channel.

    The window of K x K pixels around each pixel reads K*K sources and writes K*K targets. Overlapping windows are
    summed. Sources outside the image and in rows of padding are 0 but keep their share of the softmax. Windows
    centered at such positions write nothing. Both steps have a residual. There is no layer norm: over one channel it
    would erase the image.

    Source: VOLO (Yuan et al., 2021), equations 1-5. One linear layer replaces its multi-layer perceptron, as in COOL's
    equations 12 and 13.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        self.window = window = config.outlook_kernel_size
        self.value = nn.Linear(1, 1)
        # VOLO's layer from 1 to K**4, split by target: hooks and wrappers need modules that are called as a whole.
        self.attention_scores = nn.ModuleList(nn.Linear(1, window * window) for _ in range(window * window))
        self.projection = nn.Linear(1, 1)
        self.feed_forward = nn.Linear(1, 1)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, None]:
        """Map states (B, L, H) to the same shape. No weights are returned: a pixel has K**4 of them."""
        values = _zero_pads(self.value(states[..., None])[..., 0], mask)
        states = states + self.projection(self._mix_windows(states, values, mask)[..., None])[..., 0]
        return states + self.feed_forward(states[..., None])[..., 0], None

    def _mix_windows(self, states: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        _, length, features = states.shape
        window = self.window
        half = window // 2
        image = functional.pad(values, (half, half, half, half))
        # One target at a time, recomputed in backward: all K**4 scores would take 81 times the memory of the states.
        again = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        mixed = torch.zeros_like(image)
        for target, score in enumerate(self.attention_scores):
            inputs = score, states, image
            if again:
                written = checkpoint(_written_to_target, *inputs, use_reentrant=False, preserve_rng_state=False)
            else:
                written = _written_to_target(*inputs)
            row, column = divmod(target, window)
            margins = (column, 2 * half - column, row, 2 * half - row)
            mixed = mixed + functional.pad(_zero_pads(written, mask), margins)
        return mixed[:, half : half + length, half : half + features]


def _written_to_target(score: nn.Module, states: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """Return the values (B, L, H) that the windows of all pixels write to one of their targets.

    `score` is the layer for this target, `image` (B, L+K-1, H+K-1) are the padded values.
    """
    _, length, features = states.shape
    window = image.shape[1] - length + 1
    # Sources come first, because slices along a last axis of K*K would not be contiguous.
    weights = score(states[..., None]).movedim(-1, 0).softmax(dim=0)
    sources = (image[:, r : r + length, c : c + features] for r in range(window) for c in range(window))
    return reduce(torch.add, (share * source for share, source in zip(weights.unbind(0), sources, strict=True)))


class RelationalGraphLayer(LocalLayer):
    """Relational graph convolution with one relation, between neighboring tokens.

    `h_i' = h_i + ReLU(W_0 h_i + sum_j W_1 h_j / |N_i|)`, where N_i are the tokens at a distance of 1 to w from token
    i. The sum of a token without neighbors is 0.

    Source: Modeling Relational Data with Graph Convolutional Networks (Schlichtkrull et al., 2018), equation 2, with
    an additional bias and residual.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        size = config.local_size
        self.window = config.graph_window
        self.own = nn.Linear(size, size)
        self.neighbour = nn.Linear(size, size, bias=False)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, None]:
        """Map states (B, L, H) to the same shape, without attention weights."""
        edges = _edges(states, mask, self.window).to(states.dtype)
        edges[..., self.window] = 0.0  # no token is its own neighbor
        shares = edges / edges.sum(-1, keepdim=True).clamp(min=1.0)
        average = _mix(states[:, :, None], shares[..., None])
        return states + functional.relu(self.own(states) + self.neighbour(average)), None


class GraphAttentionLayer(LocalLayer):
    """Graph attention: a token weights itself and its neighbors by an additive score.

    `h_i' = h_i + ELU(sum_j softmax_j(e_ij) W h_j + b)` with `e_ij = LeakyReLU(a_l . W h_i + a_r . W h_j)`, over the
    tokens j at a distance of at most w from i. Heads are concatenated.

    Source: Graph Attention Networks (Veličković et al., 2017), equations 1-5. The bias and the residual are options of
    the authors' code. The residual is outside the ELU, as in the other layers.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        size = config.local_size
        self.window = config.graph_window
        num_heads = config.num_local_heads
        self.value = nn.Linear(size, size, bias=False)
        self.target_vector = nn.Parameter(torch.empty(num_heads, size // num_heads))
        self.source_vector = nn.Parameter(torch.empty(num_heads, size // num_heads))
        self.bias = nn.Parameter(torch.empty(size))
        self.initialize()

    def initialize(self) -> None:
        bound = math.sqrt(6 / (2 * self.target_vector.shape[1] + 1))  # Glorot's bound for a = [a_l, a_r], 2d to 1
        init.uniform_(self.target_vector, -bound, bound)
        init.uniform_(self.source_vector, -bound, bound)
        init.zeros_(self.bias)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, H) to the same shape. Weights (B, L, 2w+1, N) are returned with `output_attentions`."""
        values = self.value(states).unflatten(-1, self.target_vector.shape)
        as_target = (values * self.target_vector).sum(-1)
        as_source = (values * self.source_vector).sum(-1)
        scores = torch.stack([as_target + source for source in _shifts(as_source, self.window)], dim=2)
        weights = _edge_weights(functional.leaky_relu(scores, 0.2), _edges(states, mask, self.window))
        mixed = _mix(values, weights)
        return states + functional.elu(mixed + self.bias), weights if output_attentions else None


class HeterogeneousGraphLayer(LocalLayer):
    """Heterogeneous graph transformer with one type of node and one type of edge, between neighboring tokens.

    `h_i' = h_i + A(GELU(sum_j softmax_j(e_ij) V_j W_MSG))` with `e_ij = mu (K_j W_ATT) . Q_i / sqrt(d)`, over the
    tokens j at a distance of at most w from i, including i. Heads are concatenated.

    Source: Heterogeneous Graph Transformer (Hu et al., 2020), equations 3-5. Open choices follow the authors' code: d
    is the width of a head, each head has its own mu, and the activation is GELU.
    """

    def __init__(self, config: CoolConfig):
        super().__init__()
        size = config.local_size
        self.window = config.graph_window
        self.num_heads = config.num_local_heads
        width = size // self.num_heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size, bias=False)  # softmax would cancel a bias
        self.value = nn.Linear(size, size)
        self.attention = nn.Parameter(torch.empty(self.num_heads, width, width))
        self.message = nn.Parameter(torch.empty(self.num_heads, width, width))
        self.prior = nn.Parameter(torch.empty(self.num_heads))
        self.output = nn.Linear(size, size)
        self.initialize()

    def initialize(self) -> None:
        # Glorot's bound for the d x d matrix of one head. torch's function would count the heads, too.
        bound = math.sqrt(3 / self.attention.shape[1])
        init.uniform_(self.attention, -bound, bound)
        init.uniform_(self.message, -bound, bound)
        init.ones_(self.prior)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, H) to the same shape. Weights (B, L, 2w+1, N) are returned with `output_attentions`."""
        queries, keys, values = (
            projection(states).unflatten(-1, (self.num_heads, -1)) for projection in (self.query, self.key, self.value)
        )
        queries = queries * (self.prior[:, None] * keys.shape[-1] ** -0.5)
        keys = torch.einsum("blnd,nde->blne", keys, self.attention)
        messages = torch.einsum("blnd,nde->blne", values, self.message)
        scores = torch.stack([(queries * shifted).sum(-1) for shifted in _shifts(keys, self.window)], dim=2)
        weights = _edge_weights(scores, _edges(states, mask, self.window))
        mixed = _mix(messages, weights)
        return states + self.output(functional.gelu(mixed)), weights if output_attentions else None


def _shifts(states: torch.Tensor, reach: int) -> list[torch.Tensor]:
    """Return the neighbors at distance -reach .. reach of all tokens as views (B, L, ...), 0 outside the sequence."""
    length = states.shape[1]
    padded = functional.pad(states, (0, 0) * (states.dim() - 2) + (reach, reach))
    return [padded[:, offset : offset + length] for offset in range(2 * reach + 1)]


def _mix(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Sum the neighbors' values (B, L, N, d) with weights (B, L, 2w+1, N): (B, L, N*d)."""
    shifts = _shifts(values, weights.shape[2] // 2)
    weighted = (share[..., None] * shifted for share, shifted in zip(weights.unbind(2), shifts, strict=True))
    return reduce(torch.add, weighted).flatten(2)


def _edges(states: torch.Tensor, mask: torch.Tensor | None, reach: int) -> torch.Tensor:
    """Return the mask (B, L, 2w+1) of pairs of tokens without padding. The token itself is in the middle."""
    real = states.new_ones(states.shape[:2], dtype=torch.bool) if mask is None else mask.to(torch.bool)
    return torch.stack(_shifts(real, reach), dim=-1) & real[..., None]


def _edge_weights(scores: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Normalize scores (B, L, 2w+1, N) over the edges of each token. Tokens without edges get zeros."""
    missing = ~edges[..., None]
    return scores.masked_fill(missing, torch.finfo(scores.dtype).min).softmax(dim=2).masked_fill(missing, 0.0)


def _zero_pads(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is None:
        return states
    return states.masked_fill(~mask.to(torch.bool)[(...,) + (None,) * (states.dim() - 2)], 0.0)


BASELINE_LAYERS: dict[str, type[LocalLayer]] = {
    "dynamic_conv": DynamicConvolutionLayer,
    "visual_outlook": VisualOutlookLayer,
    "rgcn": RelationalGraphLayer,
    "gat": GraphAttentionLayer,
    "hgt": HeterogeneousGraphLayer,
}
LOCAL_LAYERS.update(BASELINE_LAYERS)
CoolPreTrainedModel._no_split_modules += [layer.__name__ for layer in BASELINE_LAYERS.values()]
