"""Reference implementation of orthogonal attention: naive float64 loops over heads and pairs of tokens (section 3).

Tensors have one row per token. Lists named `real...` are True at tokens and False at padding. A head has three
dictionaries of layers: `key` and `value` (the two uses of alpha) and `query` (beta). Their keys are the arguments of
the functions below. Shared layers are given twice.
"""

import math

import torch

from tests.reference import linear, relu, softmax


def orthogonal_attention(context, query, real_context, real_query, interaction, heads, output):
    """Section 3.2 for one example: context (M, D), query (N, D) -> Z (M, D) and the weights (heads, M, N)."""
    results = [head(context, query, real_context, real_query, interaction, *parameters) for parameters in heads]
    rows = [torch.cat([mixed[i] for mixed, _ in results]) for i in range(len(context))]
    return torch.stack([linear(row, *output) for row in rows]), torch.stack([weights for _, weights in results])


def head(context, query, real_context, real_query, interaction, key, value, beta):
    """One head: C^Q_i = sum over j of softmax_j(K_ij . Q_j / sqrt(d_k)) V_ij, 0 without query tokens."""
    alpha, _ = INTERACTIONS[interaction]
    query_vectors = vectors_of(query, context, real_context, real_query, interaction, beta)
    width = value["last"][0].shape[0]
    mixed, weights = [], []
    for one in context:
        scores = {
            j: (alpha(one, query[j], **key) * vector).sum() / math.sqrt(width) for j, vector in query_vectors.items()
        }
        row, total = softmax(scores), context.new_zeros(width)
        for j, weight in row.items():
            total = total + weight * alpha(one, query[j], **value)
        mixed.append(total)
        weights.append(torch.stack([row.get(j, context.new_zeros(())) for j in range(len(query))]))
    return torch.stack(mixed), torch.stack(weights)


def vectors_of(query, context, real_context, real_query, interaction, beta):
    """Return the query vector Q^S_j of every query token j that is not padding, as a dictionary."""
    _, function = INTERACTIONS[interaction]
    real = [row for row, there in zip(context, real_context, strict=True) if there]
    return {j: function(row, real, **beta) for j, row in enumerate(query) if real_query[j]}


def alpha_product(one, other, context, query, last):
    """Section 3.3.1 for a context token and a query token: (D,) and (D,) -> K_ij or V_ij (d_k,)."""
    product = relu(linear(one, *context)) * relu(linear(other, *query))
    return relu(linear(product, *last))


def alpha_convolution(one, other, context, filters, biases, last):
    """Section 3.3.3 for a context token and a query token: filters from the query convolve the context features."""
    maps = convolution(relu(linear(one, *context)), linear(other, *filters), linear(other, *biases))
    return relu(linear(maps, *last))


def beta_query(row, context_rows, query):
    """Sections 3.3.1 and 3.3.3: Q^S_j from the query token alone."""
    return relu(linear(row, *query))


def beta_product(row, context_rows, context, query, attention, last):
    """Section 3.3.2: Q^S_j from the product of the query token and its summary of the context."""
    first = relu(linear(row, *query))
    summary = query_summary(first, [relu(linear(one, *context)) for one in context_rows], attention)
    return relu(linear(first * summary, *last))


def beta_convolution(row, context_rows, context, query, attention, filters, biases):
    """Section 3.3.4: filters from the summary of the context convolve the features of the query token."""
    first = relu(linear(row, *query))
    summary = query_summary(first, [relu(linear(one, *context)) for one in context_rows], attention)
    return convolution(first, linear(summary, *filters), linear(summary, *biases))


INTERACTIONS = {
    "em": (alpha_product, beta_query),
    "emb": (alpha_product, beta_product),
    "c": (alpha_convolution, beta_query),
    "ca": (alpha_convolution, beta_convolution),
}


def query_summary(query, context_rows, output):
    """PyTorch-NLP's "dot" attention, tanh(W [mix; q]) with unscaled scores, or only the mix if `output` is None."""
    weights = softmax({i: (query * row).sum() for i, row in enumerate(context_rows)})
    mix = torch.zeros_like(query)
    for i, weight in weights.items():
        mix = mix + weight * context_rows[i]
    return mix if output is None else torch.tanh(linear(torch.cat([mix, query]), *output))


def convolution(row, filters, biases):
    """Convolve the features of one token with filters of size and stride sqrt(d_k), and concatenate the outputs."""
    size = math.isqrt(len(row))
    windows, maps = row.split(size), []
    for kernel, bias in zip(filters.split(size), biases, strict=True):
        for window in windows:
            maps.append(kernel @ window + bias)
    return torch.stack(maps)


def block(context, query, real_context, real_query, interaction, heads, layers, num_heads):
    """Section 3.1 for one example: C' (M, D) and the weights. A norm in `layers` is (weight, bias, eps)."""
    z, weights = orthogonal_attention(
        context, query, real_context, real_query, interaction, heads, layers["attention"]
    )
    x2 = [layer_norm(row + one, *layers["attention_norm"]) for row, one in zip(z, context, strict=True)]
    x3 = self_attention(x2, real_context, num_heads, *(layers[name] for name in ("query", "key", "value", "mixed")))
    x4 = [linear(relu(linear(row, *layers["intermediate"])), *layers["output"]) for row in x3]
    return torch.stack([layer_norm(a + b, *layers["output_norm"]) for a, b in zip(x4, x2, strict=True)]), weights


def self_attention(rows, real, num_heads, query, key, value, output):
    """Section 2.3: every token attends to all tokens but padding, separately for each head."""
    width = len(rows[0]) // num_heads
    results = []
    for one in rows:
        parts = []
        for number in range(num_heads):
            part = slice(number * width, (number + 1) * width)
            asked = linear(one, *query)[part]
            there = {j: linear(other, *key)[part] for j, other in enumerate(rows) if real[j]}
            weights = softmax({j: (asked * other).sum() / math.sqrt(width) for j, other in there.items()})
            parts.append(sum(weight * linear(rows[j], *value)[part] for j, weight in weights.items()))
        results.append(linear(torch.cat(parts), *output))
    return results


def layer_norm(row, weight, bias, eps):
    centered = row - row.sum() / len(row)
    return centered / torch.sqrt((centered * centered).sum() / len(row) + eps) * weight + bias
