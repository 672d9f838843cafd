"""Weights of classes: what options mean, and the loss."""

from functools import partial

import pytest
import torch
from torch.nn import functional

from hf_localattn.tasks.class_weights import read_class_weights, weighted_loss


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        (["balanced"], [4 / 6, 4 / 2, 1.0]),
        (["b=2.5"], [1.0, 2.5, 1.0]),
        (["a=b=3", "b=1e-1"], [1.0, 0.1, 3.0]),
    ],
)
def test_weights(options, weights):
    """`balanced` is scikit-learn's, n / (number of classes * rows of the class); a class without rows has 1."""
    assert read_class_weights(options, ["a", "b", "a=b"], [0, 0, 0, 1]) == pytest.approx(weights)


def test_the_loss_of_a_step_does_not_depend_on_its_batches():
    logits = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 0.3]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1])
    loss = partial(weighted_loss, weights=[3.0, 0.5])
    by_row = functional.cross_entropy(logits, labels, reduction="none") * torch.tensor([3.0, 0.5, 0.5])
    whole = loss({"logits": logits}, labels)
    torch.testing.assert_close(whole, by_row.mean())
    parts = [loss({"logits": logits[part]}, labels[part], num_items_in_batch=3) for part in (slice(2), slice(2, 3))]
    torch.testing.assert_close(sum(parts), whole)
    smoothed = weighted_loss({"logits": logits}, labels, weights=[1.0, 1.0], label_smoothing=0.1)
    torch.testing.assert_close(smoothed, functional.cross_entropy(logits, labels, label_smoothing=0.1))
