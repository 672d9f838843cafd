"""Inputs of the models, of all shapes, types and values: finite logits at real tokens, or an error that names one."""

import functools

import hypothesis.strategies as st
import pytest
import torch

from hf_localattn.registry import FAMILIES
from tests.fuzz.properties import check, outcome, sizes
from tests.fuzz.values import often
from tests.models.tiny import CASES, VOCABULARY, main_outputs, tiny_model
from tests.models.tiny import labels as right_labels

MODELS = [(name, task) for name, task in CASES if task in ("headless", "question-answering", "token-classification")]
MODELS += [(name, task) for name, task in CASES if task in ("text-classification", "multiple-choice")]
"""All of them, the cheapest first."""

NAMES = ("attention_mask", "token_type_ids", "position_ids", "word_index", "dep_heads", "query_mask", "labels")
NAMES += ("start_positions", "end_positions", "inputs_embeds", "input_ids")

DTYPES = (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.float32, torch.float16, torch.complex64)
FILLS = (0, 1, -1, -2, 2, 7, 39, 40, 58, 59, 100, -100, 2**31, -(2**40), float("nan"), float("inf"))


VARIANTS = {
    "cool": [{}, {"mode": "l2g"}, {"mode": "g&l"}, {"local_attention": "gat"}],
    "sla-bert": [{}, {"local_attention": "window"}, {"local_attention": "sgnet"}, {"local_attention": "lisa"}],
    "oa-xlnet": [{}, {"backbone": "bert", "oa_num_heads": 2}, {"backbone": "bert", "local_attention": "none"}],
    "sam-roberta": [{"tam_max_length": 9}, {"tam_ffn": "token"}, {"pooling": "rba"}, {"pooling": "disan"}],
}


@functools.cache
def model_of(name, task, variant):
    return tiny_model(name, task, **VARIANTS[name][variant])


def right_inputs(name, task, batch, length, pads):
    """Inputs of a model with pads on one side of the last row."""
    mask = torch.ones(batch, length, dtype=torch.long)
    if pads > 0:
        mask[-1, length - min(pads, length) :] = 0
    elif pads < 0:
        mask[-1, : min(-pads, length)] = 0
    inputs = {"input_ids": torch.arange(batch * length).view(batch, length) % 40 + 7, "attention_mask": mask}
    inputs |= FAMILIES[name].sample_inputs(mask)
    if task == "multiple-choice":
        inputs = {key: value[None] for key, value in inputs.items()}
        return {**inputs, "labels": torch.tensor([batch - 1])}
    return {**inputs, **(right_labels(task, batch, length) if task != "headless" else {})}


def tensors(right):
    """Tensors of any shape and type."""
    shapes = often(
        *[st.just(tuple(right.shape))] * 4,
        st.lists(st.integers(0, 4), max_size=4).map(tuple),
        st.sampled_from(
            [tuple(right.shape[::-1]), tuple(right.shape[:1]), (*right.shape, 2), (1, *right.shape), (0, 3), (2, 0)]
        ),
    )

    def filled(drawn):
        shape, dtype, fill, places = drawn
        tensor = right.clone() if shape == tuple(right.shape) else torch.ones(shape, dtype=torch.int64)
        flat = tensor.reshape(-1)
        if len(flat):
            if not isinstance(fill, int):
                flat = flat.float()
            for place in places:
                flat[place % len(flat)] = fill
        return flat.view(shape).to(dtype if dtype is not None else flat.dtype)

    # what does not fit into a type is another value there
    types = often(st.none(), st.none(), st.none(), st.sampled_from(DTYPES))
    places = st.lists(st.integers(0, 40), max_size=3)
    return st.tuples(shapes, types, st.sampled_from(FILLS), places).map(filled)


@st.composite
def inputs_of(draw, name, task):
    batch, length, pads = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 5, 9, 12])), draw(st.integers(-3, 3))
    inputs = right_inputs(name, task, batch, length, pads)
    right, ids = dict(inputs), inputs["input_ids"]
    for _ in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from([*inputs, *inputs, *NAMES]))
        old = torch.ones(*ids.shape, 32) if key == "inputs_embeds" else right.get(key, ids)
        what = draw(st.sampled_from(["tensor", "tensor", "tensor", "none", "list", "scalar"]))
        if what == "none":
            inputs[key] = None
        elif what == "list":
            inputs[key] = draw(st.sampled_from([[[1, 2]], "text", 3, (), {}]))
        elif what == "scalar":
            inputs[key] = torch.tensor(draw(st.sampled_from(FILLS)))
        else:
            inputs[key] = draw(tensors(old))
        if key == "inputs_embeds" and draw(st.booleans()):
            inputs.pop("input_ids", None)
    return inputs


def check_outputs(inputs, output):
    given = inputs.get("input_ids") if inputs.get("input_ids") is not None else inputs["inputs_embeds"]
    if not given.is_floating_point() or bool(given.isfinite().all()):
        for one in main_outputs(output):
            assert bool(one.isfinite().all()) or inputs_have_nan(inputs)


def inputs_have_nan(inputs):
    return any(
        torch.is_tensor(one) and one.is_floating_point() and not one.isfinite().all() for one in inputs.values()
    )


@sizes
@pytest.mark.parametrize("name", ["cool", "sla-bert", "oa-xlnet", "sam-roberta"])
@torch.no_grad()
def test_a_model_answers_or_says_what_is_wrong(name, examples):
    def holds(given):
        task, variant, inputs = given
        model = model_of(name, task, variant)
        output = outcome(lambda: model(**inputs), *(f"`{key}`" for key in NAMES), "tam_max_length")
        if output is not None:
            check_outputs(inputs, output)

    tasks = st.sampled_from([task for own, task in MODELS if own == name])
    variants = st.integers(0, len(VARIANTS[name]) - 1)
    given = tasks.flatmap(lambda task: st.tuples(st.just(task), variants, inputs_of(name, task)))
    check(holds, given, examples)


def test_the_vocabulary_is_that_of_the_tiny_models():
    assert VOCABULARY in FILLS
