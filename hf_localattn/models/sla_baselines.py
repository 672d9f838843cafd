"""Models with a baseline of syntax-aware local attention: SG-Net or LISA.

Source: Improving BERT with Syntax-aware Local Attention (Li et al.), section 4.1. Each class cites its own paper.

Shapes: B batch, L tokens, D width of a head.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers import initialization as init

from .configuration_sla_bert import SlaBertConfig
from .modeling_sla_bert import *  # noqa: F403  # hands on the models
from .modeling_sla_bert import SYNTAX_LAYERS, SyntaxLayers
from .sla_masks import first_tokens, heads_of, limited_rows, without_open_keys
from .sla_self_attention import LocalAttentionRecord, prepared_mask, replace_class, self_attentions


def ancestor_mask(word_index: torch.Tensor, dep_heads: torch.Tensor, *, max_length: int | None = None) -> torch.Tensor:
    """Let tokens attend to their own word and its ancestors up to the root (SG-Net).

    The mask (B, L, L), [query, key], is boolean. Tokens of the other segment are not allowed. Inputs are as in
    sla_masks.py. `max_length`, by default L, is an upper bound for the depth of trees.
    """
    word_index, is_open_key = without_open_keys(word_index)
    first = first_tokens(word_index)
    heads = heads_of(word_index, dep_heads, first)
    seen = first.unsqueeze(2) == first.unsqueeze(1)
    # Each round doubles the number of ancestors: it adds those of the highest ancestor found so far.
    for _ in range(((max_length or word_index.shape[-1]) - 1).bit_length()):
        seen = seen | seen.gather(1, heads.unsqueeze(2).expand_as(seen))
        heads = heads.gather(-1, heads)
    return seen | (word_index < 0).unsqueeze(2) | ((word_index < 0) | is_open_key).unsqueeze(1)


class SyntaxGuidedLayer(SyntaxLayers):
    """One or more encoder layers with masked attention, whose output is mixed with their input.

    The weights of the mixture are a softmax over two learned numbers, initially equal.

    Source: SG-Net (Zhang et al., 2020).
    """

    def __init__(self, backbone: PreTrainedModel, config: SlaBertConfig):
        super().__init__(backbone, config)
        self.backbone_config = backbone.config
        below = backbone.encoder.layer
        layer_class = type(below[0])
        indices = range(len(below), len(below) + config.num_sgnet_layers)
        layers = [layer_class(backbone.config, layer_idx=index) for index in indices]
        replace_class([layer.attention.self for layer in layers])
        self.layer = layers[0]
        self.further_layers = nn.ModuleList(layers[1:])
        self.mixture = nn.Parameter(torch.zeros(2))

    def initialize(self) -> None:
        init.zeros_(self.mixture)

    def start(
        self, structure: dict[str, torch.Tensor], tokens: torch.Tensor | None
    ) -> tuple[LocalAttentionRecord, dict[str, Any]]:
        """Compute the mask of the layers. The encoder below runs its own code."""
        seen = ancestor_mask(**structure, max_length=self.backbone_config.max_position_embeddings)
        allowed = limited_rows(lambda rows: seen[:, rows], tokens)(slice(None))
        return LocalAttentionRecord(mask=prepared_mask(allowed, self.backbone_config, self.mixture.dtype)), {}

    def forward(self, states: torch.Tensor, record: LocalAttentionRecord) -> tuple[torch.Tensor, None]:
        """Map states (B, L, H) to states (B, L, H)."""
        guided = states
        for layer in (self.layer, *self.further_layers):
            guided = layer(guided, record.mask, record=record)
        of_encoder, of_syntax = self.mixture.softmax(0)
        return of_encoder * states + of_syntax * guided, None


class ParentSupervision(SyntaxLayers):
    """Loss that trains the last head of each layer to attend to the syntactic parent. It has no weights.

    Source: LISA (Strubell et al., 2018).
    """

    def __init__(self, backbone: PreTrainedModel, config: SlaBertConfig):
        super().__init__(backbone, config)
        self.config = config
        attentions = self_attentions(backbone)
        replace_class([attentions[layer] for layer in config.sla_layer_indices])

    def start(
        self, structure: dict[str, torch.Tensor], tokens: torch.Tensor | None
    ) -> tuple[LocalAttentionRecord, dict[str, Any]]:
        """Return a record that supervises the layers; without `dep_heads` they run the encoder's own code."""
        if "dep_heads" not in structure:
            if self.training:
                raise ValueError(
                    "`local_attention='lisa'` needs `dep_heads` in training. SlaBertTokenizer returns them if it has "
                    "a `parser`."
                )
            return LocalAttentionRecord(), {}
        record = SupervisedRecord(structure["dep_heads"], tokens)
        return record, {"record": record}

    def forward(self, states: torch.Tensor, record: LocalAttentionRecord) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the states as they are, and the weighted mean of the losses of all layers."""
        if not isinstance(record, SupervisedRecord):
            return states, None
        if states.requires_grad and not record.losses[0].requires_grad:
            raise ValueError(
                "`local_attention='lisa'` computes its loss inside the layers, which reentrant gradient checkpointing "
                "runs without gradients: set `use_reentrant=False`."
            )
        return states, self.config.lisa_loss_weight * torch.stack(record.losses).mean()


class SupervisedRecord(LocalAttentionRecord):
    """Record of the losses of layers, with the position (B, L) that each token should attend to; -1 is ignored."""

    def __init__(self, parents: torch.Tensor, tokens: torch.Tensor | None):
        super().__init__()
        self.parents = parents
        self.tokens = tokens
        self.losses: list[torch.Tensor] = []

    def see(self, query: torch.Tensor, key: torch.Tensor, scaling: float) -> None:
        """Add the loss of a layer, from its queries and keys (B, heads, L, D)."""
        self.losses.append(parent_loss(query[:, -1], key[:, -1], self.tokens, self.parents, scaling=scaling))


def parent_loss(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, parents: torch.Tensor, *, scaling: float
) -> torch.Tensor:
    """Compute the cross-entropy between one head's attention and the tokens that it should attend to (LISA).

    Args:
        query: (B, L, D), of the head.
        key: (B, L, D), of the head.
        mask: (B, L), True at tokens that can be attended to. If None, all tokens can.
        parents: (B, L), the position that each token should attend to; -1 is ignored.
        scaling: Factor of the scores, D ** -0.5.

    Returns:
        The mean over tokens, a scalar; 0 if all tokens are ignored.
    """
    scores = torch.matmul(query, key.transpose(1, 2)) * scaling
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(1), torch.finfo(scores.dtype).min)
        # Masked parents are ignored: their loss would be huge, and they cannot be learned.
        visible = mask.gather(-1, parents.clamp(0, mask.shape[-1] - 1))
        parents = parents.masked_fill(~visible | (parents >= mask.shape[-1]), -1)
    # At least in single precision, like the losses of the tasks.
    scores = scores.flatten(0, 1).to(torch.promote_types(scores.dtype, torch.float32))
    losses = functional.cross_entropy(scores, parents.flatten(), ignore_index=-1, reduction="sum")
    return losses / (parents >= 0).sum().clamp(min=1)


SYNTAX_LAYERS |= {"sgnet": SyntaxGuidedLayer, "lisa": ParentSupervision}
