"""COOL: a training step relative to the backbone, and the outlook operation relative to VOLO's formulation."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional
from transformers import BertConfig, BertForQuestionAnswering

from benchmarks.measure import seconds
from benchmarks.registry import Scale, Step, case, train_step
from hf_localattn import CoolConfig, CoolForQuestionAnswering, outlook_attention

BATCH, LENGTH, WINDOW = 8, 384, 3


@case(
    "cool-step",
    f"COOL on BERT-base, question answering, training step at batch {BATCH}, length {LENGTH}; peer: the bare backbone",
    time_targets={"with conv": 1.06, "without conv": 1.30},
)
def training_step(device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    batch = scale.limit(BATCH)
    length = scale.limit(LENGTH)
    shorter = 300 * length // LENGTH
    positions = torch.randint(0, shorter, (batch,))
    inputs = scale.padded_batch(batch, length, slice(shorter, None))
    inputs |= {"start_positions": positions, "end_positions": positions}
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    backbone = BertConfig(**scale.encoder)
    models = {
        "backbone": BertForQuestionAnswering(backbone),
        "with conv": CoolForQuestionAnswering(CoolConfig(backbone_config=backbone)),
        "without conv": CoolForQuestionAnswering(CoolConfig(backbone_config=backbone, use_conv=False)),
    }
    return {name: partial(train_step, model.train().to(device), inputs) for name, model in models.items()}


def outlook_variants(features: int, device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    shape = (scale.limit(BATCH), scale.limit(LENGTH))
    values = torch.randn(*shape, features, device=device, requires_grad=True)
    scores = torch.randn(*shape, WINDOW, WINDOW, features, device=device, requires_grad=True)
    gradient = torch.randn(*shape, features, device=device)

    def step(function) -> None:
        function().backward(gradient)
        values.grad = scores.grad = None

    return {
        "unfold and fold": partial(step, lambda: unfold_and_fold(values, scores)),
        "banded": partial(step, lambda: outlook_attention(values, scores)[0]),
    }


def unfold_and_fold(values: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Compute VOLO's outlook attention in one dimension with one head per feature, in its fastest layout."""
    batch, length, features = values.shape
    window = scores.shape[2]
    columns = values.transpose(1, 2)[..., None]
    unfolded = functional.unfold(columns, (window, 1), padding=(window // 2, 0))
    sources = unfolded.view(batch, features, window, length).permute(0, 3, 2, 1)
    written = (scores.softmax(3) * sources[:, :, None]).sum(3)
    written = written.permute(0, 3, 2, 1).reshape(batch, features * window, length)
    return functional.fold(written, (length, 1), (window, 1), padding=(window // 2, 0))[..., 0].transpose(1, 2)


def same_outlook(features: int, device: torch.device) -> None:
    """Compare outputs and gradients of the two formulations."""
    torch.manual_seed(0)
    values = torch.randn(2, 33, features, device=device, requires_grad=True)
    scores = torch.randn(2, 33, WINDOW, WINDOW, features, device=device, requires_grad=True)
    outputs = (outlook_attention(values, scores)[0], unfold_and_fold(values, scores))
    for mixed in outputs:
        torch.testing.assert_close(mixed, outputs[1], rtol=1e-4, atol=1e-5)
    gradients = [torch.autograd.grad(mixed.square().sum(), (values, scores)) for mixed in outputs]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def outlook_bounds(features: int, device: torch.device) -> dict[str, float]:
    """Return the seconds for the exponentials of a step, and for one transfer of each of its large tensors.

    The softmax is computed in both passes. Forward reads the scores; backward reads them and writes their gradient.
    """
    elements = BATCH * LENGTH * WINDOW**2 * features
    source = torch.randn(elements, device=device)
    target = torch.empty_like(source)
    steps = {"exponentials": lambda: torch.exp(source, out=target), "memory": lambda: target.copy_(source)}
    least = {name: min(seconds(step, device) for _ in range(20)) for name, step in steps.items()}
    return {"exponentials": 2 * least["exponentials"], "memory": 1.5 * least["memory"]}


for width in (300, 768):
    case(
        f"outlook-{width}",
        f"Outlook operation at F {width}, forward and backward, batch {BATCH}, length {LENGTH}; peer: unfold and fold",
        time_targets={"banded": 0.5},
        memory_targets={"banded": 0.6},
        check=partial(same_outlook, width),
        bounds=partial(outlook_bounds, width),
    )(partial(outlook_variants, width))
