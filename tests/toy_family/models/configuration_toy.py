"""Configuration of the toy family."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from .configuration_local_attention import LocalAttentionConfig

if TYPE_CHECKING:
    # Never run: see configuration_cool.py.
    from .modeling_toy import ToyModel  # noqa: F401


class ToyConfig(LocalAttentionConfig):
    """Configuration of the toy family.

    Args:
        num_toy_layers: layers of window attention.
        toy_window: tokens on either side that a token attends to.
        classifier_dropout: dropout before the last layer of the heads.
    """

    model_type = "toy"
    tested_backbones: ClassVar[Sequence[str]] = ("bert",)

    num_toy_layers: int = 2
    toy_window: int = 1
    classifier_dropout: float = 0.0

    @property
    def num_active_local_layers(self) -> int:
        """Number of layers with local attention weights."""
        return self.num_toy_layers

    def check_fields(self) -> None:
        self._check_at_least("num_toy_layers", 0)
        self._check_at_least("toy_window", 1)
        self._check_number("classifier_dropout", 0.0, 1.0)
