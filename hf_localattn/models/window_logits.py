"""Start and end logits of windows from any question-answering model.

Shapes: B windows, L tokens of the longest window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from .forward_inputs import accepted_inputs


def window_logits(
    model: Any, tokenizer: PreTrainedTokenizerBase, windows: Sequence[Mapping[str, Any]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the start and end logits (B, L) of windows, padded on the side where the tokenizer pads.

    Args:
        model: a model with the outputs `start_logits` and `end_logits`.
        tokenizer: pads the windows; a single window is not padded.
        windows: inputs of each window, one value per token.
        device: the device of the model.

    Raises:
        ValueError: the model has other outputs.
    """
    if len(windows) > 1:
        batch = dict(tokenizer.pad(list(windows), return_tensors="pt", verbose=False))
    else:
        batch = {name: torch.tensor([values]) for name, values in windows[0].items()}
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    output = model(**accepted_inputs(model, batch), return_dict=True)
    if not isinstance(output, Mapping) or not {"start_logits", "end_logits"} <= set(output):
        raise ValueError(
            f"{type(model).__name__} gives no start_logits and end_logits; load the checkpoint with a"
            " question-answering class, such as AutoModelForQuestionAnswering."
        )
    return output["start_logits"].float(), output["end_logits"].float()


def without_pads(logits: torch.Tensor, length: int, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """Return the logits of the `length` tokens of one window, without padding."""
    return logits[:length] if tokenizer.padding_side == "right" else logits[len(logits) - length :]
