"""Reference implementation of the mix of an encoder's layers: a naive float64 loop over the tokens of one example."""

import torch

from tests.reference import softmax


def layer_mix(layers, scores, scale):
    """Peters et al. (2018), equation 1: states of each layer, (L, H) each, -> (L, H)."""
    weights = softmax(dict(enumerate(scores)))
    rows = []
    for tokens in zip(*layers, strict=True):
        features = [torch.zeros(())] * len(tokens[0])
        for number, token in enumerate(tokens):
            mean = sum(token) / len(token)
            variance = sum((feature - mean) ** 2 for feature in token) / len(token)
            for place, feature in enumerate(token):
                share = weights[number] * (feature - mean) / (variance + 1e-5) ** 0.5
                features[place] = features[place] + share
        rows.append(scale * torch.stack(features))
    return torch.stack(rows)
