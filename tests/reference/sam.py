"""Reference implementations of SAM and its baselines: naive float64 loops over the tokens and features of one example.

`states` is (L, D) with one row per token. `real` is a list, True at tokens and False at padding, with at least one
True. Results have L rows, with zeros at padding.
"""

import torch

from tests.reference import elu, linear, relu, sigmoid, softmax


def feature_attention(states, real, inner, outer, threshold):
    """Zhou et al. (2021), equations 2-4: states (L, D) -> X' (L, D) and the filtered map (D,)."""
    columns = [[row[feature] for row in real_rows(states, real)] for feature in range(states.shape[1])]
    largest = torch.stack([max(column) for column in columns])
    average = torch.stack([sum(column) / len(column) for column in columns])
    scores = feed_forward(largest, inner, outer) + feed_forward(average, inner, outer)
    weights = torch.stack([relu(sigmoid(score) - threshold) for score in scores])
    rows = {t: torch.stack([w * x for w, x in zip(weights, states[t], strict=True)]) for t in numbers(real)}
    return filled(rows, states[0].numel(), states), weights


def token_attention(states, real, inner, outer, max_length=None, normalize=softmax):
    """Equations 5-6: states (L, D) -> X'' (L, D) and the map (L,).

    With `max_length` the FFN reads all positions at once, with zeros after the last token. Without it, the FFN reads
    one token at a time.
    """
    rows = real_rows(states, real)
    pools = [[max(row) for row in rows], [sum(list(row)) / len(row) for row in rows]]
    scores = [states.new_zeros(())] * len(rows)
    for values in pools:
        if max_length is None:
            read = [feed_forward(value.reshape(1), inner, outer)[0] for value in values]
        else:
            behind = [states.new_zeros(())] * (max_length - len(values))
            read = feed_forward(torch.stack([*values, *behind]), inner, outer)
        scores = [score + read[number] for number, score in enumerate(scores)]
    weights = normalize(dict(zip(numbers(real), scores, strict=True)))
    weighted = {t: weight * states[t] for t, weight in weights.items()}
    return filled(weighted, states.shape[1], states), filled(weights, (), states)


def entmax15(scores):
    """1.5-entmax over the values of a dictionary (Peters et al., 2019): max(0, s / 2 - tau)^2 with the sum 1.

    For each number k of largest scores, tau is the smaller root of sum_{i <= k} (s_i / 2 - tau)^2 = 1. The right k is
    the one whose tau lies between the scores k and k + 1.
    """
    halves = {name: score / 2 for name, score in scores.items()}
    ordered = sorted(halves.values(), key=lambda half: half.item(), reverse=True)
    for count in range(1, len(ordered) + 1):
        total, squares = sum(ordered[:count]), sum(half * half for half in ordered[:count])
        tau = (total - (total * total - count * (squares - 1)).clamp(min=0) ** 0.5) / count
        if count == len(ordered) or ordered[count] <= tau:
            break
    return {name: torch.where(half > tau, (half - tau) ** 2, torch.zeros_like(half)) for name, half in halves.items()}


def sequential_attention(states, real, order, feature, token):
    """Section 3.4 and table 4's ablations: X'' (L, D) and both maps.

    `feature` and `token` are the remaining arguments of the two functions above. A module with None is skipped.
    """
    maps = {"fam": None, "tam": None}
    for name in order.split("_"):
        function, arguments = {"fam": (feature_attention, feature), "tam": (token_attention, token)}[name]
        if arguments is not None:
            states, maps[name] = function(states, real, **arguments)
    return states, maps["fam"], maps["tam"]


def pooled(states, real, has_token_attention):
    """Vector of a text (D,): the sum if the rows are weighted with weights that sum to one, else the mean."""
    total = sum(real_rows(states, real))
    return total if has_token_attention else total / sum(real)


def per_token(states, real, has_token_attention):
    """States for a token head (L, D), with token weights of mean 1 in place of sum 1."""
    return states * sum(real) if has_token_attention else states


def recurrent_attention(states, real, weight):
    """Zhou et al. (2016), equations 9-12, weight (D,): a vector (D,), its terms (L, D) and their weights (L,)."""
    scores = [sum(w * x.tanh() for w, x in zip(weight, row, strict=True)) for row in real_rows(states, real)]
    weights = softmax(dict(zip(numbers(real), scores, strict=True)))
    terms = {t: weight * states[t] for t, weight in weights.items()}
    return sum(terms.values()).tanh(), filled(terms, states.shape[1], states), filled(weights, (), states)


def disan(states, real, forward, backward, source):
    """Shen et al. (2018), "DiSAN", both directions and then source2token: a vector (2 N,) and its terms (L, 2 N).

    `forward` and `backward` are the layers of `directional_block`, `source` the two layers of `source2token`.
    """
    rows = real_rows(states, real)
    blocks = (directional_block(rows, True, **forward), directional_block(rows, False, **backward))
    terms = source2token([torch.cat(pair) for pair in zip(*blocks, strict=True)], *source)
    return sum(terms), filled(dict(zip(numbers(real), terms, strict=True)), len(terms[0]), states)


def directional_block(rows, forward, hidden, source, target, bias, gate_attention, gate_hidden, gate_bias):
    """A "DiSA" block: n rows (D,) -> n rows (N,). Token j attends to the tokens i before it, or to those after it.

    No token attends to itself. The result for a token without others to attend to (the first or the last) is 0, as in
    the authors' code.
    """
    hiddens = [elu(linear(row, *hidden)) for row in rows]
    outputs = []
    for j, own in enumerate(hiddens):
        readable = [i for i in range(len(hiddens)) if (i < j if forward else i > j)]
        scores = {i: 5 * ((source @ hiddens[i] + target @ own + bias) / 5).tanh() for i in readable}
        features = []
        for feature in range(len(own)):
            weights = softmax({i: score[feature] for i, score in scores.items()})
            terms = [weight * hiddens[i][feature] for i, weight in weights.items()]
            features.append(sum(terms, own.new_zeros(())))
        attended = torch.stack(features)
        gate = sigmoid(gate_attention @ attended + gate_hidden @ own + gate_bias)
        outputs.append(gate * own + (1 - gate) * attended)
    return outputs


def source2token(rows, inner, outer):
    """Multi-dimensional source2token attention: n rows (N,), with a weight for every token and feature."""
    scores = [linear(elu(linear(row, *inner)), *outer) for row in rows]
    weights = [softmax({t: score[feature] for t, score in enumerate(scores)}) for feature in range(len(rows[0]))]
    return [torch.stack([w[t] * x for w, x in zip(weights, row, strict=True)]) for t, row in enumerate(rows)]


def bilstm(states, real, lstm, merge):
    """torch's bidirectional LSTM over tokens, not padding; `merge`: `concat` (L, 2 N) or `sum` (L, N)."""
    rows, _ = torch.nn.LSTM.forward(lstm, torch.stack(real_rows(states, real)))
    rows = rows if merge == "concat" else sum(rows.chunk(2, dim=-1))
    return filled(dict(zip(numbers(real), rows, strict=True)), rows.shape[1], states)


def numbers(real):
    return [t for t, there in enumerate(real) if there]


def real_rows(states, real):
    return [states[t] for t in numbers(real)]


def filled(rows, width, like):
    """Stack a dictionary of rows by position to a matrix as long as `like`, with zeros for missing rows."""
    return torch.stack([rows.get(t, like.new_zeros(width)) for t in range(len(like))])


def feed_forward(row, inner, outer):
    """Equation 1."""
    return linear(relu(linear(row, *inner)), *outer)
