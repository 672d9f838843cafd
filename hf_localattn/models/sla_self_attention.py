"""Local attention inside the layers of a pretrained encoder, without changes to the encoder's code.

Encoders built like BERT pass additional keyword arguments on to their self-attention modules. The class of each of
these modules is replaced by a subclass that reads the arguments of local attention. Weights, their names and the
configuration do not change. Without these arguments the encoder's own code runs.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .configuration_local_attention import LocalAttentionConfig
from .sla_attention import DistanceSlope, LocalGate, gated_attention, interpolate
from .sla_masks import MaskTables
from .sla_row_blocks import attend_by_blocks

IMPLEMENTATIONS = ("eager", "sdpa", "flex_attention")


@dataclass
class LocalAttentionRecord:
    """Gates and local attention weights of one forward pass, one of each per layer."""

    gates: list[torch.Tensor] = field(default_factory=list)  # each (B, L)
    local_attentions: list[torch.Tensor] = field(default_factory=list)  # each (B, heads, L, L), if eager
    mask: Any = None  # of layers without a gate whose only mask is local

    def see(self, query: torch.Tensor, key: torch.Tensor, scaling: float) -> None:
        """Look at the queries and keys (B, heads, L, D) of a layer. A baseline supervises them."""


def self_attentions(backbone: PreTrainedModel) -> list[Any]:
    """Return the self-attention modules of an encoder, one per layer. Raise `ValueError` if it is not like BERT."""
    layers = getattr(getattr(backbone, "encoder", None), "layer", ())
    attentions: list[Any] = [getattr(getattr(layer, "attention", None), "self", None) for layer in layers]
    has_interface = hasattr(sys.modules[type(backbone).__module__], "ALL_ATTENTION_FUNCTIONS")
    is_like_bert = attentions and all(_is_like_berts(module, backbone.config.hidden_size) for module in attentions)
    if not has_interface or not is_like_bert:
        raise ValueError(
            f"The backbone {backbone.config.model_type!r} cannot have local attention inside its layers: its "
            "self-attention does not go through transformers' attention interface as BERT's does. Use bert, roberta "
            "or electra, or one that is built like them, such as xlm-roberta."
        )
    return attentions


def _is_like_berts(module: Any, width: int) -> bool:
    """Return True if a self-attention has the submodules of BERT's, and no others, for states of a width."""
    parts = dict(module.named_children()) if isinstance(module, nn.Module) else {}
    return (
        parts.keys() == {"query", "key", "value", "dropout"}
        and not dict(module.named_parameters(recurse=False))
        and all(hasattr(module, name) for name in ("config", "attention_head_size", "scaling"))
        and bool(module.query.in_features == width)
    )


def replace_class(modules: Iterable[Any]) -> None:
    """Replace the class of self-attention modules; they behave as before without the arguments of local attention.

    Replacing the class, and not the module, keeps weights and their names, hooks and references to the module.
    """
    for module in modules:
        module.__class__ = subclass_of(module.__class__)


def prepared_mask(allowed: torch.Tensor, config: PreTrainedConfig, dtype: torch.dtype) -> Any:
    """Convert a boolean mask (B, L, L), [query, key], to the form that the backbone's attention implementation needs.

    That is a boolean mask (B, 1, L, L) for "sdpa", one that is added to the scores for "eager", and a `BlockMask` for
    "flex_attention". For the first two a mask may have one row (B, 1, L) for all queries.
    """
    implementation = config._attn_implementation
    if implementation == "sdpa":
        return allowed.unsqueeze(1)
    if implementation == "eager":
        lowest = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=allowed.device)
        return torch.where(allowed.unsqueeze(1), torch.zeros_like(lowest), lowest)
    batch, length, _ = allowed.shape
    return ALL_MASK_ATTENTION_FUNCTIONS[check_implementation(implementation)](
        batch_size=batch,
        q_length=length,
        kv_length=length,
        mask_function=lambda row, head, query, key: allowed[row, query, key],
        device=allowed.device,
        config=config,
    )


def check_implementation(implementation: str) -> str:
    """Return an attention implementation. Raise `ValueError` for one that would drop the local mask."""
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f'Specified `attn_implementation="{implementation}"` is not supported with local attention. (Flash '
            "attention has no masks of single tokens and would silently ignore the local one.) Use one of "
            f"{', '.join(map(repr, IMPLEMENTATIONS))}, or `local_attention='none'`."
        )
    return implementation


