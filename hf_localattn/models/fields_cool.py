"""Fields of COOL, the context outlooker."""

from dataclasses import dataclass
from typing import Annotated, Literal

from .fields import Count, Field, Fields, Positive, Probability

BASELINES = ("dynamic_conv", "visual_outlook", "rgcn", "gat", "hgt")
"""Values of `local_attention` whose layers are in `cool_baselines`."""

OUTLOOK = {"local_attention": "outlook"}
CONVOLUTIONS = {"has_convolution_block": True}


@dataclass(kw_only=True, repr=False, eq=False)
class CoolFields(Fields):
    """Fields of a COOL model."""

    mode: Annotated[
        Literal["g2l", "l2g", "g&l", "gl"],
        Field(
            'Position of the local layers (figure 1): "g2l" (global to local), on top of the encoder; "l2g" (local to'
            ' global), between the word embeddings and the encoder; "g&l" or "gl", on the word embeddings and parallel'
            " to the encoder.",
            ablations=("l2g", "g&l"),
        ),
    ] = "g2l"
    fusion: Annotated[
        Literal["concat", "sum", "gate"],
        Field(
            'Combination of global and local states in mode "g&l": "concat", two linear layers with GELU between them;'
            ' "sum"; or "gate", a weight that each token predicts. In mode "g2l", "gate" is the same balance (the'
            " paper's future work), and others have no effect.",
            when={"has_fusion": True},
            ablations=("gate",),
        ),
    ] = "concat"
    local_attention: Annotated[
        Literal["none", "deeper", "conv", "outlook", "dynamic_conv", "visual_outlook", "rgcn", "gat", "hgt"],
        Field(
            'Local mechanism: "outlook", the context outlooker, or an alternative from the paper: "none", the backbone'
            ' alone; "deeper", more layers of the backbone; "conv", the convolutional block alone; "dynamic_conv";'
            ' "visual_outlook"; or a graph over neighboring tokens, "rgcn", "gat" or "hgt".',
            ablations=("none", "deeper", "conv", *BASELINES),
        ),
    ] = "outlook"
    use_conv: Annotated[
        bool,
        Field(
            "Put the convolutional block (equations 2-5) below the outlook layers. The local width F is then"
            " `len(conv_kernel_sizes) * conv_filters`; without the block F is the input width.",
            when=OUTLOOK,
            ablations=(False,),
        ),
    ] = True
    conv_kernel_sizes: Annotated[
        list[Positive] | tuple[Positive, ...], Field("Kernel sizes of the convolutions in tokens.", when=CONVOLUTIONS)
    ] = (3, 4, 5)
    conv_filters: Annotated[Positive, Field("Number of filters for each kernel size.", when=CONVOLUTIONS)] = 100
    conv_pooling: Annotated[
        Literal["max", "avg"], Field('Adaptive pooling of equation 4: "max" or "avg".', when=CONVOLUTIONS)
    ] = "max"
    conv_alignment: Annotated[
        Literal["adaptive", "same"],
        Field(
            '"adaptive", the paper\'s padding of 2 and pooling, for kernels up to 5; or "same", kernels centered on'
            " their token as in torch, without pooling.",
            when=CONVOLUTIONS,
        ),
    ] = "adaptive"
    num_local_layers: Annotated[
        Count | None,
        Field(
            "Number of local layers. By default 2 with the convolutional block and 3 without it.",
            when={"local_attention": ("outlook", *BASELINES)},
            ablations=(1,),
        ),
    ] = None
    outlook_kernel_size: Annotated[
        Positive,
        Field(
            "K, the size of the window in tokens; odd.",
            when={"local_attention": ("outlook", "dynamic_conv", "visual_outlook")},
        ),
    ] = 3
    outlook_num_heads: Annotated[
        Positive | None,
        Field(
            "Number of heads. The features of a head share their weights. By default F, one head per feature. With"
            " fewer heads, scores are scaled by `(F / heads) ** -0.5`.",
            when=OUTLOOK,
        ),
    ] = None
    outlook_softmax: Annotated[
        Literal["feature", "window"],
        Field(
            'Normalization of the weights: "feature", over the tokens of the window for each feature; or "window",'
            " over tokens and features together.",
            when=OUTLOOK,
        ),
    ] = "feature"
    mask_outside_window: Annotated[
        bool,
        Field(
            "Exclude positions outside the sequence from the softmax. In the paper these positions are zeros that keep"
            " their share of the weights.",
            when=OUTLOOK,
        ),
    ] = False
    outlook_dropout: Annotated[Probability, Field("Dropout probability of the outlook weights.", when=OUTLOOK)] = 0.0
    num_ffn_layers: Annotated[
        Positive,
        Field(
            "Number of linear layers after each outlook attention (equation 12), with GELU between them.", when=OUTLOOK
        ),
    ] = 1
    use_layer_norm: Annotated[
        bool,
        Field("Normalize the input of each attention and of its linear layers (pre-norm, as in VOLO).", when=OUTLOOK),
    ] = False
    qkv_bias: Annotated[bool, Field("Add a bias to the value and score projections.", when=OUTLOOK)] = True
    num_extra_layers: Annotated[
        Positive,
        Field(
            "Number of layers that are added to the backbone (3 and 5 in the paper).",
            when={"local_attention": "deeper"},
        ),
    ] = 3
    graph_window: Annotated[
        Positive,
        Field(
            "Number of neighbors on either side of a token in the graph.",
            when={"local_attention": ("rgcn", "gat", "hgt")},
        ),
    ] = 1
    classifier_dropout: Annotated[
        Probability, Field("Dropout probability before the last layer of the classification heads.")
    ] = 0.1
    qa_loss: Annotated[
        Literal["mean", "sum", "joint"],
        Field(
            'Loss of question answering: "mean" or "sum" of the start and end cross-entropy, or "joint", -log(p(start)'
            " + p(end)) as printed in equation 16.",
        ),
    ] = "mean"
