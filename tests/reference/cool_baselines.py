"""Reference implementations of COOL's baselines: naive loops over one example, from the equations of their papers.

Each maps states (L, H) of one example without padding to (states (L, H), weights or None). `numbered` lists the
positions of a window as (number, position), of which some may be outside the sequence.
"""

import math

import torch

from tests.reference import elu, gelu, linear, sigmoid


def dynamic_convolution(states, gate, kernel, output, window, heads):
    """Wu et al. (2019), section 4 and figure 2c: weights (L, K, N)."""
    length, size = states.shape
    gated = []
    for row in states:
        doubled = linear(row, *gate)
        gated.append(doubled[:size] * sigmoid(doubled[size:]))
    rows, all_weights = [], []
    for token in range(length):
        exponentials = linear(gated[token], *kernel).exp().reshape(window, heads)
        weights = exponentials / sum(exponentials)
        mixed = []
        for feature in range(size):
            total = states.new_zeros(())
            for number, place in numbered(token, window // 2):
                if 0 <= place < length:
                    total = total + weights[number, feature // (size // heads)] * gated[place][feature]
            mixed.append(total)
        rows.append(states[token] + linear(torch.stack(mixed), *output))
        all_weights.append(weights)
    return torch.stack(rows), torch.stack(all_weights)


def visual_outlook(states, value, scores, projection, feed_forward, window):
    """Yuan et al. (2021), equations 1-5, on one channel. `scores` has a layer for every target."""
    length, size = states.shape
    zero = states.new_zeros(())
    written = {(row, column): zero for row in range(length) for column in range(size)}
    for row in range(length):
        for column in range(size):
            places = [(r, c) for _, r in numbered(row, window // 2) for _, c in numbered(column, window // 2)]
            sources = torch.stack([pixel(states[place], value) if place in written else zero for place in places])
            for target, (weight, bias) in zip(places, scores, strict=True):
                if target in written:
                    exponentials = (weight[:, 0] * states[row, column] + bias).exp()
                    written[target] = written[target] + (exponentials * sources).sum() / exponentials.sum()
    rows = []
    for row in range(length):
        mixed = [states[row, column] + pixel(written[row, column], projection) for column in range(size)]
        rows.append(torch.stack([one + pixel(one, feed_forward) for one in mixed]))
    return torch.stack(rows), None


def relational_graph(states, own, neighbor, window):
    """Schlichtkrull et al. (2018), equation 2, with one relation."""
    rows = []
    for token in range(len(states)):
        total = linear(states[token], *own)
        neighbors = [place for _, place in numbered(token, window) if 0 <= place < len(states) and place != token]
        for place in neighbors:
            total = total + linear(states[place], *neighbor) / len(neighbors)
        rows.append(states[token] + total.clamp(min=0))
    return torch.stack(rows), None


def graph_attention(states, value, target_vector, source_vector, bias, window):
    """Veličković et al. (2017), equations 1-5: weights (L, 2w+1, N)."""
    heads, width = target_vector.shape
    values = [linear(row, *value).reshape(heads, width) for row in states]

    def score(token, place, head):
        vector = torch.cat([target_vector[head], source_vector[head]])
        added = (vector * torch.cat([values[token][head], values[place][head]])).sum()
        return added if added > 0 else 0.2 * added

    mixed, weights = attend(len(states), values, score, window)
    return states + torch.stack([elu(row + bias) for row in mixed]), weights


def heterogeneous_graph(states, query, key, value, attention, message, prior, output, window):
    """Hu et al. (2020), equations 3-5, with one type of nodes and one of edges: weights (L, 2w+1, N)."""
    heads, width, _ = attention.shape
    queries, keys, values = (
        [linear(row, *layer).reshape(heads, width) for row in states] for layer in (query, key, value)
    )
    messages = [torch.stack([values_of[head] @ message[head] for head in range(heads)]) for values_of in values]

    def score(token, place, head):
        return keys[place][head] @ attention[head] @ queries[token][head] * prior[head] / math.sqrt(width)

    mixed, weights = attend(len(states), messages, score, window)
    return states + torch.stack([linear(gelu(row), *output) for row in mixed]), weights


def attend(length, values, score, window):
    """Return the weighted sums of values over a token and its neighbors, with concatenated heads, and the weights."""
    heads = values[0].shape[0]
    rows, all_weights = [], []
    for token in range(length):
        weights = [[values[0].new_zeros(()) for _ in range(heads)] for _ in range(2 * window + 1)]
        mixed = []
        for head in range(heads):
            there = [(number, place) for number, place in numbered(token, window) if 0 <= place < length]
            exponentials = [score(token, place, head).exp() for _, place in there]
            for (number, _), exponential in zip(there, exponentials, strict=True):
                weights[number][head] = exponential / sum(exponentials)
            mixed.append(sum(weights[number][head] * values[place][head] for number, place in there))
        rows.append(torch.cat(mixed))
        all_weights.append(torch.stack([torch.stack(row) for row in weights]))
    return rows, torch.stack(all_weights)


def numbered(center, reach):
    return list(enumerate(range(center - reach, center + reach + 1)))


def pixel(number, layer):
    weight, bias = layer
    return weight[0, 0] * number + bias[0]
