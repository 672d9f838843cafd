"""The local mechanisms that COOL is compared with: dynamic convolution, visual outlook attention, and local graphs.

Source: COOL, a Context Outlooker (Zhu, Ng and Bressan), tables 4 and 9, which name these mechanisms; every class names
the paper whose equations it follows. All of them see a token's neighbors as shifted views of the sequence: time and
memory grow with the length, never with its square.

Shapes: B batch, L tokens, H features, K window (odd), N heads of d = H/N features, w neighbors on either side.
"""

import math
from functools import reduce

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer


class DynamicConvolutionLayer(GradientCheckpointingLayer):
    """Dynamic convolution: every token predicts the kernel with which it mixes the tokens around it.

    A gated linear unit, a depthwise convolution centered on the token, a linear layer, and a residual. Places outside
    the sequence and pads are 0 but keep their share of the softmax, as in the authors' code.

    Source: Pay Less Attention with Lightweight and Dynamic Convolutions (Wu et al., 2019), section 4 and figure 2c.

    Args:
        size: H.
        window: K, the kernel's width in tokens.
        num_heads: N, kernels per token; the features of a head share one.

    Raises:
        ValueError: the window is even, or the heads do not divide the size.
    """

    def __init__(self, size: int, window: int = 3, num_heads: int = 1):
        super().__init__()
        _check_window(window)
        _check_heads(num_heads, size)
        self.window, self.num_heads = window, num_heads
        self.gate = nn.Linear(size, 2 * size)
        self.kernel = nn.Linear(size, window * num_heads, bias=False)
        self.output = nn.Linear(size, size)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, H) to states of that shape; the weights (B, L, K, N) come with `output_attentions`."""
        values = _zero_pads(functional.glu(self.gate(states)), mask)
        scores = self.kernel(values).unflatten(-1, (self.window, self.num_heads))
        weights = _zero_pads(scores.softmax(dim=2), mask)
        mixed = _mix(values.unflatten(-1, (self.num_heads, -1)), weights)
        return states + self.output(mixed), weights if output_attentions else None


class VisualOutlookLayer(GradientCheckpointingLayer):
    """VOLO's outlook attention on the states as an image of L x H pixels with one channel, and a linear layer.

    The window of K x K pixels around each pixel reads K*K sources and writes K*K targets, and overlapping windows are
    summed. Sources outside the image and in rows of pads are 0 but keep their share of the softmax; windows centered
    there write nothing. Both steps have a residual, and no layer norm: over one channel it would erase the image.

    Source: VOLO: Vision Outlooker for Visual Recognition (Yuan et al., 2021), equations 1-5; one linear layer stands
    for its multi-layer perceptron, as in COOL's equations 12 and 13.

    Args:
        window: K.

    Raises:
        ValueError: the window is even.
    """

    def __init__(self, window: int = 3):
        super().__init__()
        _check_window(window)
        self.window = window
        self.value = nn.Linear(1, 1)
        # VOLO's one layer from 1 to K**4, target by target: whoever wraps or moves a layer finds it called as a whole.
        self.score = nn.ModuleList(nn.Linear(1, window * window) for _ in range(window * window))
        self.projection = nn.Linear(1, 1)
        self.feed_forward = nn.Linear(1, 1)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, None]:
        """Map states (B, L, H) to states of that shape; the weights, K**4 for every pixel, are never held together."""
        values = _zero_pads(self.value(states[..., None])[..., 0], mask)
        states = states + self.projection(self._mix_windows(states, values, mask)[..., None])[..., 0]
        return states + self.feed_forward(states[..., None])[..., 0], None

    def _mix_windows(self, states: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        (_, length, features), window, half = states.shape, self.window, self.window // 2
        image = functional.pad(values, (half, half, half, half))
        # One target at a time, and its softmax again for the gradient: all K**4 scores would be 81 times the states.
        again = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        mixed = torch.zeros_like(image)
        for target, score in enumerate(self.score):
            if again:
                written = checkpoint(
                    _written_to_target, score, states, image, use_reentrant=False, preserve_rng_state=False
                )
            else:
                written = _written_to_target(score, states, image)
            row, column = divmod(target, window)
            margins = (column, 2 * half - column, row, 2 * half - row)
            mixed = mixed + functional.pad(_zero_pads(written, mask), margins)
        return mixed[:, half : half + length, half : half + features]


def _written_to_target(score: nn.Module, states: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """Return what the windows centered at all pixels (B, L, H) write to one of their targets with scores by `score`.

    `image` is (B, L+K-1, H+K-1), the values with their margins.
    """
    _, length, features = states.shape
    window = image.shape[1] - length + 1
    # Sources come first: as the last axis, of K*K, they would be strides to walk instead of vectors.
    weights = score(states[..., None]).movedim(-1, 0).softmax(dim=0)
    sources = (image[:, r : r + length, c : c + features] for r in range(window) for c in range(window))
    return reduce(torch.add, (share * source for share, source in zip(weights.unbind(0), sources, strict=True)))


class RelationalGraphLayer(GradientCheckpointingLayer):
    """Relational graph convolution with one relation: a token's neighbors are the tokens next to it.

    `h_i' = h_i + ReLU(W_0 h_i + sum_j W_1 h_j / |N_i|)`, where N_i are the real tokens at most w away from token i,
    itself not among them. The sum of a token without neighbors is 0.

    Source: Modeling Relational Data with Graph Convolutional Networks (Schlichtkrull et al., 2018), equation 2. A bias
    and the residual are added.

    Args:
        size: H.
        window: w, neighbors on either side.

    Raises:
        ValueError: the window is below 1.
    """

    def __init__(self, size: int, window: int = 1):
        super().__init__()
        _check_reach(window)
        self.window = window
        self.own = nn.Linear(size, size)
        self.neighbour = nn.Linear(size, size, bias=False)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, None]:
        """Map states (B, L, H) to states of that shape; there are no weights to return."""
        edges = _edges(states, mask, self.window).to(states.dtype)
        edges[..., self.window] = 0.0  # no token is its own neighbor
        shares = edges / edges.sum(-1, keepdim=True).clamp(min=1.0)
        average = _mix(states[:, :, None], shares[..., None])
        return states + functional.relu(self.own(states) + self.neighbour(average)), None


class GraphAttentionLayer(GradientCheckpointingLayer):
    """Graph attention: a token weighs itself and the tokens next to it by an additive score.

    `e_ij = LeakyReLU(a_l . W h_i + a_r . W h_j)` for each head, softmax over the real tokens j at most w away from i,
    `h_i' = h_i + ELU(sum_j softmax_j(e_ij) W h_j + b)`, heads side by side.

    Source: Graph Attention Networks (Veličković et al., 2017), equations 1-5. The bias and the residual are options of
    the authors' code; here the residual stands outside the ELU, as in the other layers.

    Args:
        size: H.
        window: w, neighbors on either side.
        num_heads: N.

    Raises:
        ValueError: the window is below 1, or the heads do not divide the size.
    """

    def __init__(self, size: int, window: int = 1, num_heads: int = 1):
        super().__init__()
        _check_reach(window)
        _check_heads(num_heads, size)
        self.window = window
        self.value = nn.Linear(size, size, bias=False)
        self.target_vector = nn.Parameter(torch.empty(num_heads, size // num_heads))
        self.source_vector = nn.Parameter(torch.empty(num_heads, size // num_heads))
        self.bias = nn.Parameter(torch.empty(size))
        self.initialize()

    def initialize(self) -> None:
        """Give the parameters that belong to no inner module their first values; `_init_weights` calls it too."""
        bound = math.sqrt(6 / (2 * self.target_vector.shape[1] + 1))  # Glorot's, for a = [a_l, a_r] from 2d to 1
        init.uniform_(self.target_vector, -bound, bound)
        init.uniform_(self.source_vector, -bound, bound)
        init.zeros_(self.bias)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, H) to states of that shape; the weights (B, L, 2w+1, N) come with `output_attentions`."""
        values = self.value(states).unflatten(-1, self.target_vector.shape)
        as_target, as_source = (values * self.target_vector).sum(-1), (values * self.source_vector).sum(-1)
        scores = torch.stack([as_target + source for source in _shifts(as_source, self.window)], dim=2)
        weights = _edge_weights(functional.leaky_relu(scores, 0.2), _edges(states, mask, self.window))
        mixed = _mix(values, weights)
        return states + functional.elu(mixed + self.bias), weights if output_attentions else None


