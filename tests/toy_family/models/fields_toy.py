"""Fields of the toy family."""

from dataclasses import dataclass
from typing import Annotated

from .fields import Count, Field, Fields, Positive, Probability


@dataclass(kw_only=True, repr=False, eq=False)
class ToyFields(Fields):
    """Fields of a toy model."""

    num_toy_layers: Annotated[Count, Field("Number of layers.", ablations=(1,))] = 2
    toy_window: Annotated[Positive, Field("Number of neighbors on each side of a token.", ablations=(2,))] = 1
    classifier_dropout: Annotated[Probability, Field("Dropout probability before the last layer.")] = 0.0
