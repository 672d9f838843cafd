"""Naive float64 loops over one example, from the papers' equations. No code is shared with the package.

A linear layer is a pair (weight (out, in), bias (out,) or None). Vectors are rows.
"""

import math

import torch


def linear(row, weight, bias=None):
    return weight @ row if bias is None else weight @ row + bias


def relu(row):
    return torch.where(row > 0, row, torch.zeros_like(row))


def elu(row):
    return torch.where(row > 0, row, row.exp() - 1)


def gelu(row):
    return row * 0.5 * (1 + torch.erf(row / math.sqrt(2)))


def sigmoid(row):
    return 1 / (1 + (-row).exp())


def softmax(scores):
    """Return the softmax over the values of a dictionary."""
    exponentials = {name: score.exp() for name, score in scores.items()}
    total = sum(exponentials.values())
    return {name: one / total for name, one in exponentials.items()}
