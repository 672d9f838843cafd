"""Local attention inside the layers of a pretrained encoder, whose code stays as it is.

The self-attention of transformers' encoders calls an attention function that its configuration names, with whatever
keyword arguments the encoder was given. So the functions here have names of their own, a self-attention is shown a
configuration that names them, and a hook adds the gate, which is a child of its self-attention.

The names hold this module's: two versions of a checkpoint's code in one process keep their own functions. The hook
finds its gate through the module it is called for: a closure would still point at the old one after a `deepcopy`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel

from .syntax_attention import LocalGate, gated_attention, mix, parent_loss

IMPLEMENTATIONS = ("eager", "sdpa", "flex_attention")


@dataclass
class LocalAttentionRecord:
    """What the local attention of one call of an encoder leaves behind, layer by layer.

    Args:
        gates: (B, L) each.
        local_attentions: (B, heads, L, L) each, in eager mode alone.
        parent_losses: scalars.
    """

    gates: list[torch.Tensor] = field(default_factory=list)
    local_attentions: list[torch.Tensor] = field(default_factory=list)
    parent_losses: list[torch.Tensor] = field(default_factory=list)


def check_interface(backbone_class: type[PreTrainedModel], model_type: str) -> None:
    """Raise `ValueError` for a kind of encoder that does not let its configuration choose the attention function."""
    if not hasattr(sys.modules[backbone_class.__module__], "ALL_ATTENTION_FUNCTIONS"):
        _refuse(model_type)


def self_attentions(backbone: PreTrainedModel) -> list[Any]:
    """Return the self-attention modules of an encoder built as BERT is, by layer.

    Raises:
        ValueError: it is built otherwise.
    """
    layers = getattr(getattr(backbone, "encoder", None), "layer", ())
    found: list[Any] = [getattr(getattr(layer, "attention", None), "self", None) for layer in layers]
    width = backbone.config.hidden_size
    if not found or not all(hasattr(module, "config") and module.query.in_features == width for module in found):
        _refuse(backbone.config.model_type)
    return found


def _refuse(model_type: str) -> NoReturn:
    raise ValueError(
        f"The backbone {model_type!r} cannot have local attention inside its layers: its self-attention does not go "
        "through transformers' attention interface as BERT's does. Use bert, roberta or electra, or one that is built "
        "like them, such as xlm-roberta."
    )


def redirect(modules: Iterable[Any]) -> None:
    """Make self-attention modules call the functions of this file; without its arguments they do what they did."""
    for module in modules:
        module.config = _Redirected(module.config)


def add_gates(modules: Iterable[Any], width: int) -> None:
    """Give self-attention modules gates for their input (B, L, width)."""
    for module in modules:
        module.gate = LocalGate(width)
        module.register_forward_pre_hook(_add_gate, with_kwargs=True)


def prepared_mask(allowed: torch.Tensor, config: PreTrainedConfig, dtype: torch.dtype) -> Any:
    """Return a mask as the attention implementation of a configuration takes it.

    Args:
        allowed: (B, L, L), [query, key], True where it may attend.
        config: the backbone's.
        dtype: of the scores.
    """
    implementation = config._attn_implementation
    if implementation == "sdpa":
        return allowed.unsqueeze(1)
    if implementation == "eager":
        lowest = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=allowed.device)
        return torch.where(allowed.unsqueeze(1), torch.zeros_like(lowest), lowest)
    batch, length, _ = allowed.shape
    return AttentionMaskInterface._global_mapping[_checked(implementation)](
        batch_size=batch,
        q_length=length,
        kv_length=length,
        mask_function=lambda row, head, query, key: allowed[row, query, key],
        device=allowed.device,
        config=config,
    )


def check_implementation(implementation: str | None) -> None:
    """Raise `ValueError` for an attention implementation that would drop the local mask."""
    if implementation is not None:
        _checked(implementation)


def _checked(implementation: str) -> str:
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"`attn_implementation={implementation!r}` is none that local attention knows. (Flash attention has no "
            "masks of single tokens and would silently leave it out.) Use one of "
            f"{', '.join(map(repr, IMPLEMENTATIONS))}, or `local_attention='none'`."
        )
    return implementation


class _Redirected:
    """A backbone's configuration as its self-attention sees it: with the functions of this file."""

    def __init__(self, config: PreTrainedConfig):
        self.config = config

    @property
    def _attn_implementation(self) -> str:
        return _name(_checked(self.config._attn_implementation))

    def __getattr__(self, name: str) -> Any:
        if name == "config" or name.startswith("__"):  # while it is being copied it has none yet
            raise AttributeError(name)
        return getattr(self.config, name)


def _add_gate(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if kwargs.get("local_mask") is None:  # the backbone is used without the model around it
        return args, kwargs
    states = args[0] if args else kwargs["hidden_states"]
    return args, {**kwargs, "gate": LocalGate.open(module.gate(states))}


def _name(implementation: str) -> str:
    return f"{__name__}.{implementation}"


def _local_attention(implementation: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor | None]]:
    def attend(
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Any,
        *,
        scaling: float,
        dropout: float = 0.0,
        gate: torch.Tensor | None = None,
        local_mask: Any = None,
        record: LocalAttentionRecord | None = None,
        parents: torch.Tensor | None = None,  # the `dep_heads` that the last head is taught
        token_mask: torch.Tensor | None = None,
        is_local: bool = False,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if record is not None and parents is not None:
            loss = parent_loss(query[:, -1], key[:, -1], token_mask, parents, scaling=scaling)
            record.parent_losses.append(loss)
        if record is not None and gate is not None:
            record.gates.append(gate.squeeze(-1))
        # SDPA's kernels for the CPU know no dropout and fall back to plain products, here done once instead of twice.
        falls_back = implementation == "sdpa" and gate is not None and dropout > 0 and query.device.type == "cpu"
        if implementation == "eager" or falls_back:
            settings: dict[str, Any] = {"scaling": scaling, "dropout": dropout, "training": module.training}
            output, weights, local = gated_attention(query, key, value, gate, attention_mask, local_mask, **settings)
            local = weights if is_local else local
            if record is not None and local is not None and not falls_back:
                record.local_attentions.append(local)
            return output, None if falls_back else weights
        run = AttentionInterface._global_mapping[implementation]
        masks = (attention_mask,) if gate is None else (attention_mask, local_mask)
        of_all, *local_output = (
            run(module, query, key, value, mask, scaling=scaling, dropout=dropout, **kwargs)[0] for mask in masks
        )
        return (of_all if gate is None else mix(of_all, local_output[0], gate.unsqueeze(-1))), None

    return attend


for _implementation in IMPLEMENTATIONS:
    AttentionInterface.register(_name(_implementation), _local_attention(_implementation))
