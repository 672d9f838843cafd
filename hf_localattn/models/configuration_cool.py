"""Configuration of COOL, the context outlooker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .configuration_local_attention import LocalAttentionConfig

if TYPE_CHECKING:
    # Never run. transformers follows such lines to find the files that make up the code of this module: with the
    # models among them a configuration takes all code along, and two versions are told apart by any difference.
    from .modeling_cool import CoolModel  # noqa: F401


class CoolConfig(LocalAttentionConfig):
    """Configuration of COOL: where the context outlooker sits and how it is built.

    The defaults are the paper's best setting (tables 1-3, figure 3): global to local, two outlook layers above the
    convolutional block.

    Args:
        backbone_config: configuration of the encoder (BERT when absent).
        mode: "g2l", the outlooker on top of the encoder (figure 1).
        use_conv: put the convolutional block (equations 2-5) below the outlook layers. The local width F is then the
            sum of its filters, otherwise the backbone's width.
        conv_kernel_sizes: widths of its convolutions in tokens.
        conv_filters: filters of each.
        conv_pooling: "max" or "avg", the adaptive pooling of equation 4.
        conv_alignment: "adaptive" (the paper's padding of 2 and pooling) or "same" (centred as in torch, no pooling).
        num_local_layers: outlook layers; 2 with the convolutional block and 3 without where absent.
        outlook_kernel_size: K, the window in tokens, odd.
        outlook_num_heads: groups of features that share their weights; one per feature (F) where absent. With fewer,
            scores are scaled by (F / heads) ** -0.5.
        outlook_softmax: "feature" normalises over the window's tokens per feature, "window" over tokens and features.
        mask_outside_window: take no softmax mass to places outside the sequence. The paper's zeros keep it.
        outlook_dropout: dropout of the outlook weights.
        num_ffn_layers: linear layers after each outlook attention (equation 12), GELU between several.
        use_layer_norm: normalise the input of each attention and of its linear layers (pre-norm, as in VOLO).
        qkv_bias: bias of the value and score projections.
        qa_loss: "mean" of the start and end cross-entropy, their "sum", or "eq16", the paper's printed
            -log(p(start) + p(end)).

    Raises:
        ValueError: a field has an impossible value; the message names it and the remedy.
    """

    model_type = "cool"

    mode: str = "g2l"
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
    qa_loss: str = "mean"

    def __post_init__(self, **kwargs: Any) -> None:
        if self.num_local_layers is None:  # `use_conv` set later does not change it
            self.num_local_layers = 2 if self.use_conv else 3
        super().__post_init__(**kwargs)

    @property
    def local_size(self) -> int:
        """F, the width of the outlook layers."""
        return len(self.conv_kernel_sizes) * self.conv_filters if self.use_conv else self.hidden_size

    def check_fields(self) -> None:
        self._check_bools("use_conv", "mask_outside_window", "use_layer_norm", "qkv_bias")
        self._check_choice("mode", ("g2l",))
        self._check_choice("conv_pooling", ("max", "avg"))
        self._check_choice("conv_alignment", ("adaptive", "same"))
        self._check_choice("outlook_softmax", ("feature", "window"))
        self._check_choice("qa_loss", ("mean", "sum", "eq16"))
        self._check_at_least("num_local_layers", 0)
        self._check_at_least("num_ffn_layers", 1)
        self._check_at_least("conv_filters", 1)
        self._check_at_least("outlook_kernel_size", 1)
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

    def _check_conv_kernel_sizes(self) -> None:
        sizes = self.conv_kernel_sizes
        if not isinstance(sizes, list | tuple) or not sizes or not all(type(k) is int and k >= 1 for k in sizes):
            raise ValueError(f"`conv_kernel_sizes` is {sizes!r}; give a list of whole numbers, such as [3, 4, 5].")
        if self.conv_alignment == "adaptive" and max(sizes) > 5:
            raise ValueError(
                f"`conv_kernel_sizes` is {list(sizes)}; padding 2 covers widths up to 5. Wider kernels need "
                "`conv_alignment='same'`."
            )
