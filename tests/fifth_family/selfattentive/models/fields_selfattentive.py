"""Fields of structured self-attentive embeddings."""

from dataclasses import dataclass
from typing import Annotated

from .fields import Field, Fields, NonNegative, Positive, Probability


@dataclass(kw_only=True, repr=False, eq=False)
class SelfAttentiveFields(Fields):
    """Fields of a self-attentive model."""

    hops: Annotated[Positive, Field("Number of attentions over a text, r of equation 6.", ablations=(1,))] = 30
    attention_size: Annotated[Positive, Field("Width of the hidden layer of the attention, d_a of equation 6.")] = 350
    penalty: Annotated[
        NonNegative, Field("Weight of the penalty of equation 8 in the sum with the task loss.", ablations=(0.0,))
    ] = 1.0
    use_bilstm: Annotated[
        bool, Field("Put a BiLSTM between the encoder and the attention, as in the paper.", ablations=(False,))
    ] = True
    bilstm_hidden_size: Annotated[
        Positive, Field("Width of each direction of the BiLSTM.", when={"use_bilstm": True})
    ] = 300
    classifier_dropout: Annotated[Probability, Field("Dropout probability before the last layer of the heads.")] = 0.1
