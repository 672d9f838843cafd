"""Fields of SLA, syntax-aware local attention, and settings of its tokenizer."""

from dataclasses import dataclass
from typing import Annotated, Literal

from .fields import Count, Field, Fields, NonNegative, Positive, Settings

GATED = ("syntax", "window", "soft")
"""Kinds of local attention that a gate mixes with global attention."""

IN_THE_TREE = {"local_attention": ("syntax", "soft")}


@dataclass(kw_only=True, repr=False, eq=False)
class SlaBertFields(Fields):
    """Fields of an SLA model."""

    local_attention: Annotated[
        Literal["syntax", "window", "soft", "none", "sgnet", "lisa"],
        Field(
            'Local attention, or a baseline of the paper:\n\n* "syntax": words attend to words that are near in the'
            ' dependency tree (the paper\'s SLA).\n* "window": words attend to words that are near in the text (the'
            ' paper\'s WLA).\n* "soft": as "syntax", but in place of a limit the scores fall with the distance in the'
            " tree, by a slope that each layer learns. It is not in the paper.\n"
            '* "none": the backbone without local attention.\n* "sgnet": more layers on top of the encoder, without'
            ' gates, in which words attend to themselves and to their syntactic ancestors.\n* "lisa": no gates; the'
            " last head of each layer is trained to attend to the syntactic parent.",
            ablations=("window", "soft", "none", "sgnet", "lisa"),
        ),
    ] = "syntax"
    syntax_threshold: Annotated[
        Count,
        Field(
            "Largest distance in edges of the dependency tree, m of equation 3. The paper uses 3 and 4. For"
            ' "soft" larger distances count as m + 1.',
            when=IN_THE_TREE,
            ablations=(2,),
        ),
    ] = 3
    neighbor_window: Annotated[
        Count,
        Field(
            "Number of neighbors on each side of a word. Distances in the tree are measured from the word or from the"
            " nearest of its neighbors (equation 2).",
            when=IN_THE_TREE,
        ),
    ] = 1
    connect_roots: Annotated[
        bool,
        Field(
            "If True, edges connect the roots of all sentences of a text. The paper treats several sentences as one"
            " (ChnSentiCorp) and does not say how their trees are joined.",
            when=IN_THE_TREE,
            ablations=(True,),
        ),
    ] = False
    pair_attention: Annotated[
        Literal["all", "shared_words"],
        Field(
            'Words that a word attends to in the other text of a pair: "all", as in the paper; or "shared_words",'
            " those near a word that both texts have: the distance is the sum of the distances to that word in both"
            " trees.",
            when=IN_THE_TREE,
        ),
    ] = "all"
    window_size: Annotated[
        Count,
        Field(
            "Number of visible words on each side. The paper uses 3, 4 and 5.",
            when={"local_attention": "window"},
        ),
    ] = 3
    sla_layers: Annotated[
        list[int] | None,
        Field(
            "Indices of the layers that have local attention, from 0. By default all layers.",
            when={"local_attention": (*GATED, "lisa")},
            ablations=([1],),
        ),
    ] = None
    gate_bias_init: Annotated[
        float,
        Field(
            "Initial value of the gates' bias, b of equation 5. Gates start near 0.5 with 0.",
            when={"local_attention": GATED},
        ),
    ] = 0.0
    num_sgnet_layers: Annotated[
        Positive,
        Field(
            "Number of layers on top of the encoder. With BERT-base, 1 makes 116.6 million parameters and 3 make"
            " 130.7; the paper has 133.",
            when={"local_attention": "sgnet"},
        ),
    ] = 1
    lisa_loss_weight: Annotated[
        NonNegative,
        Field('Weight of the loss of "lisa" in the sum with the task loss.', when={"local_attention": "lisa"}),
    ] = 1.0
    pooler_is_new: Annotated[
        bool,
        Field("True if the pooler is new, because the backbone's checkpoint has none. Set when a backbone is loaded."),
    ] = False


class SlaBertSettings(Settings):
    """Settings of SLA's tokenizer."""

    parser: Annotated[
        str | None,
        Field(
            "Name or folder of a spaCy pipeline, which is loaded when the first text is encoded. Name one that others"
            " can install if you publish the tokenizer. If None, there are no `dep_heads`;"
            ' `local_attention="window"` does not need them. With hf_localattn installed, a parser that only a'
            " checkpoint names must be an entry point `spacy_models` of an installed package. To use another one, pass"
            " `parser=` to `from_pretrained`."
        ),
    ] = "en_core_web_sm"
    words: Annotated[
        Literal["parser", "whitespace"],
        Field(
            'Words of a text: "parser" uses the tokens of the pipeline, also for languages without spaces;'
            ' "whitespace" splits at white space, as in the paper (appendix A.1) and without a parser. Lists of'
            " words are not split further."
        ),
    ] = "parser"
    shuffle_trees: Annotated[
        bool,
        Field(
            "Permute the words of each parse, in the same way whenever the text is encoded: its tree keeps its shape,"
            " with the words in other places. This is a control: a gain that remains with it does not come from"
            " syntax. Given `heads` are not permuted."
        ),
    ] = False
    open_punctuation: Annotated[
        bool,
        Field(
            "If True, all tokens may attend to punctuation marks, as in the authors' code; the paper does not say so."
            " A mark is a token of ASCII punctuation, except for `` ` ``, `{`, `|`, `}` and `~`. What marks attend to"
            " does not change."
        ),
    ] = False
