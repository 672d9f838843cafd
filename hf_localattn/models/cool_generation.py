"""Text generation with local layers on the output of an encoder-decoder's encoder."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, GenerationMixin
from transformers.cache_utils import Cache
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from .backbone_features import LocalModelOutput, check_inputs, check_length, selected_states
from .modeling_local_attention import LocalAttentionPreTrainedModel


@dataclass
class LocalSeq2SeqLMOutput(Seq2SeqLMOutput):
    """Output of a generating model; `local_attentions`: as of a headless model."""

    local_attentions: tuple[torch.Tensor, ...] | None = None


class ConditionalGenerationHead(LocalAttentionPreTrainedModel, GenerationMixin):
    """A whole encoder-decoder whose decoder reads the encoder's states after the local layers.

    A family's class inherits from this one and, first, from the family's own base class, and names the module of its
    local layers. Loss, language-model head, cache and decoder are the backbone's own.
    """

    backbone_auto_class = AutoModelForSeq2SeqLM
    accepts_loss_kwargs = False  # the backbone's loss is a mean over the batch: a trainer has to scale it itself
    local_encoder_class: ClassVar[type[nn.Module]]
    """Built from the configuration; maps states and mask to states and the layers' weights."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_backbone()
        self.local_encoder = self.local_encoder_class(config)
        self.post_init()
        # transformers looks for special ids on the outer configuration, and misses the decoder's first.
        self.generation_config = copy.deepcopy(self.backbone.generation_config)

    def _finalize_loading(self) -> None:
        super()._finalize_loading()
        # Without a file of generation settings transformers makes them anew, from the outer configuration.
        for name, value in self.backbone.generation_config.to_dict().items():
            if getattr(self.generation_config, name, None) is None:
                setattr(self.generation_config, name, value)

    def get_encoder(self, modality: str | None = None) -> Any:
        """The encoder with the local layers on top, for `generate`."""
        return SourceEncoder(self)

    def get_decoder(self) -> nn.Module:
        """The backbone's decoder."""
        return self.backbone.get_decoder()

    def get_output_embeddings(self) -> nn.Module:
        """The backbone's language-model head."""
        return self.backbone.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Replace the backbone's language-model head."""
        self.backbone.set_output_embeddings(new_embeddings)

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Module:
        """As transformers' own; the backbone resizes what else of it is as wide as its vocabulary."""
        embeddings = self.backbone.resize_token_embeddings(*args, **kwargs)
        self.config.vocab_size = self.vocab_size = self.backbone.config.vocab_size
        return embeddings

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Shift labels (B, T) to the right: what the decoder reads in training."""
        return self.backbone.prepare_decoder_input_ids_from_labels(labels)

    def encode_source(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        **kwargs: Any,
    ) -> LocalModelOutput:
        """Run the backbone's encoder and the local layers: states (B, L, H).

        Raises:
            ValueError: not exactly one kind of input, or pads on the left (not seen by compilers and exporters).
        """
        check_inputs(input_ids, inputs_embeds, attention_mask)
        mask = None if attention_mask is None else attention_mask != 0
        if mask is not None and not torch.compiler.is_compiling() and (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError(
                "`attention_mask` has pads on the left, before tokens; an encoder-decoder takes them on the right: "
                "set `tokenizer.padding_side = 'right'`."
            )
        # ProphetNet's encoder gives all tokens beyond its last position that one.
        positions = getattr(self.backbone.get_encoder(), "embed_positions", None)
        self._check_length(inputs_embeds if input_ids is None else input_ids, positions)
        self.resolve_output_flags(kwargs)
        output_attentions, asked_for = kwargs["output_attentions"], kwargs["output_hidden_states"]
        encoder = self.backbone.get_encoder()
        outputs = encoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=bool(asked_for),
            return_dict=True,
        )
        states, weights = self.local_encoder(outputs.last_hidden_state, mask, output_attentions)
        return LocalModelOutput(
            last_hidden_state=states,
            hidden_states=selected_states(outputs.hidden_states, asked_for),
            attentions=outputs.attentions,
            local_attentions=weights,
        )

    def _check_length(self, given: torch.Tensor | None, table: Any) -> None:
        """Raise `ValueError` for ids or embeddings (B, L, ...) longer than a tested backbone's table of positions."""
        kind = self.config.backbone_config.model_type
        if given is None or not isinstance(table, nn.Embedding) or kind not in self.config.generation_backbones:
            return
        # ProphetNet counts from behind its padding index, and predicts from one position further.
        first = getattr(table, "offset", 0) if table.padding_idx is None else table.padding_idx + 2
        check_length(given.shape[1], table.num_embeddings - first, kind)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> LocalSeq2SeqLMOutput:
        """Logits (B, T, vocabulary) of the target, under teacher forcing or step by step in `generate`.

        Args:
            input_ids: (B, L), the source, padded on the right; or `inputs_embeds` (B, L, E).
            attention_mask: (B, L), 1 at real tokens, 0 at pads; all real when absent.
            decoder_input_ids: (B, T), the target so far; made of `labels` when absent. One of both is needed.
            encoder_outputs: of `get_encoder()`, local layers included, so that they run once.
            past_key_values: the decoder's cache.
            labels: (B, T), -100 is ignored; the loss is the backbone's own.
        """
        if decoder_input_ids is None and decoder_inputs_embeds is None and labels is None:
            raise ValueError(
                "Give `labels` or `decoder_input_ids`; to have the model write by itself call `generate`."
            )
        decoder = self.get_decoder()
        positions = getattr(decoder, "embed_positions", getattr(decoder, "position_embeddings", None))
        for given in (decoder_input_ids, decoder_inputs_embeds, labels):
            self._check_length(given, positions)
        self.resolve_output_flags(kwargs)
        if encoder_outputs is None:
            encoder_outputs = self.encode_source(input_ids, attention_mask, inputs_embeds, **kwargs)
        elif not isinstance(encoder_outputs, dict):
            encoder_outputs = LocalModelOutput(**dict(zip(_OF_AN_ENCODER, encoder_outputs, strict=False)))
        asked_for = kwargs["output_hidden_states"]
        kwargs |= {"return_dict": True, "output_hidden_states": bool(asked_for)}
        outputs = self.backbone(
            encoder_outputs=encoder_outputs,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            past_key_values=past_key_values,
            decoder_inputs_embeds=decoder_inputs_embeds,
            labels=labels,
            use_cache=use_cache,
            **kwargs,
        )
        return LocalSeq2SeqLMOutput(
            loss=outputs.loss,
            logits=outputs.logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=selected_states(outputs.decoder_hidden_states, asked_for),
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
            local_attentions=encoder_outputs.get("local_attentions"),
        )


_OF_AN_ENCODER = ("last_hidden_state", "hidden_states", "attentions")
"""Entries of a tuple of encoder outputs, in transformers' order."""


class SourceEncoder:
    """An encoder with the local layers on top, as `generate` calls it. A view, no module: it owns nothing.

    What else is asked of it, such as its parameters, are the backbone's encoder's.
    """

    def __init__(self, model: ConditionalGenerationHead):
        self.model = model
        self.main_input_name = model.main_input_name

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | Sequence[int] | None = None,
        return_dict: bool | None = None,
    ) -> LocalModelOutput:
        """As `ConditionalGenerationHead.encode_source`."""
        return self.model.encode_source(
            input_ids,
            attention_mask,
            inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> LocalModelOutput:
        """As `forward`, also where a hook was put in its place."""
        return self.forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"].backbone.get_encoder(), name)
