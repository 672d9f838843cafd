"""Reference implementation of SLA: naive float64 loops over one example, from the paper's equations.

A structure is two lists of the length of the sequence, `word_index` and `dep_heads`, with -1 at special tokens and
padding, and -2 - number at tokens that every query may attend to. Words are identified by their numbers. A mask is a
list of rows, with `mask[query][key]` True if the query may attend to the key.
"""

import torch

from tests.reference import sigmoid


def syntax_mask(word_index, dep_heads, threshold=3, neighbor_window=1, connect_roots=False):
    """Equations 2 and 3 on words and their sub-words. Other segments and special tokens are never masked."""
    words = numbers_of(word_index)
    segments = segments_of(words)
    graph = undirected_graph(words, dep_heads, connect_roots)
    distances = {word: breadth_first(graph, word) for word in graph}

    def allowed(i, j):
        if segments[i] != segments[j]:
            return True
        near = [k for k in range(i - neighbor_window, i + neighbor_window + 1) if segments.get(k) == segments[i]]
        return any(j in distances[k] and distances[k][j] <= threshold for k in near)  # (2) and (3)

    return over_tokens(word_index, allowed)


def distances(word_index, dep_heads, ids, threshold=3, neighbor_window=1, connect_roots=False, shared_words=False):
    """Equation 2 on words and their sub-words, at most `threshold` + 1. It is 0 at special and open tokens.

    Across segments the distance is 0; or with `shared_words` the smallest D(i, a) + dist(b, j) over words a and b with
    the same tokens `ids`, in the segments of i and j.
    """
    words = numbers_of(word_index)
    segments = segments_of(words)
    graph = undirected_graph(words, dep_heads, connect_roots)
    edges = {word: breadth_first(graph, word) for word in graph}
    spelled = {word: [one for one, there in zip(ids, words, strict=True) if there == word] for word in graph}

    def within(i, j):
        near = [k for k in range(i - neighbor_window, i + neighbor_window + 1) if segments.get(k) == segments[i]]
        return min(edges[k].get(j, threshold + 1) for k in near)

    def between(i, j):
        if segments[i] == segments[j]:
            return within(i, j)
        if not shared_words:
            return 0
        found = [threshold + 1]
        for a in graph:
            for b in graph:
                if segments[a] == segments[i] and segments[b] == segments[j] and spelled[a] == spelled[b]:
                    found.append(within(i, a) + edges[b].get(j, threshold + 1))
        return min(found)

    def between_tokens(i, j, is_open):
        return 0 if is_open or -1 in (i, j) else min(between(i, j), threshold + 1)

    keys = [(j, key < -1) for key, j in zip(word_index, words, strict=True)]
    return [[between_tokens(i, *key) for key in keys] for i in words]


def window_mask(word_index, window_size=3):
    """WLA of section 4.1: words at a distance of at most `window_size`, and all words of other segments."""
    segments = segments_of(numbers_of(word_index))
    return over_tokens(word_index, lambda i, j: segments[i] != segments[j] or abs(i - j) <= window_size)


def ancestor_mask(word_index, dep_heads):
    """SGNet (Zhang et al., 2020): a word attends to itself and to all its ancestors up to the root."""
    heads = heads_of(numbers_of(word_index), dep_heads)

    def allowed(i, j):
        while i != j and heads[i] != i:
            i = heads[i]
        return i == j

    return over_tokens(word_index, allowed)


def authors_mask(tokens, words, heads, threshold=3):
    """The mask that the authors' code makes of a sentence between [CLS] and [SEP].

    `words` has the index of the word of each token between them, `heads` the head of each word (a root is its own).
    The distances of [CLS] and [SEP] are 0 in both directions; those of punctuation are 0 as keys.
    """
    graph = {
        word: {other for other in range(len(heads)) if heads[word] == other or heads[other] == word} for word in words
    }
    distances = {word: breadth_first(graph, word) for word in graph}
    last, mask = len(tokens) - 1, []
    for i in range(len(tokens)):
        row = []
        for j, token in enumerate(tokens):
            if {i, j} & {0, last} or token in "!\"#$%&'()*+,.-/:;<=>?@[\\]^_":
                row.append(True)
                continue
            near = [word for word in range(words[i - 1] - 1, words[i - 1] + 2) if word in distances]
            row.append(min(distances[word].get(words[j - 1], 1000) for word in near) <= threshold)
        mask.append(row)
    return mask


