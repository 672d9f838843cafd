"""Cases for a GPU: kernels, steps of all families, the packed BiLSTM and a pipeline. Kernels are checked first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from benchmarks.cool import unfold_and_fold
from benchmarks.registry import Case, Step
from benchmarks.sla import sentences
from hf_localattn import (
    CoolConfig,
    CoolForQuestionAnswering,
    CoolForSequenceClassification,
    OaXLNetConfig,
    OaXLNetForSequenceClassification,
    SamRobertaConfig,
    SamRobertaForSequenceClassification,
    SlaBertConfig,
    SlaBertForSequenceClassification,
    SlaBertModel,
    outlook_attention,
)
from hf_localattn.kernels import sla_attention as kernels_of_sla
from hf_localattn.kernels.choice import DTYPES, SWITCH
from hf_localattn.models.sam_bilstm import RecurrentEncoder
from hf_localattn.models.sla_attention import gated_attention
from hf_localattn.models.sla_masks import limited_rows, syntax_tables
from hf_localattn.pipelines import QuestionAnsweringPipeline
from hf_localattn.resources import tiny_backbone

TINY_BACKBONE = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 64,
}
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


@dataclass(frozen=True)
class Sizes:
    """Sizes of all cases."""

    backbones: dict[str, dict[str, Any]]
    lengths: tuple[int, ...]
    tokens: int
    width: int
    heads: int
    questions: int

    def batch(self, length: int) -> int:
        """Return the number of texts of a length in one step."""
        return max(1, self.tokens // length)


FULL = Sizes(
    backbones={"bert": {}, "roberta": {"max_position_embeddings": 514, "vocab_size": 50265}},
    lengths=(128, 384, 512),
    tokens=12288,
    width=768,
    heads=12,
    questions=256,
)
TINY = Sizes(
    backbones={"bert": TINY_BACKBONE, "roberta": TINY_BACKBONE}, lengths=(9,), tokens=18, width=8, heads=2, questions=2
)


def cases(sizes: Sizes) -> dict[str, Case]:
    """Return the cases in the order of their run, kernels first."""
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        at = f"at width {sizes.width}, {sizes.batch(sizes.lengths[-1])} texts of {sizes.lengths[-1]} tokens, {name}"
        found.append(
            Case(
                f"gpu-outlook-{name}",
                f"Outlook operation, forward and backward, {at}; peer: a copy of as many bytes as it must move",
                partial(outlook_variants, sizes, dtype),
                time_targets={"kernel": 1 / 0.7},
                check=check_outlook,
            )
        )
        found.append(
            Case(
                f"gpu-sla-attention-{name}",
                f"SLA's attention with dropout, forward and backward, {at}; peer: SDPA with dropout and padding",
                partial(attention_variants, sizes, dtype),
                time_targets={"kernel": 1.15},
                check=check_sla,
            )
        )
    found.append(
        Case(
            "gpu-bilstm",
            "BiLSTM on packed texts, half of them shorter by a quarter, forward and backward; peer: with padding",
            partial(recurrent_variants, sizes),
        )
    )
    for backbone in sizes.backbones:
        for length in sizes.lengths:
            for dtype in (torch.float32, torch.bfloat16):
                name = str(dtype).removeprefix("torch.")
                found.append(
                    Case(
                        f"gpu-step-{backbone}-{length}-{name}",
                        f"Text classification on {backbone}-base, training step of {sizes.batch(length)} texts of "
                        f"{length} tokens, {name}; peer: the bare backbone",
                        partial(step_variants, sizes, backbone, length, dtype),
                        time_targets={"cool": 1.05, "cool without conv": 1.15, "oa": 1.2, "sam": 1.1},
                        check=check_all,
                    )
                )
    found.append(
        Case(
            "gpu-pipeline",
            f"Pipeline for {sizes.questions} questions, COOL on BERT-base; peer: the bare backbone in it",
            partial(pipeline_variants, sizes),
            check=check_outlook,
        )
    )
    return {case.name: case for case in found}


@contextmanager
def kernels(switch: str) -> Iterator[None]:
    """Switch kernels off ("0") or on ("1") inside the context."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = switch
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def outlook_inputs(
    batch: int, length: int, width: int, dtype: torch.dtype, device: torch.device
) -> list[torch.Tensor]:
    """Return values, scores and a gradient."""
    torch.manual_seed(0)
    values, gradient = torch.randn(2, batch, length, width, device=device, dtype=dtype)
    scores = torch.randn(batch, length, 3, 3, width, device=device, dtype=dtype)
    return [values.requires_grad_(), scores.requires_grad_(), gradient]


