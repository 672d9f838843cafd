"""Base class of headless models with layers on top of an encoder, and the states that these layers read.

Shapes: B batch, L tokens, H width of the encoder, K layers of the encoder that are read.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple

from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalModelOutput, check_inputs


class LayerMix(nn.Module):
    """Mix of the states of several layers with trained weights, `scale * sum_k softmax(layer_scores)_k norm(h_k)`.

    The states of each token and layer are normalized to mean 0 and variance 1. The weights start equal.

    Source: Deep contextualized word representations (Peters et al., 2018), section 3.2, equation 1.
    """

    def __init__(self, num_layers: int):
        super().__init__()
        self.layer_scores = nn.Parameter(torch.empty(num_layers))
        self.scale = nn.Parameter(torch.empty(1))

    def initialize(self) -> None:
        """Start with the mean of the normalized layers."""
        init.zeros_(self.layer_scores)
        init.ones_(self.scale)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map concatenated states (B, L, K * H) to (B, L, H)."""
        layers = states.unflatten(-1, (len(self.layer_scores), -1))
        layers = functional.layer_norm(layers, layers.shape[-1:])
        weights = self.layer_scores.softmax(0).to(layers.dtype)
        return self.scale * (weights @ layers)


class EncoderStates(LocalAttentionPreTrainedModel):
    """Base class of models whose layers read the states of an encoder that `encoder_states` selects."""

    selects_encoder_states = True

    def add_backbone(self) -> None:
        super().add_backbone()
        self.layer_mix = LayerMix(self.config.num_encoder_states) if self.config.encoder_states == "mix" else None

    def read_encoder(
        self, run: Callable[..., Any], output_hidden_states: Any = False, **inputs: Any
    ) -> BaseModelOutput:
        """Run an encoder. `last_hidden_state` (B, L, K * H) has the states that are read, of K layers concatenated."""
        chosen = self.config.encoder_state_indices()
        outputs = run(output_hidden_states=output_hidden_states if chosen is None else True, **inputs)
        states = outputs.last_hidden_state
        if chosen is not None:
            every = outputs.hidden_states or ()
            if [layer.shape for layer in every] != [states.shape] * self.config.num_encoder_states:
                raise ValueError(
                    f"The backbone {self.config.backbone_config.model_type!r} does not return the states of each of"
                    " its layers: set `encoder_states` to 'last'."
                )
            every = (*every[:-1], states)  # XLNet applies dropout only to the latter
            states = torch.cat([every[index] for index in chosen], dim=-1)
        return BaseModelOutput(
            last_hidden_state=states,
            hidden_states=outputs.hidden_states if output_hidden_states else None,
            attentions=outputs.attentions,
        )

    def mix_states(self, states: torch.Tensor) -> torch.Tensor:
        """Return the input of the layers from states (B, L, K * H): these states, or their mix (B, L, H)."""
        return states if self.layer_mix is None else self.layer_mix(states)


class ModelOnEncoder(EncoderStates):
    """Base class of headless models with layers on top of an encoder.

    A family builds its layers in `__init__`, after `add_backbone`, and runs them in `forward_layers`.
    """

    def start_layers(
        self, inputs: dict[str, Any], mask: torch.Tensor | None, output_attentions: bool, **further: Any
    ) -> dict[str, Any]:
        """Check the inputs, and return what `forward_layers` gets in addition. Called before the encoder runs.

        Args:
            inputs: The arguments of `forward_backbone`, which may be changed here. Either `input_ids` (B, L) or
                `inputs_embeds` (B, L, E) is not None.
            mask: (B, L), True at tokens and False at padding. If None, all are tokens.
            output_attentions: True if attention weights are to be returned.
            **further: The inputs that `token_inputs` names, each None or a tensor.
        """
        return further

    def forward_layers(
        self, states: torch.Tensor, mask: torch.Tensor | None, output_attentions: bool, **started: Any
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Map the encoder's states (B, L, F) to those of the model, and return further fields of `LocalModelOutput`.

        Args:
            states: (B, L, F), where F is `config.encoder_size`.
            mask: (B, L), True at tokens and False at padding. If None, all are tokens.
            output_attentions: True if attention weights are to be returned.
            **started: The result of `start_layers`.
        """
        raise NotImplementedError

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        **kwargs: Any,
    ) -> LocalModelOutput:
        """Compute the hidden states of all tokens, (B, L, output size).

        The inputs are those of the heads, each (B, L); either `input_ids` or `inputs_embeds` (B, L, E) is required.
        With `encoder_outputs`, a result of `read_encoder`, the encoder does not run.
        """
        self.resolve_output_flags(kwargs)
        check_inputs(input_ids, inputs_embeds, attention_mask)
        mask = None if attention_mask is None else attention_mask != 0
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
        }
        further = {name: kwargs.pop(name, None) for name in self.token_inputs}
        wants_attentions = kwargs["output_attentions"]
        started = self.start_layers(inputs, mask, wants_attentions, **further)
        outputs = encoder_outputs or self.read_encoder(self.forward_backbone, **inputs, **kwargs)
        states = self.mix_states(outputs.last_hidden_state)
        mask = None if mask is None else mask.to(states.device)
        states, more = self.forward_layers(states, mask, wants_attentions, **started)
        return LocalModelOutput(
            last_hidden_state=states, hidden_states=outputs.hidden_states, attentions=outputs.attentions, **more
        )
