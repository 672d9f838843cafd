"""Configuration of COOL, the context outlooker."""

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from transformers import PreTrainedConfig

from .configuration_local_attention import LocalAttentionConfig
from .fields_cool import BASELINES, CoolFields


class CoolConfig(CoolFields, LocalAttentionConfig):
    """Configuration of a COOL model: a pretrained encoder with a context outlooker.

    The defaults are the best setting of the paper (tables 1-3, figure 3): a convolutional block and two outlook layers
    on top of the encoder.
    """

    model_type = "cool"
    generation_backbones: ClassVar[Sequence[str]] = ("prophetnet", "bart")

    @property
    def entry_module(self) -> str:
        if self.local_attention in BASELINES:
            return "cool_baselines_generation" if self.is_encoder_decoder else "cool_baselines"
        return "modeling_cool_generation" if self.is_encoder_decoder else "modeling_cool"

    def auto_classes(self) -> dict[str, str]:
        classes = super().auto_classes()
        if not self.is_encoder_decoder:
            return classes
        generates = f"{self.entry_module}.CoolForConditionalGeneration"
        return {"AutoConfig": classes["AutoConfig"], "AutoModelForSeq2SeqLM": generates}

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """Return the backbone's text configuration for encoder-decoders, since `generate` reads it."""
        config: Any = self.backbone_config if self.is_encoder_decoder else super()
        return config.get_text_config(decoder=decoder, encoder=encoder)

    @property
    def num_active_local_layers(self) -> int:
        """Number of local layers that the model has."""
        if self.local_attention not in ("outlook", *BASELINES):
            return 0
        if self.num_local_layers is None:
            return 2 if self.has_convolution_block else 3
        return self.num_local_layers

    @property
    def has_convolution_block(self) -> bool:
        """True if the local branch starts with the convolutional block."""
        return self.local_attention == "conv" or (self.local_attention == "outlook" and self.use_conv)

    @property
    def local_input_size(self) -> int:
        """Input width of the local branch: the width of the encoder's output or word embeddings."""
        if self.mode == "g2l":
            return self.encoder_size
        return getattr(self.backbone_config, "embedding_size", None) or self.backbone_config.hidden_size

    @property
    def local_size(self) -> int:
        """Width F of the local layers."""
        if self.has_convolution_block:
            return len(self.conv_kernel_sizes) * self.conv_filters
        return self.local_input_size

    @property
    def num_local_heads(self) -> int:
        """Number of heads of a baseline: that of the backbone, or fewer if narrow word embeddings need it."""
        return math.gcd(self.local_size, self.num_attention_heads)

    @property
    def local_output_size(self) -> int:
        """Output width of the local branch: F, or the input width if the backbone reads the output."""
        feeds_the_backbone = self.mode == "l2g" or self.is_encoder_decoder
        return self.local_input_size if feeds_the_backbone or self.has_balance else self.local_size

    @property
    def has_fusion(self) -> bool:
        """True if global and local states are combined."""
        return self.mode == "g&l" or self.has_balance

    @property
    def has_balance(self) -> bool:
        """True if each token weights its state before and after the local layers on top of the encoder."""
        return self.mode == "g2l" and self.fusion == "gate" and self.local_attention not in ("none", "deeper")

    @property
    def output_size(self) -> int:
        """Width of the last hidden states."""
        return self.local_output_size if self.mode == "g2l" else self.encoder_size

    def backbone_config_to_build(self) -> Any:
        """Return the backbone's configuration, with `num_extra_layers` more layers for "deeper"."""
        if self.local_attention != "deeper":
            return self.backbone_config
        deeper = copy.deepcopy(self.backbone_config)
        count = "num_encoder_layers" if hasattr(deeper, "num_encoder_layers") else "num_hidden_layers"
        layers = getattr(deeper, count) + self.num_extra_layers
        if kinds := list(getattr(deeper, "layer_types", None) or ()):  # repeat the pattern
            period = next(p for p in range(1, len(kinds) + 1) if kinds[p:] == kinds[:-p])
            deeper.layer_types = [kinds[layer % period] for layer in range(layers)]
        setattr(deeper, count, layers)
        return deeper

    def normalize(self) -> None:
        super().normalize()
        if self.mode == "gl":  # which needs no quotes in a shell
            self.mode = "g&l"

    def check_fields(self) -> None:
        if self.outlook_kernel_size % 2 == 0:
            raise ValueError(
                f"`outlook_kernel_size` is {self.outlook_kernel_size}; it must be odd, so that a window has a center."
            )
        sizes = self.conv_kernel_sizes
        if not sizes or (self.conv_alignment == "adaptive" and max(sizes) > 5):
            raise ValueError(f"`conv_kernel_sizes` is {list(sizes)}; sizes above 5 need `conv_alignment='same'`.")
        if self.local_size % (self.outlook_num_heads or 1):
            raise ValueError(
                f"`outlook_num_heads` is {self.outlook_num_heads}; it must divide the local width {self.local_size}."
            )
        if self.is_encoder_decoder and self.encoder_size != self.backbone_config.hidden_size:
            raise ValueError(
                f"`encoder_states` is {self.encoder_states!r}, but the decoder reads states of one layer: use 'mix'."
            )
        if conflict := self._conflict_with_mode():
            raise ValueError(f"`mode` is {self.mode!r}, but {conflict}: set `mode` to 'g2l'.")

    def _conflict_with_mode(self) -> str:
        """Return why the local layers can only be on top of the encoder, or an empty text."""
        if self.mode == "g2l":
            return ""
        if self.local_attention in ("none", "deeper"):
            return f"`local_attention={self.local_attention!r}` has no local layers to place"
        if self.is_encoder_decoder:
            return "an encoder-decoder takes local layers only on the output of its encoder"
        if self.mode == "l2g" and self.mlm_residual:
            return "with `mlm_residual` the backbone must not read the local states"
        return ""