def over_tokens(word_index, allowed):
    words = numbers_of(word_index)
    keys = list(zip(word_index, words, strict=True))
    return [[key < -1 or -1 in (i, j) or allowed(i, j) for key, j in keys] for i in words]


def numbers_of(word_index):
    """Return the number of every token's word, also where the token is open as a key."""
    return [-2 - word if word < -1 else word for word in word_index]


def segments_of(word_index):
    """Return the segment of every word. A new segment starts after special tokens between two words."""
    segments, segment, previous = {}, 0, None
    for word in word_index:
        if word == -1 and previous not in (None, -1):
            segment += 1
        elif word != -1:
            segments[word] = segment
        previous = word
    return segments


def heads_of(word_index, dep_heads):
    """Return the number of every word's head. A root is its own head."""
    return {word: word_index[head] for word, head in zip(word_index, dep_heads, strict=True) if word != -1}


def undirected_graph(word_index, dep_heads, connect_roots):
    segments, heads = segments_of(word_index), heads_of(word_index, dep_heads)
    edges = list(heads.items())
    if connect_roots:
        roots = [word for word, head in heads.items() if word == head]
        edges += [(one, other) for one in roots for other in roots if segments[one] == segments[other]]
    graph = {word: set() for word in heads}
    for one, other in edges:
        graph[one].add(other)
        graph[other].add(one)
    return graph


def breadth_first(graph, start):
    """Return the distance from `start` to every word that can be reached."""
    distances, queue = {start: 0}, [start]
    for word in queue:
        for other in sorted(graph[word]):
            if other not in distances:
                distances[other] = distances[word] + 1
                queue.append(other)
    return distances


def gated_attention(query, key, value, gate, mask, local_mask, scaling):
    """Equations 1 and 3-6: query, key and value (heads, L, d), gate (L,), additive masks (L, L) or None.

    Returns the output (L, heads, d), the weights of equation 6 and those of equation 4, both (heads, L, L).
    """
    output, weights, local_weights = [], [], []
    for queries, keys, values in zip(query, key, value, strict=True):
        for i, one in enumerate(queries):
            scores = torch.stack([(one * other).sum() * scaling for other in keys])
            everywhere = (scores if mask is None else scores + mask[i]).softmax(0)  # (1)
            nearby = (scores if local_mask is None else scores + local_mask[i]).softmax(0)  # (4)
            mixture = gate[i] * nearby + (1 - gate[i]) * everywhere  # (6)
            output.append(sum(weight * row for weight, row in zip(mixture, values, strict=True)))
            weights.append(mixture)
            local_weights.append(nearby)
    found = [torch.stack(rows).view(*query.shape[:2], -1) for rows in (output, weights, local_weights)]
    return found[0].transpose(0, 1), *found[1:]


def gate(states, weight, bias):
    """Equation 5 for one example: states (L, H), weight (1, H), bias (1,) -> (L,)."""
    return torch.stack([sigmoid((weight[0] * row).sum() + bias[0]) for row in states])


def lisa_loss(scores_of_last_heads, dep_heads, real=None):
    """LISA's loss (Strubell et al., 2018), which trains the last head of each layer to attend to the syntactic head.

    It is the cross-entropy with the first sub-token of the head's word (a root is its own head), averaged over the
    tokens of words in the batch, then over the layers. Each layer has scores (B, L, L). `real[b][i]` is False at
    padding.
    """
    layers = []
    for scores in scores_of_last_heads:
        losses = []
        for example, heads in enumerate(dep_heads):
            keys = [True] * len(heads) if real is None else real[example]
            for token, head in enumerate(heads):
                if head != -1:
                    row = scores[example, token]
                    total = sum(score.exp() for score, there in zip(row, keys, strict=True) if there)
                    losses.append(-torch.log(row[head].exp() / total))
        layers.append(sum(losses) / len(losses))
    return sum(layers) / len(layers)


def sgnet_mixture(encoded, syntactic, mixture):
    """SGNet's fusion of the outputs of encoder and syntax-guided layer, weighted by the softmax of two numbers."""
    first, second = mixture[0].exp(), mixture[1].exp()
    return (first * encoded + second * syntactic) / (first + second)
