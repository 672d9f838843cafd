"""Test the capabilities of each family on each tested backbone, and write the table of docs/backbones.md.

`python -m scripts.capabilities [FAMILY ...]` takes minutes, because models are compiled. If families are given, the
rows of other families are kept. A cell is "yes" if a tiny model runs with this capability and returns the same as
without it. The backbone is also tested by itself: "backbone only" if the backbone passes and the family fails.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel
from transformers.utils import logging as transformers_logging

from hf_localattn.families import FAMILIES
from tests.models.tiny import adapted, tiny_model, token_ids

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "backbones.md"
BEGIN, END = "<!-- written by scripts/capabilities.py -->", "<!-- end -->"

MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4])
INPUTS = {"input_ids": token_ids(2, 11) * MASK + (1 - MASK), "attention_mask": MASK}


def inputs_of(model: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Add the family's additional inputs, if the model needs any."""
    return adapted(model, **inputs) if hasattr(model, "token_inputs") else inputs


def states(model: Any, inputs: dict[str, torch.Tensor] = INPUTS) -> torch.Tensor:
    """Return the last hidden states (B, L, F)."""
    return model(**inputs_of(model, inputs)).last_hidden_state


def gradients(model: Any) -> list[torch.Tensor]:
    """Return all gradients of an arbitrary loss."""
    model.train().zero_grad(set_to_none=True)
    states(model).square().mean().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def same(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> bool:
    """Return True if states are equal at all tokens but padding."""
    actual, expected = actual.float()[MASK.bool()], expected.float()[MASK.bool()]
    return bool(torch.allclose(actual, expected, rtol=tolerance, atol=tolerance))


def attention(name: str) -> Callable[[Any], bool]:
    """Return a test: an attention implementation is used, and equals eager attention."""

    def check(model: Any) -> bool:
        model.set_attn_implementation("eager")
        expected = states(model)
        model.set_attn_implementation(name)
        inner = getattr(model, "backbone", model)
        with torch.no_grad():  # flex has no backward on a CPU
            return inner.config._attn_implementation == name and same(states(model), expected)

    return check


def checkpointing(model: Any) -> bool:
    """Test that gradient checkpointing can be switched on and changes no gradient."""
    expected = gradients(model)
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    pairs = zip(gradients(model), expected, strict=True)
    return all(torch.allclose(one, other, rtol=1e-5, atol=1e-6) for one, other in pairs)


def compiled(model: Any) -> bool:
    """Test `torch.compile` into one graph."""
    torch.compiler.reset()
    run = torch.compile(model, fullgraph=True)
    return same(run(**inputs_of(model, INPUTS)).last_hidden_state, states(model))


def exported(model: Any) -> bool:
    """Test `torch.export` with dynamic batch size and length."""
    shape = {0: torch.export.Dim("batch", min=2, max=16), 1: torch.export.Dim("length", min=2, max=40)}
    inputs = inputs_of(model, INPUTS)
    program = torch.export.export(model, (), inputs, dynamic_shapes=dict.fromkeys(inputs, shape))
    others = inputs_of(model, {"input_ids": token_ids(3, 6), "attention_mask": torch.ones(3, 6, dtype=torch.long)})
    return bool(torch.allclose(states(program.module(), others), states(model, others), rtol=1e-5, atol=1e-5))


def in_bfloat16(model: Any) -> bool:
    """Test all weights and states in bfloat16."""
    expected = states(model)
    return same(states(model.to(torch.bfloat16)), expected, tolerance=0.1)


CAPABILITIES: dict[str, Callable[[Any], bool]] = {
    "SDPA": attention("sdpa"),
    "flex": attention("flex_attention"),
    "checkpointing": checkpointing,
    "compile": compiled,
    "export": exported,
    "bf16": in_bfloat16,
}


def subject(family: str, backbone: str, capability: str) -> Any:
    """Return the model to test: the family's default, or, to compile, a setting that can be one graph."""
    return tiny_model(family, backbone=backbone, **FAMILIES[family].facts.traceable if capability == "compile" else {})


def can(check: Callable[[Any], bool], model: Any) -> bool:
    """Return True if a model passes a test. Any exception means that it fails."""
    try:
        return check(model)
    except Exception as error:
        print(f"    {type(error).__name__}: {' '.join(str(error).split())[:150]}", file=sys.stderr)
        return False


def measure(family: str, backbone: str) -> list[str]:
    """Return the cells of one row of the table."""
    cells = []
    for name, check in CAPABILITIES.items():
        print(f"{family} on {backbone}: {name}", file=sys.stderr, flush=True)
        alone = can(check, AutoModel.from_config(tiny_model(family, backbone=backbone).config.backbone_config).eval())
        ours = can(check, subject(family, backbone, name))
        cells.append("yes" if ours else "backbone only" if alone else "no")
    return cells


def table(families: Sequence[str], known: str) -> str:
    """Return the table in Markdown: measured rows of these families, and known rows of the others."""
    lines = [f"| backbone | {' | '.join(CAPABILITIES)} |", "|---" * (1 + len(CAPABILITIES)) + "|"]
    for family, classes in FAMILIES.items():
        if family not in families:
            lines += [line for line in known.splitlines() if line.startswith(f"| `{family}` on ")]
            continue
        for backbone in classes.config.tested_backbones:
            lines.append(f"| `{family}` on {backbone} | {' | '.join(measure(family, backbone))} |")
    return "\n".join(lines)


def main() -> None:
    """Test, and replace the table."""
    families = sys.argv[1:] or list(FAMILIES)
    if unknown := set(families) - set(FAMILIES):
        sys.exit(f"There is no family {', '.join(sorted(unknown))}: choose from {', '.join(FAMILIES)}.")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers_logging.set_verbosity_error()
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", flags=re.DOTALL)
    written = table(families, pattern.findall(PAGE.read_text())[0])
    PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n{written}\n{END}", PAGE.read_text()))  # edited meanwhile, maybe


if __name__ == "__main__":
    main()
