"""Input lengths: the requested lengths, limited by model and tokenizer."""

from __future__ import annotations

import logging
from typing import Any

import datasets
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.registry import family_of
from hf_localattn.tasks.arguments import DataArguments

logger = logging.getLogger(__name__)


def input_length(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data_args: DataArguments, name: str = "max_seq_length"
) -> int:
    """Return the argument `name`, limited (with a warning) to the longest input of model and tokenizer."""
    wanted, limit = getattr(data_args, name), longest_input(model, tokenizer)
    if limit is None or wanted <= limit:
        return wanted
    family = family_of(model.config)
    of_local_layers = family is not None and limit == getattr(model.config, "max_tokens", None)
    own = f" ({family.length_limit})" if family is not None and of_local_layers else ""
    logger.warning("%s %d is more than the model takes%s: using %d.", name, wanted, own, limit)
    return limit


def check_room(tokenizer: PreTrainedTokenizerBase, max_length: int, *, pair: bool) -> None:
    """Raise `ValueError` if special tokens leave no room for text in `max_length`."""
    special = tokenizer.num_special_tokens_to_add(pair=pair)
    if max_length <= special:
        raise ValueError(
            f"--max_seq_length {max_length} leaves no room for text: {special} tokens are special ones; choose more."
        )


def report_cut(split: str, features: datasets.Dataset, max_length: int) -> None:
    """Warn of inputs of maximum length: nearly all of these inputs have been cut."""
    lengths = ([ids] if not ids or isinstance(ids[0], int) else ids for ids in features["input_ids"])
    if full := sum(any(len(one) >= max_length for one in own) for own in lengths):
        message = "%d of %d %s rows fill the %d tokens of --max_seq_length: longer inputs are cut."
        logger.warning(message, full, len(features), split, max_length)


def padding(data_args: DataArguments, max_length: int, multiple: int | None) -> dict[str, Any]:
    """Return the padding arguments of a collator.

    Args:
        data_args: if `pad_to_max_length` is set, pad to `max_length`, otherwise to the longest row of the batch.
        max_length: maximum number of tokens.
        multiple: pad to a multiple of this number, if not None.
    """
    return {
        "padding": "max_length" if data_args.pad_to_max_length else True,
        "max_length": max_length if data_args.pad_to_max_length else None,
        "pad_to_multiple_of": multiple,
    }
