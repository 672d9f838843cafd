"""Fields of OA, orthogonal attention, and settings of its tokenizer."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from .fields import Field, Fields, Positive, Probability, Range, Settings


class Interaction(NamedTuple):
    """Interaction of context and query tokens, as names in the tables `ALPHAS` and `BETAS` of `oa_interaction`."""

    alpha: str
    beta: str


INTERACTIONS = {
    "em": Interaction("product", "query"),
    "emb": Interaction("product", "product"),
    "c": Interaction("convolution", "query"),
    "ca": Interaction("convolution", "convolution"),
}
"""Interactions by `local_attention`. A program may add its own."""

Name = Annotated[
    str,
    Range("'em', 'emb', 'c', 'ca', 'none' or a name in `INTERACTIONS`", lambda name: name in (*INTERACTIONS, "none")),
]

BLOCKS = {"has_blocks": True}
CONTEXTUAL = {"beta": ("product", "convolution")}


@dataclass(kw_only=True, repr=False, eq=False)
class OaXLNetFields(Fields):
    """Fields of an OA model."""

    local_attention: Annotated[
        Name,
        Field(
            'Interaction of a token with a query token: "em", element-wise multiplication; "c", convolution; "emb" and'
            ' "ca", the same with query vectors that depend on the text; "none", the encoder alone (the paper\'s'
            " baseline); or a name that a program has added to `INTERACTIONS`.",
            ablations=("em", "c", "ca", "none"),
        ),
    ] = "emb"
    num_oa_layers: Annotated[Positive, Field("Number of blocks.", when=BLOCKS, ablations=(1,))] = 2
    oa_num_heads: Annotated[
        Positive | None,
        Field(
            'Number of attention heads of a block. It must divide the hidden size; for "c" and "ca" the width of a'
            " head must be a square. By default 12, else the backbone's number of heads, else the valid number closest"
            " to 12."
        ),
    ] = None
    oa_intermediate_size: Annotated[
        Positive | None,
        Field("Width between the two linear layers of a block. By default the backbone's hidden size.", when=BLOCKS),
    ] = None
    oa_dropout: Annotated[
        Probability,
        Field(
            "Dropout probability of the attention weights, of the input of the first block and of the output of the"
            " last one.",
            when=BLOCKS,
        ),
    ] = 0.3
    kv_sharing: Annotated[
        Literal["trunk", "none", "all"],
        Field('Layers that keys and values share: "trunk", all but the last one; "none"; or "all".', when=BLOCKS),
    ] = "trunk"
    share_context_projection: Annotated[
        bool,
        Field(
            'Use the keys\' features of the text in the query vectors of "emb" and "ca", too. In "ca" the paper\'s'
            ' numbering of weights (W0, then W4 to W6) says so. At width 768 a block of "ca" then has 6.23 million'
            " parameters, and 6.83 without.",
            when=CONTEXTUAL,
        ),
    ] = False
    text_in_query: Annotated[
        bool,
        Field(
            "Add the mean of the text's states to the query, as one more token. With a query of one token, beta is"
            " trained only with this.",
            when=BLOCKS,
            ablations=(True,),
        ),
    ] = False
    conv_num_filters: Annotated[
        Positive | None,
        Field(
            'Number of filters of the convolution in "c" and "ca". Defaults to the size of a filter; 1 is the printed'
            " equation.",
            when={"alpha": "convolution"},
        ),
    ] = None
    query_summary: Annotated[
        Literal["tanh", "plain"],
        Field(
            'Summary of the text for a query token in "emb" and "ca": "tanh", with the output layer of PyTorch-NLP\'s'
            ' attention; or "plain", without it.',
            when=CONTEXTUAL,
        ),
    ] = "tanh"
    oa_chunk_size: Annotated[
        Positive | None,
        Field(
            "Number of tokens whose attention is computed at a time, and recomputed in the backward pass. Chunks save"
            " memory with long queries (question answering) but are slower; the result is the same. By default all"
            " tokens at once.",
            when=BLOCKS,
        ),
    ] = None
    classifier_dropout: Annotated[Probability, Field("Dropout probability before the last layer of the heads.")] = 0.3


class OaXLNetSettings(Settings):
    """Settings of OA's tokenizer."""

    cue_marker: Annotated[
        Literal["keep", "drop", "typed"],
        Field(
            'Encoding of the markers: "keep" encodes each as `[CUE]` (the paper\'s Augment); "drop" removes them (the'
            ' paper\'s Normal); "typed" keeps typed markers and encodes plain markers as `[CUE:single]` in a text with'
            " one cue word, else as `[CUE:multi]`."
        ),
    ] = "keep"
    query_segment: Annotated[
        Literal["auto", "first", "second"],
        Field(
            'The query in a pair of texts: "first"; "second"; or "auto", which uses the markers or, without markers,'
            ' the text that is not truncated: the second with `truncation="only_first"`, else the first.'
        ),
    ] = "auto"
    random_query: Annotated[
        bool,
        Field(
            "Mark as many other words of the text, always the same ones, in place of its cue words. This is a control:"
            " a gain that remains with it does not come from the query."
        ),
    ] = False