class HeterogeneousGraphLayer(GradientCheckpointingLayer):
    """Heterogeneous graph transformer with one type of nodes and one of edges, between tokens next to each other.

    `e_ij = mu (K_j W_ATT) . Q_i / sqrt(d)` for each head, softmax over the real tokens j at most w away from i, itself
    among them, `h_i' = h_i + A(GELU(sum_j softmax_j(e_ij) V_j W_MSG))`, heads side by side.

    Source: Heterogeneous Graph Transformer (Hu et al., 2020), equations 3-5, with the authors' code where they leave a
    choice: d is the width of a head, each head has its mu, the activation is GELU.

    Args:
        size: H.
        window: w, neighbors on either side.
        num_heads: N.

    Raises:
        ValueError: the window is below 1, or the heads do not divide the size.
    """

    def __init__(self, size: int, window: int = 1, num_heads: int = 1):
        super().__init__()
        _check_reach(window)
        _check_heads(num_heads, size)
        self.window, self.num_heads = window, num_heads
        width = size // num_heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size, bias=False)  # a bias would move all scores of a token alike: softmax drops it
        self.value = nn.Linear(size, size)
        self.attention = nn.Parameter(torch.empty(num_heads, width, width))
        self.message = nn.Parameter(torch.empty(num_heads, width, width))
        self.prior = nn.Parameter(torch.empty(num_heads))
        self.output = nn.Linear(size, size)
        self.initialize()

    def initialize(self) -> None:
        """Give the parameters that belong to no inner module their first values; `_init_weights` calls it too."""
        # Glorot's bound of one head's d x d matrix; torch would take the heads for a convolution's filters.
        bound = math.sqrt(3 / self.attention.shape[1])
        init.uniform_(self.attention, -bound, bound)
        init.uniform_(self.message, -bound, bound)
        init.ones_(self.prior)

    def forward(
        self, states: torch.Tensor, mask: torch.Tensor | None = None, output_attentions: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, H) to states of that shape; the weights (B, L, 2w+1, N) come with `output_attentions`."""
        queries, keys, values = (
            projection(states).unflatten(-1, (self.num_heads, -1)) for projection in (self.query, self.key, self.value)
        )
        queries = queries * (self.prior[:, None] * keys.shape[-1] ** -0.5)
        keys, messages = _per_head(keys, self.attention), _per_head(values, self.message)
        scores = torch.stack([(queries * shifted).sum(-1) for shifted in _shifts(keys, self.window)], dim=2)
        weights = _edge_weights(scores, _edges(states, mask, self.window))
        mixed = _mix(messages, weights)
        return states + self.output(functional.gelu(mixed)), weights if output_attentions else None


def _shifts(states: torch.Tensor, reach: int) -> list[torch.Tensor]:
    """The neighbors at distance -reach .. reach of all tokens: views of (B, L, ...), 0 outside the sequence."""
    length = states.shape[1]
    padded = functional.pad(states, (0, 0) * (states.dim() - 2) + (reach, reach))
    return [padded[:, offset : offset + length] for offset in range(2 * reach + 1)]


def _mix(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Sum the neighbors' values (B, L, N, d) with weights (B, L, 2w+1, N): (B, L, N*d)."""
    shifts = _shifts(values, weights.shape[2] // 2)
    weighted = (share[..., None] * shifted for share, shifted in zip(weights.unbind(2), shifts, strict=True))
    return reduce(torch.add, weighted).flatten(2)


def _edges(states: torch.Tensor, mask: torch.Tensor | None, reach: int) -> torch.Tensor:
    """Return True where token and neighbor are both real: (B, L, 2w+1), the token itself in the middle."""
    real = states.new_ones(states.shape[:2], dtype=torch.bool) if mask is None else mask.to(torch.bool)
    return torch.stack(_shifts(real, reach), dim=-1) & real[..., None]


def _edge_weights(scores: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Scores (B, L, 2w+1, N) normalized over the edges of each token; a pad has none, and weighs nothing."""
    missing = ~edges[..., None]
    return scores.masked_fill(missing, torch.finfo(scores.dtype).min).softmax(dim=2).masked_fill(missing, 0.0)


def _per_head(states: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    """Multiply each head's states (B, L, N, d) by its matrix (N, d, d)."""
    return torch.einsum("blnd,nde->blne", states, matrices)


def _zero_pads(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is None:
        return states
    return states.masked_fill(~mask.to(torch.bool)[(...,) + (None,) * (states.dim() - 2)], 0.0)


def _check_window(window: int) -> None:
    if window < 1 or window % 2 == 0:
        nearest = "take 3" if window < 2 else f"take {window - 1} or {window + 1}"
        raise ValueError(f"`window` is {window}; it must be odd, so that it has a central token: {nearest}.")


def _check_reach(window: int) -> None:
    if window < 1:
        raise ValueError(f"`window` is {window}; a token needs neighbors: take at least 1, one token on either side.")


def _check_heads(num_heads: int, size: int) -> None:
    if num_heads < 1 or size % num_heads:
        raise ValueError(f"`num_heads` is {num_heads}; take at least 1, and a number that divides the size {size}.")
