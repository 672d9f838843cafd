"""Influence of single tokens on what a model predicts, for models without attention weights of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.families import family_of, task_of_class
from hf_localattn.inspection.maps import local_map_of
from hf_localattn.inspection.reading import Encoded, Text, encode, evaluating
from hf_localattn.inspection.weights import TokenWeights, gates_of, weighs_tokens
from hf_localattn.models.forward_inputs import accepted_inputs

ATTRIBUTED_TASKS = ("text-classification", "token-classification", "question-answering")
"""Tasks whose heads have a score for single texts."""

Score = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""Function from the outputs for B inputs to the score (B,) of what the model predicts for the whole text."""


def is_explained_by_influence(model: PreTrainedModel) -> bool:
    """Return True for a model of a family that has no weights of its own, and a head whose score tokens change.

    Its encoder's self-attention would say little about the layers that decide.
    """
    return (
        family_of(model.config) is not None
        and not has_local_weights(model.config)
        and task_of_class(type(model).__name__) in ATTRIBUTED_TASKS
    )


def has_local_weights(config: PreTrainedConfig) -> bool:
    """Return True if models with this configuration have local attention, gates or token weights."""
    return local_map_of(config) is not None or gates_of(config) is not None or weighs_tokens(config)


def token_influence(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    *,
    special_tokens: bool = False,
    batch_size: int = 16,
) -> list[TokenWeights]:
    """Compute by how much the score of the prediction falls when a token is masked (occlusion).

    The score is the logit of the predicted class; the mean of these logits over tokens for token classification; and
    the sum of the logits of the first and last token of the best answer for question answering. Tokens that speak
    against the prediction have negative values.

    Args:
        model: Model with a head for one of these tasks. It is not changed.
        tokenizer: Fast tokenizer of the model, with a mask token or a token for unknown words.
        texts: Single texts, pairs of texts, or lists of words.
        special_tokens (*optional*, defaults to False): If True, mask special tokens, too.
        batch_size (*optional*, defaults to 16): Number of masked texts per forward pass.

    Returns:
        The values of each text.

    Raises:
        ValueError: The model has no such head, the tokenizer no token that masks, or a text is too long.
    """
    task = task_of_class(type(model).__name__)
    if task not in ATTRIBUTED_TASKS:
        raise ValueError(
            f"{type(model).__name__} has no head for {', '.join(ATTRIBUTED_TASKS)}, whose score tokens could change."
        )
    mask = tokenizer.unk_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
    if mask is None:
        raise ValueError(f"{type(tokenizer).__name__} has no token that masks a word: use `kind='self'`.")
    results = []
    for text in texts:
        encoded = encode(model, tokenizer, [text], cut=False)
        shown = np.flatnonzero(encoded.is_real[0] if special_tokens else encoded.is_text[0])
        with evaluating(model), torch.inference_mode():
            outputs = _outputs(model, encoded, [])
            score = _score_of(outputs, torch.from_numpy(encoded.is_real[0]).to(model.device))
            whole = float(score(outputs))
            values: list[float] = []
            for start in range(0, len(shown), batch_size):
                masked = _outputs(model, encoded, shown[start : start + batch_size], mask)
                values += (whole - score(masked).double()).tolist()
        tokens = tuple(encoded.tokens[0][position] for position in shown)
        title = f"influence on {_predicted(model, outputs)}" if task == "text-classification" else "influence"
        results.append(TokenWeights(tokens, np.array(values), title=title))
    return results


def _outputs(
    model: PreTrainedModel, encoded: Encoded, positions: Sequence[int] | np.ndarray, mask: int = 0
) -> Mapping[str, torch.Tensor]:
    """Return the outputs for a text with one of `positions` masked in each row; without positions for the text."""
    inputs = {}
    for name, values in encoded.inputs.items():
        inputs[name] = values.repeat(max(len(positions), 1), *[1] * (values.dim() - 1)).to(model.device)
    for row, position in enumerate(positions):
        inputs["input_ids"][row, position] = mask
    outputs: Mapping[str, torch.Tensor] = model(**accepted_inputs(model, inputs), return_dict=True)
    return outputs


def _score_of(outputs: Mapping[str, torch.Tensor], is_real: torch.Tensor) -> Score:
    """Return the function that scores what these outputs (1, ...) predict."""
    if "start_logits" in outputs:
        start = outputs["start_logits"][0].masked_fill(~is_real, -torch.inf).argmax()
        end = outputs["end_logits"][0].masked_fill(~is_real, -torch.inf).argmax()
        return lambda changed: changed["start_logits"][:, start] + changed["end_logits"][:, end]
    best = outputs["logits"][0].argmax(-1)
    if best.dim() == 0:
        return lambda changed: changed["logits"][:, best]
    positions = is_real.nonzero().flatten()
    return lambda changed: changed["logits"][:, positions, best[positions]].mean(-1)


def _predicted(model: PreTrainedModel, outputs: Mapping[str, torch.Tensor]) -> str:
    """Return the predicted class in quotes, or the value of a regression."""
    logits = outputs["logits"][0]
    if len(logits) == 1:
        return f"the value {float(logits):.3g}"
    return f'"{model.config.id2label[int(logits.argmax())]}"'
