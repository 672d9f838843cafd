"""Running the backbone of a model, and the features that heads read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling

from .input_checks import WHOLE, can_look_at, check_numbers, check_tensor


@dataclass
class LocalOutputs:
    """Local-attention fields shared by all outputs.

    Args:
        local_attentions (*optional*): Attention weights of the local layers, one tensor per layer that has weights.
            Returned only with `output_attentions=True`, like all fields below.
        gates (*optional*): Share of local attention, (B, L) for each layer that mixes local and global attention.
        feature_attention (*optional*): (B, D), weights of the features of a text.
        token_attention (*optional*): (B, L), weights of the tokens of a text.
    """

    local_attentions: tuple[torch.Tensor, ...] | None = None
    gates: tuple[torch.Tensor, ...] | None = None
    feature_attention: torch.Tensor | None = None
    token_attention: torch.Tensor | None = None


@dataclass
class LocalModelOutput(LocalOutputs, BaseModelOutputWithPooling):
    """Output of a headless model.

    Args:
        last_hidden_state: (B, L, output size), after the local layers.
        pooler_output (*optional*): (B, H), if the family has a pooler.
        hidden_states (*optional*): Hidden states of the backbone, with `output_hidden_states=True`.
        attentions (*optional*): Attention weights of the backbone, with `output_attentions=True`.
        local_loss (*optional*): Loss of the local layers, a scalar that heads add to the loss of their task.
    """

    local_loss: torch.Tensor | None = None


class BackboneFeatures(PreTrainedModel):
    """Part of the base class of all models: the forward pass, and the features that heads read."""

    def forward_backbone(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        *,
        layer_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Run the backbone. Padding on either side does not change its output.

        If `layer_mask` is given, the layers get this 4D mask in place of the one that the backbone would build.
        """
        states = check_inputs(input_ids, inputs_embeds, attention_mask)
        if position_ids is None:
            check_length(states.shape[1], self.most_tokens, self.config.backbone_config.model_type)
        self._check_values(input_ids, inputs_embeds, token_type_ids, position_ids)
        if attention_mask is not None:
            attention_mask = (attention_mask != 0).long()  # XLNet cannot calculate with a boolean mask
            if position_ids is None and self.sets_position_ids:
                position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0) + self.first_position
        if token_type_ids is None and self.config.backbone_config.model_type == "xlnet":
            # XLNet skips its segment embeddings if there are no ids. They would then get no gradient.
            token_type_ids = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)
        if self.takes_position_ids and position_ids is not None:
            kwargs["position_ids"] = position_ids
        if self.takes_token_type_ids and token_type_ids is not None:
            kwargs["token_type_ids"] = token_type_ids
        asked_for = kwargs["output_hidden_states"]
        outputs = self.backbone(
            input_ids=input_ids,
            attention_mask=attention_mask if layer_mask is None else layer_mask,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **{**kwargs, "output_hidden_states": bool(asked_for)},
        )
        outputs.hidden_states = selected_states(outputs.hidden_states, asked_for)
        return outputs

    def _check_values(
        self,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        position_ids: torch.Tensor | None,
    ) -> None:
        """Raise `ValueError` for inputs without embeddings in the backbone."""
        given = input_ids if inputs_embeds is None else inputs_embeds
        assert given is not None
        if input_ids is not None:
            self._check_ids(input_ids)
        else:
            width = getattr(self.get_input_embeddings(), "embedding_dim", given.shape[-1])
            if given.shape[-1] != width:
                raise ValueError(f"`inputs_embeds` has width {given.shape[-1]}; it must be {width}, as in the model.")
        shape = given.shape[:2]
        for name, value in (("token_type", token_type_ids), ("position", position_ids)):
            if value is not None:
                table = getattr(getattr(self.backbone, "embeddings", None), f"{name}_embeddings", None)
                check_numbers(
                    f"{name}_ids", value, shape, rows=getattr(table, "num_embeddings", None), one_for_all=True
                )

    def _check_ids(self, input_ids: torch.Tensor) -> None:
        """Raise `ValueError` for token ids without embeddings. Skipped if reading them would stall a device."""
        if not can_look_at(input_ids):
            return
        last, rows = int(input_ids.max()), self.config.vocab_size
        if last >= rows:
            raise ValueError(
                f"`input_ids` has the token {last}, but there are embeddings for {rows} tokens: use the tokenizer of "
                "the model. If it has new tokens, call `model.resize_token_embeddings(len(tokenizer))`."
            )
        if (first := int(input_ids.min())) < 0:
            raise ValueError(f"`input_ids` has the token {first}; ids of tokens must be at least 0.")

    def run_base_model(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        **kwargs: Any,
    ) -> LocalModelOutput:
        """Run the headless model below a head. It always returns an output object."""
        kwargs["return_dict"] = True
        return self.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )

    def classification_token(self, states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Return the state of the classification token (B, F): the first token without padding, the last in XLNet."""
        is_last = self.config.backbone_config.model_type == "xlnet"
        if attention_mask is None:
            return states[:, -1 if is_last else 0]
        mask = (attention_mask != 0).to(states.device, torch.int64)
        position = states.shape[1] - 1 - mask.flip(-1).argmax(-1) if is_last else mask.argmax(-1)
        return states[torch.arange(states.shape[0], device=states.device), position]

    def sequence_features(self, outputs: LocalModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Return the features of each sequence (B, F) that heads classify."""
        return self.classification_token(outputs.last_hidden_state, attention_mask)

    def training_loss(
        self, loss: torch.Tensor, outputs: LocalModelOutput, share: torch.Tensor | float = 1.0
    ) -> torch.Tensor:
        """Add the loss of the local layers, if any, to the task loss.

        Args:
            loss: Loss of the task.
            outputs: Output of the headless model.
            share (*optional*, defaults to 1.0): Weight of this batch in gradient accumulation.
        """
        return loss if outputs.local_loss is None else loss + share * outputs.local_loss

    def resolve_output_flags(self, kwargs: dict[str, Any]) -> None:
        """Set `output_attentions` and `output_hidden_states` in `kwargs`, unless given, from the configuration."""
        for output in ("output_attentions", "output_hidden_states"):
            if kwargs.get(output) is None:
                kwargs[output] = getattr(self.config, output)
        kwargs["output_attentions"] = bool(kwargs["output_attentions"])


def check_inputs(
    input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor:
    """Return the given input, either `input_ids` (B, L) or `inputs_embeds` (B, L, E).

    Raises:
        ValueError: Both or neither is given, or a shape or dtype is wrong.
    """
    given = [states for states in (input_ids, inputs_embeds) if states is not None]
    if len(given) != 1:
        raise ValueError("Give exactly one of `input_ids` and `inputs_embeds`.")
    states = given[0]
    check_tensor("input_ids" if inputs_embeds is None else "inputs_embeds", states)
    if states.dim() != (2 if inputs_embeds is None else 3):
        name, wanted = ("input_ids", "") if inputs_embeds is None else ("inputs_embeds", ", width")
        raise ValueError(f"`{name}` has shape {tuple(states.shape)}; it must be (batch, length{wanted}).")
    if 0 in states.shape[:2]:
        name = "input_ids" if inputs_embeds is None else "inputs_embeds"
        if states.shape[0] == 0:
            raise ValueError(f"`{name}` has no rows: give at least one.")
        raise ValueError(f"`{name}` has no tokens, not even special tokens: give at least one in each row.")
    if inputs_embeds is None and states.dtype not in WHOLE:
        raise ValueError(f"`input_ids` has dtype {states.dtype}; it must be torch.int64.")
    if inputs_embeds is not None and not states.is_floating_point():
        raise ValueError(f"`inputs_embeds` has dtype {states.dtype}; it must be a floating-point dtype.")
    if attention_mask is None:
        return states
    check_tensor("attention_mask", attention_mask)
    if (
        attention_mask.dim() != 2
        or attention_mask.shape[1] != states.shape[1]
        or attention_mask.shape[0] not in (1, states.shape[0])
    ):
        raise ValueError(
            f"`attention_mask` has shape {tuple(attention_mask.shape)}; local layers need (batch, length), here "
            f"{tuple(states.shape[:2])}."
        )
    return states


def check_length(length: int, most: int | None, model_type: str) -> None:
    """Raise `ValueError` for more tokens than a backbone has positions. Skipped in compiled and exported code."""
    if most is not None and not torch.compiler.is_compiling() and length > most:
        raise ValueError(
            f"The input has {length} tokens in a row, but the backbone {model_type!r} has positions for {most}: "
            f"truncate it, with `truncation=True, max_length={most}` in the call of the tokenizer."
        )


def selected_states(
    hidden_states: tuple[torch.Tensor, ...] | None, asked_for: bool | int | Sequence[int] | None
) -> tuple[torch.Tensor | None, ...] | None:
    """Select the hidden states that `output_hidden_states` asks for.

    Backbones always return all states, since some, such as XLNet, do not support indices, and the meaning of indices
    depends on the version of transformers.

    Args:
        hidden_states: All hidden states of the backbone, or None.
        asked_for: Value of `output_hidden_states`: a boolean, or one or several indices. Negative indices count from
            the end.

    Returns:
        A tuple of the same length, with None in place of states that are not selected; None if no states are.
    """
    if hidden_states is None or asked_for is None or asked_for is False:
        return None
    if asked_for is True:
        return hidden_states
    count, indices = len(hidden_states), [asked_for] if isinstance(asked_for, int) else asked_for
    kept = {index % count for index in indices if -count <= index < count}
    return tuple(states if place in kept else None for place, states in enumerate(hidden_states))
