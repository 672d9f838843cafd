"""Fields of SAM, sequential attention."""

from dataclasses import dataclass
from typing import Annotated, Literal

from .fields import Field, Fields, Positive, Probability, Range

Fraction = Annotated[float, Range("a number in [0, 1]", lambda value: 0 <= value <= 1)]

BASELINES = ("rba", "disan")
"""Poolings whose layers are in sam_baselines.py."""

SAM = {"pooling": "sam"}
BILSTM = {"has_bilstm": True}
FAM = {"pooling": "sam", "use_fam": True}
TAM = {"has_tam": True}


@dataclass(kw_only=True, repr=False, eq=False)
class SamRobertaFields(Fields):
    """Fields of a SAM model."""

    pooling: Annotated[
        Literal["sam", "none", "rb", "rba", "disan"],
        Field(
            'Pooling of a text into one vector: "sam", sequential attention, or a baseline of the paper: "none", the'
            ' mean of the encoder\'s states; "rb", the mean of the states of a BiLSTM; "rba", attention over the'
            ' states of a BiLSTM; "disan", directional self-attention.',
            ablations=("none", "rb", "rba", "disan"),
        ),
    ] = "sam"
    use_bilstm: Annotated[
        bool, Field("Put a BiLSTM between the encoder and SAM, as in the paper.", when=SAM, ablations=(False,))
    ] = True
    bilstm_hidden_size: Annotated[Positive, Field("Width of each direction of the BiLSTM.", when=BILSTM)] = 256
    num_bilstm_layers: Annotated[Positive, Field("Number of layers of the BiLSTM.", when=BILSTM, ablations=(1,))] = 2
    bilstm_merge: Annotated[
        Literal["concat", "sum"], Field('Combination of its two directions: "concat" or "sum".', when=BILSTM)
    ] = "concat"
    use_fam: Annotated[
        bool,
        Field(
            "Weight the features of a text with FAM, the feature-wise attention (equations 2-4).",
            when=SAM,
            ablations=(False,),
        ),
    ] = True
    fam_reduction: Annotated[
        Positive,
        Field("Reduction of the hidden layer of FAM: its width is the number of features divided by this.", when=FAM),
    ] = 16
    fam_threshold: Annotated[
        Fraction,
        Field(
            "delta of equation 3, in [0, 1]. It is subtracted from the feature weights, and negative weights become 0."
            " Initial weights are about 0.5: with a larger delta all features may be 0, and then nothing below the"
            " classifier is trained.",
            when=FAM,
        ),
    ] = 0.0
    learn_fam_threshold: Annotated[
        bool, Field("Train delta. Its initial value is `fam_threshold`, or 0.1 if that is 0.", when=FAM)
    ] = False
    use_tam: Annotated[
        bool,
        Field(
            "Weight the tokens of a text with TAM, the token-wise attention (equations 5 and 6).",
            when=SAM,
            ablations=(False,),
        ),
    ] = True
    tam_ffn: Annotated[
        Literal["position", "token"],
        Field(
            'Network of TAM: "position" reads all positions at once; "token" reads one token at a time.',
            when=TAM,
            ablations=("token",),
        ),
    ] = "position"
    tam_max_length: Annotated[
        Positive,
        Field(
            "Number of positions that the network reads. Longer texts raise an error.",
            when={"has_tam": True, "tam_ffn": "position"},
        ),
    ] = 512
    tam_hidden_size: Annotated[
        Positive | None,
        Field(
            'Width of the hidden layer of TAM. By default `tam_max_length // 16` for "position" and 16 for "token".',
            when=TAM,
        ),
    ] = None
    tam_softmax: Annotated[
        Literal["softmax", "entmax15"],
        Field(
            'Normalization of the token weights: "softmax"; or "entmax15", which gives many tokens the weight 0. It is'
            " not in the paper.",
            when=TAM,
            ablations=("entmax15",),
        ),
    ] = "softmax"
    attention_order: Annotated[
        Literal["fam_tam", "tam_fam"],
        Field(
            '"fam_tam", features before tokens; or "tam_fam".',
            when={"has_tam": True, "use_fam": True},
            ablations=("tam_fam",),
        ),
    ] = "fam_tam"
    disan_hidden_size: Annotated[Positive, Field("Width of each direction.", when={"pooling": "disan"})] = 300
    dropout: Annotated[
        Probability,
        Field(
            "Dropout probability between the layers of the BiLSTM and before the last layer of the classification"
            " heads."
        ),
    ] = 0.1
    freeze_backbone: Annotated[
        bool,
        Field(
            "Keep the encoder fixed, without gradients or dropout. A later change takes effect at the next call of"
            " `train()`."
        ),
    ] = False
