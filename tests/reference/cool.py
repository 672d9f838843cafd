"""Reference implementation of COOL: naive float64 loops over one example, from the paper's equations.

`real[i]` is True if position i is a token, not padding.
"""

import math

import torch
from torch.nn import functional

from tests.reference import gelu, linear, sigmoid


def outlook_attention(values, scores, real, joint_softmax=False, mask_outside_window=False):
    """Equations 7, 9 and 10 for one example: values (L, F), scores (L, K, K, N) -> (L, F)."""
    length, features = values.shape
    window, heads = scores.shape[1], scores.shape[3]
    half, per_head = window // 2, features // heads
    mixed = [[values.new_zeros(()) for _ in range(features)] for _ in range(length)]

    def is_there(place):
        return 0 <= place < length and real[place]

    for center in range(length):
        if not real[center]:
            continue
        for target in range(window):
            written_to = center + target - half
            if not 0 <= written_to < length:
                continue
            exponentials = {
                (source, head): scores[center, target, source, head].exp()
                for source in range(window)
                for head in range(heads)
                if not mask_outside_window or is_there(center + source - half)
            }
            totals = [
                sum(e for (_, other), e in exponentials.items() if joint_softmax or other == head)
                for head in range(heads)
            ]
            for feature in range(features):
                head = feature // per_head
                for source in range(window):
                    place = center + source - half
                    if is_there(place):
                        weight = exponentials[source, head] / totals[head]
                        mixed[written_to][feature] = mixed[written_to][feature] + weight * values[place, feature]
    return torch.stack([torch.stack(row) for row in mixed])


def outlook_layer(states, real, value, score, feed_forward, window, heads, norms=None, **options):
    """Equations 6-13 for one example: states (L, F) -> (L, F). Layers are pairs (weight, bias)."""
    length, features = states.shape
    first_norm, second_norm = norms or (lambda row: row, lambda row: row)
    v = torch.stack([linear(first_norm(row), *value) for row in states])  # (6)
    a = torch.stack([linear(first_norm(row), *score) for row in states])  # (8)
    a = a.reshape(length, window, window, heads) / math.sqrt(features // heads)
    h = outlook_attention(v, a, real, **options) + states  # (9)-(11)
    rows = []
    for row in h:
        hidden = second_norm(row)
        for index, weights in enumerate(feed_forward):  # (12)
            if index:
                hidden = gelu(hidden)
            hidden = linear(hidden, *weights)
        rows.append(hidden + row)  # (13)
    return torch.stack(rows)


def convolution_block(states, kernels, pooling="max", alignment="adaptive"):
    """Equations 2-5 for one example without padding: states (L, H) -> (L, F). `kernels`: (weight (C, H, k), bias)."""
    length, width = states.shape
    columns = []
    for weight, bias in kernels:
        filters, _, size = weight.shape
        before, after = (2, 2) if alignment == "adaptive" else ((size - 1) // 2, size // 2)
        positions = []
        for position in range(length + before + after - size + 1):
            row = []
            for one in range(filters):
                total = bias[one]
                for step in range(size):
                    token = position + step - before
                    if 0 <= token < length:
                        for column in range(width):
                            total = total + weight[one, column, step] * states[token, column]
                row.append(total.clamp(min=0))  # (2)
            positions.append(torch.stack(row))
        pool = {"max": functional.adaptive_max_pool1d, "avg": functional.adaptive_avg_pool1d}[pooling]
        columns.append(pool(torch.stack(positions).T, length).T)  # (4)
    return torch.cat(columns, dim=1)


def question_answering_loss(start_logits, end_logits, starts, ends, kind):
    """Loss of section 3.4, averaged over examples: "sum" as in the text, its "mean", or "joint" (equation 16)."""
    total = 0.0
    for start_row, end_row, start, end in zip(start_logits, end_logits, starts, ends, strict=True):
        p_start = start_row[start].exp() / start_row.exp().sum()
        p_end = end_row[end].exp() / end_row.exp().sum()
        if kind == "joint":
            total = total - torch.log(p_start + p_end)
        else:
            total = total + (-torch.log(p_start) - torch.log(p_end)) / (2 if kind == "mean" else 1)
    return total / len(starts)


def fusion(kind, global_row, local_row, projection, output=None, balance=None):
    """Fusion of the global and local embeddings of one token (section 3.1), in three interpretations."""
    if kind == "concat":
        return linear(gelu(linear(torch.cat([global_row, local_row]), *projection)), *output)
    local_row = linear(local_row, *projection)
    if kind == "sum":
        return global_row + local_row
    weight = sigmoid(linear(torch.cat([global_row, local_row]), *balance))
    return weight * global_row + (1 - weight) * local_row