def is_in_kernel(backbone: PreTrainedModel, tables: MaskTables) -> bool:
    """Return True if the gated layers of a backbone run Triton kernels."""
    kernel = LocalAttentionConfig.installed.kernel("sla_attention")
    if kernel is None or backbone.config._attn_implementation not in ("eager", "sdpa"):
        return False
    device = tables.segments.device
    dtype = backbone.dtype
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    width = backbone.config.hidden_size // backbone.config.num_attention_heads
    return kernel.runs(device, dtype, width, tables)


class LocalSelfAttention(nn.Module):
    """Self-attention of an encoder like BERT with local attention; `subclass_of` adds the encoder's class."""

    stock_class: ClassVar[type[nn.Module]]
    """The encoder's self-attention class, which sets the following attributes."""

    config: PreTrainedConfig
    query: nn.Module
    key: nn.Module
    value: nn.Module
    dropout: nn.Dropout
    gate: LocalGate
    slope: DistanceSlope
    attention_head_size: int
    scaling: float

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Any = None,
        *,
        record: LocalAttentionRecord | None = None,
        local_mask: Any = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Map states (B, L, H) to states and, with eager attention, to the attention weights (B, heads, L, L).

        `record` is filled with gates and local weights; without it the encoder's own code runs. With `local_mask` the
        gate mixes local and global attention. It is a mask from `prepared_mask`; or a function that computes rows of
        the mask, for attention by blocks of rows; or the tables of the mask, for a Triton kernel. The last two return
        no weights.
        """
        if record is None:
            return super().forward(hidden_states, attention_mask, **kwargs)
        shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        query, key, value = (
            project(hidden_states).view(shape).transpose(1, 2) for project in (self.query, self.key, self.value)
        )
        record.see(query, key, self.scaling)
        gate: Any = None if local_mask is None else self.gate(hidden_states).sigmoid()
        if gate is not None:
            record.gates.append(gate.squeeze(-1))
        if hasattr(self, "slope"):
            local_mask = self.slope(local_mask, query.dtype)
        weights = None
        if isinstance(local_mask, MaskTables):
            dropout = self.dropout.p if self.training else 0.0
            attend_in_kernel = LocalAttentionConfig.installed.kernel("sla_attention").attend
            output = attend_in_kernel(query, key, value, gate, local_mask, scaling=self.scaling, dropout=dropout)
        elif callable(local_mask):
            output = attend_by_blocks(
                lambda *states: self._attend(*states, **kwargs)[0],
                query,
                key,
                value,
                gate,
                attention_mask,
                local_mask,
            )
        else:
            output, weights, local = self._attend(query, key, value, gate, attention_mask, local_mask, **kwargs)
            local = local if record.mask is None else weights
            if local is not None:
                record.local_attentions.append(local)
        return output.reshape(*hidden_states.shape[:-1], -1).contiguous(), weights

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        gate: torch.Tensor | None,
        mask: Any,
        local_mask: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Compute attention by the configuration's implementation, with results as of `gated_attention`.

        Weights are None except with eager attention.
        """
        implementation = check_implementation(self.config._attn_implementation)
        settings: dict[str, Any] = {"scaling": self.scaling, "dropout": self.dropout.p if self.training else 0.0}
        # With dropout, SDPA falls back to plain matrix products on the CPU. Here scores are computed once for both.
        has_dropout_on_cpu = settings["dropout"] > 0 and query.device.type == "cpu"
        falls_back = implementation == "sdpa" and gate is not None and has_dropout_on_cpu
        if implementation == "eager" or falls_back:
            settings["training"] = self.training
            output, weights, local = gated_attention(query, key, value, gate, mask, local_mask, **settings)
            return (output, None, None) if falls_back else (output, weights, local)
        run = ALL_ATTENTION_FUNCTIONS[implementation]
        output = run(self, query, key, value, mask, **settings, **kwargs)[0]
        if gate is not None:
            local_output = run(self, query, key, value, local_mask, **settings, **kwargs)[0]
            output = interpolate(output, local_output, gate.unsqueeze(-1))
        return output, None, None

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle the encoder's class; unpickling creates this class again."""
        return _new_instance, (self.stock_class,), self.__dict__


@cache
def subclass_of(stock_class: Any) -> Any:
    """Return the local subclass of an encoder's self-attention class."""
    bases = (LocalSelfAttention, stock_class)
    return type(f"Local{stock_class.__name__}", bases, {"stock_class": stock_class})


def _new_instance(stock_class: Any) -> Any:
    made = subclass_of(stock_class)
    return made.__new__(made)
