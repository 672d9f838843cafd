"""Number of graphs that `torch.compile` makes of a model, over batches of many sizes."""

import pytest
import torch
from torch._dynamo import config
from torch._dynamo.testing import CompileCounterWithBackend

from hf_localattn.registry import FAMILIES
from tests.models.tiny import TRACEABLE, adapted, tiny_model, token_ids

MANY = [
    *((2, 9), (3, 12), (4, 7), (2, 16), (5, 11), (7, 30), (3, 5), (6, 21), (2, 3), (8, 33)),
    *((9, 14), (4, 28), (3, 19), (5, 35), (6, 8), (2, 24), (7, 13), (10, 17), (3, 39), (4, 6)),
]
"""Batch sizes and lengths. torch makes another graph for a batch or a length of 1, also of a bare backbone."""

ANY_SIZE = 2
"""Graphs of a bare backbone: one for the first batch, and one for all other sizes."""

BREAKS = 2
"""Parts into which the BiLSTM of SAM splits a headless model."""


@pytest.fixture(autouse=True)
def unlimited():
    with config.patch(recompile_limit=64):  # beyond it torch gives up without a word
        yield


def small_model(name, layers=0, **fields):
    """A model on BERT with as few of its layers as the family needs, as each takes seconds to trace."""
    one = {"cool": {"num_local_layers": 1}, "oa-xlnet": {"num_oa_layers": 1}}
    model = tiny_model(name, backbone="bert", **one.get(name, {}), **fields)
    del model.backbone.encoder.layer[max(layers, int(name == "sla-bert")) :]
    return model


def count_graphs(model, sizes, sides, backend="eager"):
    torch.compiler.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(model, backend=counter)
    for batch, length in sizes:
        for side in sides:
            mask = torch.ones(batch, length, dtype=torch.long)
            for row in range(batch if side != "none" else 0):
                count = 3 * row % (length - 1)
                mask[row, slice(length - count, None) if side == "right" else slice(count)] = 0
            inputs = {"input_ids": token_ids(batch, length), "attention_mask": mask}
            inputs = adapted(model, **inputs) if hasattr(model, "token_inputs") else inputs
            with torch.set_grad_enabled(model.training):
                states = compiled(**inputs).last_hidden_state
                if model.training:
                    states.sum().backward()
    return counter.frame_count


@pytest.mark.slow(reason="compiles twelve models, with all lengths and kinds of padding")
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_every_size_and_padding(training):
    sides = ["none", "right", "left"]
    bare = count_graphs(small_model("cool", layers=1).backbone.train(training), MANY, sides, "aot_eager")
    assert bare == ANY_SIZE
    for name in FAMILIES:
        model = small_model(name, layers=1, **TRACEABLE.get(name, {})).train(training)
        assert count_graphs(model, MANY, sides, "aot_eager") <= bare, name
    model = small_model("sam-roberta", layers=1).train(training)
    assert count_graphs(model, MANY, sides, "aot_eager") <= bare * BREAKS