def outlook_variants(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> dict[str, Step]:
    """Return the outlook operation as a kernel, in eager and compiled torch code, and unfolded."""
    length = sizes.lengths[-1]
    values, scores, gradient = outlook_inputs(sizes.batch(length), length, sizes.width, dtype, device)
    # Forward reads values and scores and writes values; backward also reads the gradient and writes both gradients.
    source = torch.empty((3 * scores.numel() + 5 * values.numel()) // 2, dtype=dtype, device=device)
    target = torch.empty_like(source)

    def step(function: Callable[..., torch.Tensor], switch: str) -> None:
        with kernels(switch):
            function(values, scores).backward(gradient)
        values.grad = scores.grad = None

    def attend(values: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return outlook_attention(values, scores)[0]

    return {
        "copy": lambda: target.copy_(source),
        "kernel": partial(step, attend, "1"),
        "eager": partial(step, attend, "0"),
        "compiled": partial(step, torch.compile(attend), "0"),
        "unfold and fold": partial(step, unfold_and_fold, "0"),
    }


def text_inputs(batch: int, length: int, vocabulary: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Return texts, half of them shorter by a quarter, with labels."""
    torch.manual_seed(0)
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[::2, length * 3 // 4 :] = 0
    given = {
        "input_ids": torch.randint(5, vocabulary, (batch, length)),
        "attention_mask": mask,
        "labels": torch.zeros(batch, dtype=torch.long),
    }
    return {name: tensor.to(device) for name, tensor in given.items()}


def further_inputs(batch: int, length: int, device: torch.device) -> dict[str, dict[str, torch.Tensor]]:
    """Return the additional inputs of the families that have some."""
    query = torch.zeros(batch, length, dtype=torch.long)
    query[:, length // 2] = 1
    return {
        "sla": {name: tensor.to(device) for name, tensor in sentences(batch, length).items()},
        "oa": {"query_mask": query.to(device)},
    }


def train(model: torch.nn.Module, given: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
    """Run one forward and backward pass."""
    with torch.autocast(given["input_ids"].device.type, dtype, enabled=dtype != torch.float32):
        loss = model(**given).loss
    loss.backward()
    model.zero_grad(set_to_none=True)


def step_variants(
    sizes: Sizes, backbone: str, length: int, dtype: torch.dtype, device: torch.device
) -> dict[str, Step]:
    """Return the training steps of a backbone and of all families on it."""
    fields = {"model_type": backbone, **sizes.backbones[backbone]}
    batch = sizes.batch(length)
    given = text_inputs(batch, length, AutoConfig.for_model(**fields).vocab_size, device)
    further = further_inputs(batch, length, device)
    own = {"backbone_config": fields}
    with device:
        stock = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**fields))
        models = {
            "backbone": stock,
            "cool": CoolForSequenceClassification(CoolConfig(**own)),
            "cool without conv": CoolForSequenceClassification(CoolConfig(**own, use_conv=False)),
            "sla": SlaBertForSequenceClassification(SlaBertConfig(**own)),
            "oa": OaXLNetForSequenceClassification(OaXLNetConfig(**own)),
            "sam": SamRobertaForSequenceClassification(SamRobertaConfig(**own)),
        }
    return {
        name: partial(train, model.to(device).train(), given | further.get(name, {}), dtype)
        for name, model in models.items()
    }


def attention_variants(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> dict[str, Step]:
    """Return SLA's attention as a kernel and in torch code, and SDPA, over the same queries, keys and values."""
    torch.manual_seed(0)
    length, heads = sizes.lengths[-1], sizes.heads
    batch = sizes.batch(length)
    shape = (batch, heads, length, sizes.width // heads)
    states = [torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]
    gate = torch.rand(batch, length, 1, device=device, dtype=dtype, requires_grad=True)
    gradient = torch.randn(batch, length, heads, shape[-1], device=device, dtype=dtype)
    real = text_inputs(batch, length, 64, device)["attention_mask"].bool()
    tables = syntax_tables(**further_inputs(batch, length, device)["sla"]).without_padding(real)
    settings = {"scaling": shape[-1] ** -0.5, "dropout": 0.1}

    def plain(mask: torch.Tensor | None) -> torch.Tensor:
        return functional.scaled_dot_product_attention(*states, attn_mask=mask, dropout_p=0.1).transpose(1, 2)

    def torch_code() -> torch.Tensor:
        local = limited_rows(tables.rows, real)(slice(None)).unsqueeze(1)
        return gated_attention(*states, gate, real[:, None, None], local, **settings, training=True)[0]

    def step(attend: Callable[[], torch.Tensor]) -> None:
        attend().backward(gradient)
        for tensor in (*states, gate):
            tensor.grad = None

    variants = {
        "sdpa": partial(plain, real[:, None, None]),
        "sdpa without padding": partial(plain, None),
        "torch code": torch_code,
    }
    if kernels_of_sla.runs(device, dtype, shape[-1], tables):
        variants["kernel"] = lambda: kernels_of_sla.attend(*states, gate, tables, **settings)
    return {name: partial(step, attend) for name, attend in variants.items()}


def recurrent_variants(sizes: Sizes, device: torch.device) -> dict[str, Step]:
    """Return the steps of SAM's BiLSTM."""
    length = sizes.lengths[0]
    batch = sizes.batch(length)
    backbone = {"model_type": "bert", "hidden_size": sizes.width}
    config = SamRobertaConfig(backbone_config=backbone, bilstm_hidden_size=max(1, sizes.width // 3), dropout=0.0)
    encoder = RecurrentEncoder(config).to(device)
    states = torch.randn(batch, length, sizes.width, device=device)
    mask = torch.ones(batch, length, dtype=torch.bool, device=device)
    mask[::2, length * 3 // 4 :] = False

    def step(mask: torch.Tensor | None) -> None:
        encoder(states, mask).sum().backward()
        encoder.zero_grad(set_to_none=True)

    return {"padded": partial(step, None), "packed": partial(step, mask)}


def pipeline_variants(sizes: Sizes, device: torch.device) -> dict[str, Step]:
    """Return pipelines that answer questions with untrained models."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone())
    fields = {**sizes.backbones["bert"], "vocab_size": len(tokenizer)}
    fields.setdefault("model_type", "bert")
    models = {
        "backbone": AutoModelForQuestionAnswering.from_config(AutoConfig.for_model(**fields)),
        "cool": CoolForQuestionAnswering(CoolConfig(backbone_config=fields)),
    }
    questions = [
        {"question": f"Who is number {n}?", "context": "Ada lives here . " * 50} for n in range(sizes.questions)
    ]
    pipelines = {
        name: QuestionAnsweringPipeline(model=model.eval(), tokenizer=tokenizer, device=device, batch_size=32)
        for name, model in models.items()
    }
    return {name: partial(pipeline, questions, max_seq_len=128) for name, pipeline in pipelines.items()}


@cache
def check_outlook(device: torch.device) -> None:
    """Compare kernel and definition for all dtypes: values and gradients, at an odd length with padding."""
    mask = torch.ones(2, 17, dtype=torch.bool, device=device)
    mask[0, :2] = mask[1, 11:] = False
    for dtype in DTYPES:
        values, scores, gradient = outlook_inputs(2, 17, 40, dtype, device)
        exact = [tensor.detach().double().requires_grad_() for tensor in (values, scores)]
        with kernels("1"):
            found = outlook_attention(values, scores, mask)[0]
            found = [found, *torch.autograd.grad(found, (values, scores), gradient)]
        expected = outlook_attention(*exact, mask, return_weights=True)[0]
        expected = [expected, *torch.autograd.grad(expected, exact, gradient.double())]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@cache
def check_sla(device: torch.device) -> None:
    """Compare a layer of SLA with and without kernels: states and gradients of its weights."""
    torch.manual_seed(0)
    model = SlaBertModel(SlaBertConfig(backbone_config={"model_type": "bert", **TINY_BACKBONE})).to(device).eval()
    given = text_inputs(2, 17, 64, device) | further_inputs(2, 17, device)["sla"]
    del given["labels"]
    found = []
    for switch in "10":
        model.zero_grad()
        with kernels(switch):
            states = model(**given).last_hidden_state
        (states * given["attention_mask"][..., None]).square().sum().backward()
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        found.append([states * given["attention_mask"][..., None], *gradients])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)


def check_all(device: torch.device) -> None:
    """Check all kernels, once for each device."""
    check_outlook(device)
    check_sla(device)
