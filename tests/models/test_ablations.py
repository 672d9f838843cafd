"""What the contract promises, for every ablation and baseline of every family: padding, gradients, reloading."""

import pytest
import torch

from hf_localattn.registry import FAMILIES
from tests.models.ablations import MORE, ablations_of, choices
from tests.models.test_family_contract import assert_close, assert_equal, auto_class, check_padding
from tests.models.tiny import (
    CASES,
    backbones_of,
    enable_checkpointing,
    gradients,
    main_outputs,
    run,
    tiny_model,
    token_ids,
)

ELSEWHERE = pytest.mark.slow(reason="over a thousand models; what a head or backbone adds is in the contract itself")
WITHOUT_CHECKPOINTING = ("albert", "xlnet")
CANCELED = {
    *("choice_classifier.output.bias", "choice_classifier.head.bias"),  # by the softmax over the choices
    "qa_outputs.bias",  # by the softmax over the tokens
    "sam.sequential_attention.tam.inner.bias",  # likewise, where the same units are active for all tokens
    # The same for all features: by the norm that follows, or by weights in the loss that add up to 0.
    *("local_encoder.layers.2.projection.bias", "local_encoder.layers.2.feed_forward.bias"),
}
"""Parameters whose gradient may be 0."""


def _may_be_silent(parameter, task, backbone, fields):
    name = parameter.removeprefix("cool.")
    if name in CANCELED:
        return True
    kind = fields.get("local_attention")
    if task in ("text-classification", "multiple-choice") and kind == "visual_outlook":
        # These heads read one end of the text, where parts of the window have no tokens.
        return name.startswith("local_encoder.layers.2.attention_scores.")
    # All values of this convolution are below 0, before its ReLU.
    is_below = (task, backbone, fields.get("mode"), kind) == ("headless", "distilbert", "l2g", "conv")
    return is_below and name.startswith("local_encoder.convolution_block.convolutions.0.")


def _is_fast(name, task, backbone, fields):
    if backbone != FAMILIES[name].config.default_backbone:
        return False
    # What differs by head: losses of SLA's baselines, and which vectors the heads read from SAM's.
    of_heads = fields.get("local_attention") in ("lisa", "sgnet") or "pooling" in fields
    return task == "headless" or (task in ("token-classification", "text-classification") and of_heads)


TABLE = [
    pytest.param(
        *(name, task, backbone, fields),
        id="-".join([name, task, backbone, row]),
        marks=() if _is_fast(name, task, backbone, fields) else ELSEWHERE,
    )
    for name, task in CASES
    for backbone in backbones_of(name, task)
    for row, fields in ablations_of(name).items()
]


def test_every_family_declares_its_ablations():
    assert all(ablations_of(name) for name in FAMILIES)
    tried = {fields.get("local_attention", "outlook") for fields in MORE["cool"].values()}
    assert tried == set(choices(FAMILIES["cool"].config, "local_attention"))


@pytest.mark.parametrize(("name", "task", "backbone", "fields"), TABLE)
def test_every_ablation_keeps_the_contract(name, task, backbone, fields, tmp_path):
    model = tiny_model(name, task, backbone, **fields)
    if task == "headless":
        assert run(model, input_ids=token_ids(1, 5)).last_hidden_state.shape == (1, 5, model.config.hidden_size)
    check_padding(model, task, "both")
    mask = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6, [0] * 11])
    inputs = {"input_ids": token_ids(4, 11), "attention_mask": mask}
    found = gradients(model.train(), task, **inputs)
    assert [parameter for parameter, gradient in found.items() if gradient is None] == []
    assert all(gradient.isfinite().all() for gradient in found.values())
    silent = {name for name, gradient in found.items() if "backbone" not in name and not gradient.any()}
    assert {name for name in silent if not _may_be_silent(name, task, backbone, fields)} == set()
    if backbone not in WITHOUT_CHECKPOINTING:
        enable_checkpointing(model)
        assert_close(gradients(model, task, **inputs).values(), found.values())
    model.eval().save_pretrained(tmp_path)
    loaded = auto_class(task).from_pretrained(tmp_path)
    assert_equal(loaded.state_dict().values(), model.state_dict().values())
    assert_close(main_outputs(run(loaded, **inputs)), main_outputs(run(model, **inputs)))
