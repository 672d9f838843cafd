"""The model of negation that the package brings."""

from __future__ import annotations

from typing import Any

from hf_localattn.resources import FOLDER

NEGATION = FOLDER / "negation-en"


def negation_model(*, onnx: bool = False) -> tuple[Any, Any]:
    """Return the model and its tokenizer. Placeholder until the model is merged."""
    raise FileNotFoundError(f"{NEGATION} is missing.")
