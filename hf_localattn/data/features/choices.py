"""Model inputs for multiple choice."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from transformers import DataCollatorForMultipleChoice, PreTrainedTokenizerBase


def choice_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of rows; each input is a list with one entry per choice. `label` is kept, if present.

    An entry encodes the context and one choice. If it exceeds `max_length`, the end of the longer text is cut off.
    """
    counts = [len(choices) for choices in examples["choices"]]
    contexts = [context for context, count in zip(examples["context"], counts, strict=True) for _ in range(count)]
    choices = [choice for own in examples["choices"] for choice in own]
    encoded = tokenizer(contexts, choices, truncation=True, max_length=max_length)
    ends = list(accumulate(counts))
    features = {
        name: [values[end - count : end] for end, count in zip(ends, counts, strict=True)]
        for name, values in encoded.items()
    }
    return {**features, "label": examples["label"]} if "label" in examples else features


class MultipleChoiceCollator(DataCollatorForMultipleChoice):
    """Pad features to tensors of shape (batch, choices, length), with `labels` (batch,) if features have a label."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        if "label" in examples[0]:
            return super().torch_call(examples)
        batch = super().torch_call([{**example, "label": 0} for example in examples])  # the base class requires labels
        del batch["labels"]
        return batch
