"""COOL for text generation: an encoder-decoder with local layers on the output of its encoder (section 4.3)."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, GenerationMixin
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from .cool_local_encoder import CoolPreTrainedModel, LocalEncoder
from .modeling_local_attention import LocalModelOutput, check_inputs
from .modeling_on_encoder import EncoderStates


@dataclass
class LocalSeq2SeqLMOutput(Seq2SeqLMOutput):
    """`Seq2SeqLMOutput` with the weights of the local layers as `local_attentions`."""

    local_attentions: tuple[torch.Tensor, ...] | None = None


class CoolForConditionalGeneration(CoolPreTrainedModel, EncoderStates, GenerationMixin):
    """An encoder-decoder whose decoder reads the encoder's states after COOL's local layers.

    The backbone provides loss, language modeling head, cache and decoder.
    """

    backbone_auto_class = AutoModelForSeq2SeqLM
    accepts_loss_kwargs = False  # Trainer has to scale the backbone's loss, a mean over the batch

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_backbone()
        self.local_encoder = LocalEncoder(config)
        self.post_init()
        # transformers would not read `decoder_start_token_id` from the outer configuration.
        self.generation_config = copy.deepcopy(self.backbone.generation_config)

    def _finalize_loading(self) -> None:
        super()._finalize_loading()
        # transformers builds it from the outer configuration if there is no generation_config.json.
        for name, value in self.backbone.generation_config.to_dict().items():
            if getattr(self.generation_config, name, None) is None:
                setattr(self.generation_config, name, value)

    def get_encoder(self, modality: str | None = None) -> Any:
        """Return the encoder with the local layers on top, for `generate`."""
        return SourceEncoder(self)

    def get_decoder(self) -> nn.Module:
        return self.backbone.get_decoder()

    def get_output_embeddings(self) -> nn.Module:
        return self.backbone.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.backbone.set_output_embeddings(new_embeddings)

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Module:
        """Resize all parts of the backbone that depend on the vocabulary size, as in transformers."""
        embeddings = self.backbone.resize_token_embeddings(*args, **kwargs)
        self.config.vocab_size = self.vocab_size = self.backbone.config.vocab_size
        return embeddings

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Shift labels (B, T) to the right, to get the decoder's inputs for training."""
        return self.backbone.prepare_decoder_input_ids_from_labels(labels)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> LocalSeq2SeqLMOutput:
        """Compute the logits (B, T, vocabulary size) of the target and, with `labels`, the backbone's loss.

        Args:
            input_ids: (B, L) token ids of the source, padded on the right.
            attention_mask: (B, L), 1 for tokens and 0 for padding. By default all are tokens.
            decoder_input_ids: (B, T) token ids of the target so far. By default the shifted `labels`.
            decoder_attention_mask: (B, T), 1 for tokens and 0 for padding of the target.
            encoder_outputs: Output of `get_encoder()`, after the local layers. By default computed here.
            inputs_embeds: (B, L, E) embeddings in place of `input_ids`.
            decoder_inputs_embeds: (B, T, E) embeddings in place of `decoder_input_ids`.
            labels: (B, T) token ids of the target. -100 is ignored.
            use_cache: Return the decoder's cache.
            **kwargs: `output_attentions`, `output_hidden_states` and other arguments of the backbone, such as the
                decoder's cache: `cache`, or `past_key_values` before transformers 5.24.

        Raises:
            ValueError: Neither a target nor `labels` is given, or inputs are invalid.
        """
        if decoder_input_ids is None and decoder_inputs_embeds is None and labels is None:
            raise ValueError(
                "`labels` and `decoder_input_ids` are missing: give one of them, or call `generate` to generate text."
            )
        self.resolve_output_flags(kwargs)
        if encoder_outputs is None:
            flags = {name: kwargs[name] for name in ("output_attentions", "output_hidden_states")}
            encoder_outputs = self.get_encoder()(input_ids, attention_mask, inputs_embeds, **flags)
        elif not isinstance(encoder_outputs, dict):
            names = ("last_hidden_state", "hidden_states", "attentions")
            encoder_outputs = LocalModelOutput(**dict(zip(names, encoder_outputs, strict=False)))
        kwargs["return_dict"] = True
        outputs = self.backbone(
            encoder_outputs=encoder_outputs,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            decoder_inputs_embeds=decoder_inputs_embeds,
            labels=labels,
            use_cache=use_cache,
            **kwargs,
        )
        shared = {field.name: outputs.get(field.name) for field in fields(Seq2SeqLMOutput)}
        return LocalSeq2SeqLMOutput(**shared, local_attentions=encoder_outputs.get("local_attentions"))


class SourceEncoder:
    """Encoder and local layers of a model as one callable, for `generate`.

    It is not an `nn.Module` and has no parameters. Other attributes come from the backbone's encoder.
    """

    def __init__(self, model: CoolForConditionalGeneration):
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
        """Return states (B, L, H) and the weights of the local layers, from ids (B, L) or embeddings (B, L, E).

        Raises:
            ValueError: Not exactly one of `input_ids` and `inputs_embeds` is given, or padding is on the left. In
                compiled or exported graphs the padding is not checked.
        """
        check_inputs(input_ids, inputs_embeds, attention_mask)
        mask = None if attention_mask is None else attention_mask != 0
        if mask is not None and not torch.compiler.is_compiling() and (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError(
                "`attention_mask` has padding on the left; an encoder-decoder needs padding on the right: set "
                "`tokenizer.padding_side = 'right'`."
            )
        flags = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        self.model.resolve_output_flags(flags)
        outputs = self.model.read_encoder(
            self.model.backbone.get_encoder(),
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **flags,
        )
        states = self.model.mix_states(outputs.last_hidden_state)
        states, weights = self.model.local_encoder(states, mask, flags["output_attentions"])
        return LocalModelOutput(
            last_hidden_state=states,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=weights,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> LocalModelOutput:
        """Call `forward` of this object, which accelerate may have replaced."""
        return self.forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"].backbone.get_encoder(), name)
