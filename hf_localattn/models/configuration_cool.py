"""Configuration of COOL, the context outlooker."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .configuration_local_attention import LocalAttentionConfig

if TYPE_CHECKING:
    # Never run. transformers follows such lines to find the files that make up the code of this module: with the
    # models among them a configuration takes all code along, and two versions are told apart by any difference.
    from .modeling_cool import CoolModel  # noqa: F401

LOCAL_LAYERS = ("outlook", "dynamic_conv", "visual_outlook", "rgcn", "gat", "hgt")
"""Local attentions that are a stack of `num_local_layers` layers."""

MOST_TOKENS = 1001
"""Tokens of a window, or on a side of one: some memory of each is needed whatever the text's length."""

LOCAL_ATTENTIONS = ("none", "deeper", "conv", *LOCAL_LAYERS)


class CoolConfig(LocalAttentionConfig):
    """Configuration of COOL: where the context outlooker sits and how it is built, or what stands in its place.

    The defaults are the paper's best setting (tables 1-3, figure 3): global to local, two outlook layers above the
    convolutional block.

    Args:
        backbone_config: configuration of the encoder (BERT when absent), or of an encoder-decoder for generation.
        mode: where the local layers sit (figure 1): "g2l", global to local, on top of the encoder; "l2g", local to
            global, on the word embeddings and below the encoder; "g&l" or "gl", parallel to it, on the same.
        fusion: how "g&l" joins both: "concat" (two linear layers with GELU between), "sum", or "gate" (a balance that
            each token predicts).
        local_attention: "outlook", the paper's, or what it compares with: "none" (the backbone alone), "deeper" (more
            layers of its own), "conv" (the convolutional block alone), "dynamic_conv", "visual_outlook", and the local
            graphs "rgcn", "gat" and "hgt".
        use_conv: put the convolutional block (equations 2-5) below the outlook layers. The local width F is then the
            sum of its filters, otherwise that of its input. No other local attention reads it.
        conv_kernel_sizes: widths of its convolutions in tokens.
        conv_filters: filters of each.
        conv_pooling: "max" or "avg", the adaptive pooling of equation 4.
        conv_alignment: "adaptive" (the paper's padding of 2 and pooling) or "same" (centered as in torch, no pooling).
        num_local_layers: local layers; where absent 2 above the convolutional block and 3 without. "none", "deeper"
            and "conv" have none, whatever it says.
        outlook_kernel_size: K, the window in tokens, odd; also of "dynamic_conv" and "visual_outlook".
        outlook_num_heads: groups of features that share their weights; one per feature (F) where absent. With fewer,
            scores are scaled by (F / heads) ** -0.5.
        outlook_softmax: "feature" normalizes over the window's tokens per feature, "window" over tokens and features.
        mask_outside_window: take no softmax mass to places outside the sequence. The paper's zeros keep it.
        outlook_dropout: dropout of the outlook weights.
        num_ffn_layers: linear layers after each outlook attention (equation 12), GELU between several.
        use_layer_norm: normalize the input of each attention and of its linear layers (pre-norm, as in VOLO).
        qkv_bias: bias of the value and score projections.
        num_extra_layers: layers that "deeper" adds to the backbone (the paper: 3 and 5).
        graph_window: tokens on either side that are a token's neighbors in the local graphs.
        classifier_dropout: dropout before the last linear layer of the classifying heads.
        qa_loss: "mean" of the start and end cross-entropy, their "sum", or "joint", the paper's printed
            -log(p(start) + p(end)).

    Raises:
        ValueError: a field has an impossible value; the message names it and the remedy.
    """

    model_type = "cool"
    generation_backbones: ClassVar[Sequence[str]] = ("prophetnet", "bart")
    controlling_fields: ClassVar[Sequence[str]] = ("mode", "local_attention", "use_conv")
    attribute_map: ClassVar[dict[str, str]] = {"local_encoder": "local_attention"}
    renamed_values: ClassVar[Mapping[str, Mapping[str, str]]] = {"qa_loss": {"eq16": "joint"}}

    mode: str = "g2l"
    fusion: str = "concat"
    local_attention: str = "outlook"
    use_conv: bool = True
    conv_kernel_sizes: list[int] | tuple[int, ...] = (3, 4, 5)
    conv_filters: int = 100
    conv_pooling: str = "max"
    conv_alignment: str = "adaptive"
    num_local_layers: int | None = None
    outlook_kernel_size: int = 3
    outlook_num_heads: int | None = None
    outlook_softmax: str = "feature"
    mask_outside_window: bool = False
    outlook_dropout: float = 0.0
    num_ffn_layers: int = 1
    use_layer_norm: bool = False
    qkv_bias: bool = True
    num_extra_layers: int = 3
    graph_window: int = 1
    classifier_dropout: float = 0.1
    qa_loss: str = "mean"

    def active_fields(self) -> dict[tuple[str, ...], bool]:
        outlook = (
            *("outlook_num_heads", "outlook_softmax", "mask_outside_window", "outlook_dropout"),
            *("use_conv", "num_ffn_layers", "use_layer_norm", "qkv_bias"),
        )
        return {
            outlook: self.local_attention == "outlook",
            ("fusion",): self.mode == "g&l",
            ("num_extra_layers",): self.local_attention == "deeper",
            ("graph_window",): self.local_attention in ("rgcn", "gat", "hgt"),
            ("outlook_kernel_size",): self.local_attention in ("outlook", "dynamic_conv", "visual_outlook"),
            ("num_local_layers",): self.local_attention in LOCAL_LAYERS,
            ("conv_filters", "conv_pooling", "conv_alignment"): self.has_convolution_block,
        }

    @property
    def num_active_local_layers(self) -> int:
        """Number of local layers, from `num_local_layers` and `local_attention`."""
        if self.local_attention not in LOCAL_LAYERS:
            return 0
        if self.num_local_layers is None:
            return 2 if self.has_convolution_block else 3
        return self.num_local_layers

    @property
    def has_convolution_block(self) -> bool:
        """True if the local branch begins with the convolutional block."""
        return self.local_attention == "conv" or (self.local_attention == "outlook" and self.use_conv)

    @property
    def local_input_size(self) -> int:
        """Width of what the local branch reads: the encoder's output, or its word embeddings."""
        narrower = None if self.mode == "g2l" else getattr(self.backbone_config, "embedding_size", None)
        return narrower or self.hidden_size

    @property
    def local_size(self) -> int:
        """F, the width of the local layers."""
        if self.has_convolution_block:
            return len(self.conv_kernel_sizes) * self.conv_filters
        return self.local_input_size

    @property
    def local_output_size(self) -> int:
        """Width of what the local branch gives: F, or that of its input where the backbone reads it."""
        feeds_the_backbone = self.mode == "l2g" or self.is_encoder_decoder
        return self.local_input_size if feeds_the_backbone else self.local_size

    @property
    def output_size(self) -> int:
        """Width of what the heads read."""
        return self.local_output_size if self.mode == "g2l" else self.hidden_size

    def backbone_config_to_build(self) -> Any:
        """The backbone's configuration; with `num_extra_layers` more layers if `local_attention` is "deeper"."""
        if self.local_attention != "deeper":
            return self.backbone_config
        deeper = copy.deepcopy(self.backbone_config)
        count = "num_encoder_layers" if hasattr(deeper, "num_encoder_layers") else "num_hidden_layers"
        layers = getattr(deeper, count) + self.num_extra_layers
        if kinds := list(getattr(deeper, "layer_types", None) or ()):  # go on in their rhythm
            period = next(p for p in range(1, len(kinds) + 1) if kinds[p:] == kinds[:-p])
            deeper.layer_types = [kinds[layer % period] for layer in range(layers)]
        setattr(deeper, count, layers)
        return deeper

    def check_fields(self) -> None:
        if self.mode == "gl":  # a spelling that a shell takes without quotes
            self.mode = "g&l"
        self._check_bools("use_conv", "mask_outside_window", "use_layer_norm", "qkv_bias")
        self._check_choice("mode", ("g2l", "l2g", "g&l"))
        self._check_choice("fusion", ("concat", "sum", "gate"))
        self._check_choice("local_attention", LOCAL_ATTENTIONS)
        self._check_choice("conv_pooling", ("max", "avg"))
        self._check_choice("conv_alignment", ("adaptive", "same"))
        self._check_choice("outlook_softmax", ("feature", "window"))
        self._check_choice("qa_loss", ("mean", "sum", "joint"))
        if self.num_local_layers is not None:
            self._check_at_least("num_local_layers", 0)
        self._check_at_least("num_ffn_layers", 1)
        self._check_at_least("conv_filters", 1)
        self._check_at_least("num_extra_layers", 1)
        self._check_at_least("graph_window", 1, MOST_TOKENS)
        self._check_at_least("outlook_kernel_size", 1, MOST_TOKENS)
        if self.outlook_kernel_size % 2 == 0:
            raise ValueError(
                f"`outlook_kernel_size` is {self.outlook_kernel_size}; it must be odd, so that a window has a central "
                f"token: take {self.outlook_kernel_size - 1} or {self.outlook_kernel_size + 1}."
            )
        self._check_conv_kernel_sizes()
        if self.outlook_num_heads is not None:
            self._check_at_least("outlook_num_heads", 1)
            if self.local_size % self.outlook_num_heads:
                raise ValueError(
                    f"`outlook_num_heads` is {self.outlook_num_heads}; it must divide the local width "
                    f"{self.local_size}."
                )
        self._check_number("outlook_dropout", 0.0, 1.0)
        self._check_number("classifier_dropout", 0.0, 1.0)
        self._check_mode()

    def _check_mode(self) -> None:
        if self.mode == "g2l":
            return
        if self.local_attention in ("none", "deeper"):
            raise ValueError(
                f"`mode` is {self.mode!r}, but `local_attention={self.local_attention!r}` has nothing local to place: "
                "leave `mode` at 'g2l'."
            )
        if self.is_encoder_decoder:
            raise ValueError(
                f"`mode` is {self.mode!r}; above an encoder-decoder such as {self.backbone_config.model_type!r} the "
                "local layers sit on the encoder's output: leave `mode` at 'g2l'."
            )

    def _check_conv_kernel_sizes(self) -> None:
        sizes = self.conv_kernel_sizes
        if not isinstance(sizes, list | tuple) or not sizes or not all(type(k) is int and k >= 1 for k in sizes):
            raise ValueError(f"`conv_kernel_sizes` is {sizes!r}; give a list of whole numbers, such as [3, 4, 5].")
        if self.conv_alignment == "adaptive" and max(sizes) > 5:
            raise ValueError(
                f"`conv_kernel_sizes` is {list(sizes)}; padding 2 covers widths up to 5. Wider kernels need "
                "`conv_alignment='same'`."
            )
