"""Running the backbone inside a model, and the features that heads read of it."""

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
        local_attentions: one tensor per local layer that has weights, with `output_attentions=True`.
        gates: how much of each token's attention is local, (B, L) for each layer that mixes both, likewise.
        feature_attention: how much each feature of a text counts, (B, D), likewise.
        token_attention: how much each token of a text counts, (B, L), likewise.
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
        pooler_output: (B, H), where the family keeps the backbone's pooler.
        hidden_states, attentions: the backbone's, with `output_hidden_states` / `output_attentions`.
        local_loss: what the local layers add to the loss of a task.
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
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Run the backbone so that padding on either side changes nothing."""
        states = check_inputs(input_ids, inputs_embeds, attention_mask)
        if position_ids is None:
            check_length(states.shape[1], self.most_tokens, self.config.backbone_config.model_type)
        self._check_values(input_ids, inputs_embeds, token_type_ids, position_ids)
        if attention_mask is not None:
            attention_mask = (attention_mask != 0).long()  # XLNet calculates with it
            if position_ids is None and self.sets_position_ids:
                position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0) + self.first_position
        if token_type_ids is None and self.config.backbone_config.model_type == "xlnet":
            # Without them XLNet skips its segment embeddings, which then get no gradient.
            token_type_ids = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)
        if self.takes_position_ids and position_ids is not None:
            kwargs["position_ids"] = position_ids
        if self.takes_token_type_ids and token_type_ids is not None:
            kwargs["token_type_ids"] = token_type_ids
        asked_for = kwargs["output_hidden_states"]
        outputs = self.backbone(
            input_ids=input_ids,
            attention_mask=attention_mask,
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
        """Raise `ValueError` for what the backbone has no embeddings for; see `input_checks`."""
        given = input_ids if inputs_embeds is None else inputs_embeds
        assert given is not None
        if input_ids is not None:
            self._check_ids(input_ids)
        else:
            width = getattr(self.get_input_embeddings(), "embedding_dim", given.shape[-1])
            if given.shape[-1] != width:
                raise ValueError(f"`inputs_embeds` are {given.shape[-1]} wide; those of the model are {width}.")
        shape = given.shape[:2]
        for name, value in (("token_type", token_type_ids), ("position", position_ids)):
            if value is not None:
                table = getattr(getattr(self.backbone, "embeddings", None), f"{name}_embeddings", None)
                check_numbers(
                    f"{name}_ids", value, shape, rows=getattr(table, "num_embeddings", None), one_for_all=True
                )

    def _check_ids(self, input_ids: torch.Tensor) -> None:
        """Raise `ValueError` for tokens without embeddings, where looking at them does not hold up a device."""
        if not can_look_at(input_ids):
            return
        last, rows = int(input_ids.max()), self.config.vocab_size
        if last >= rows:
            raise ValueError(
                f"`input_ids` has the token {last}, but there are embeddings for {rows} tokens: the tokenizer belongs "
                "to another model, or has new tokens. For these call `model.resize_token_embeddings(len(tokenizer))`."
            )
        if (first := int(input_ids.min())) < 0:
            raise ValueError(f"`input_ids` has {first}; tokens are counted from 0.")

    def run_base_model(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        **kwargs: Any,
    ) -> LocalModelOutput:
        """Run the headless model below a head; `return_dict` is the head's own business."""
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
        """Pick the token that stands for its sequence: the first real one, in XLNet the last: (B, L, F) to (B, F)."""
        is_last = self.config.backbone_config.model_type == "xlnet"
        if attention_mask is None:
            return states[:, -1 if is_last else 0]
        mask = (attention_mask != 0).to(states.device, torch.int64)
        position = states.shape[1] - 1 - mask.flip(-1).argmax(-1) if is_last else mask.argmax(-1)
        return states[torch.arange(states.shape[0], device=states.device), position]

    def sequence_features(self, outputs: LocalModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Return the vector of each sequence that heads read: (B, F)."""
        return self.classification_token(outputs.last_hidden_state, attention_mask)

    def training_loss(
        self, loss: torch.Tensor, outputs: LocalModelOutput, share: torch.Tensor | float = 1.0
    ) -> torch.Tensor:
        """Add to a task's loss what the local layers have to say.

        Args:
            loss: the task's.
            outputs: the headless model's.
            share: this batch's part of all batches over which a trainer adds up.
        """
        return loss if outputs.local_loss is None else loss + share * outputs.local_loss

    def resolve_output_flags(self, kwargs: dict[str, Any]) -> None:
        """Write into the arguments of a `forward` which outputs the caller, or else the configuration, asks for."""
        for output in ("output_attentions", "output_hidden_states"):
            if kwargs.get(output) is None:
                kwargs[output] = getattr(self.config, output)
        kwargs["output_attentions"] = bool(kwargs["output_attentions"])


def check_inputs(
    input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor:
    """Return the one of `input_ids` (B, L) and `inputs_embeds` (B, L, E) that is given.

    Raises:
        ValueError: none or both are, or a shape is wrong.
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
        raise ValueError(f"`{name}` has no tokens, not even special ones: give at least one in each row.")
    if inputs_embeds is None and states.dtype not in WHOLE:
        raise ValueError(f"`input_ids` are of {states.dtype}; they must be of torch.int64.")
    if inputs_embeds is not None and not states.is_floating_point():
        raise ValueError(f"`inputs_embeds` are of {states.dtype}; they must be floating-point numbers.")
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
    """Raise `ValueError` for more tokens than a backbone has positions for, but not in compiled or exported code."""
    if most is not None and not torch.compiler.is_compiling() and length > most:
        raise ValueError(
            f"The input has {length} tokens in a row, but the backbone {model_type!r} has positions for {most}: cut "
            f"it, with `truncation=True, max_length={most}` in the call of the tokenizer."
        )


def selected_states(
    hidden_states: tuple[torch.Tensor, ...] | None, asked_for: bool | int | Sequence[int] | None
) -> tuple[torch.Tensor | None, ...] | None:
    """Keep those of all hidden states that `output_hidden_states` asks for.

    It is true or false, or the indices of the wanted states, which may count from the end. Backbones are always asked
    for all: the older ones, such as XLNet, know no indices, and what these mean has changed from version to version.

    Returns:
        As many states as there were, `None` where one was not asked for.
    """
    if hidden_states is None or asked_for is None or isinstance(asked_for, bool):
        return hidden_states
    count, indices = len(hidden_states), [asked_for] if isinstance(asked_for, int) else asked_for
    kept = {index % count for index in indices if -count <= index < count}
    return tuple(states if place in kept else None for place, states in enumerate(hidden_states))
