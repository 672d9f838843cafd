"""Lengths of inputs: what the arguments ask for, within what model and tokenizer can take."""

from __future__ import annotations

import logging
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.registry import family_of
from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.splits import Data

logger = logging.getLogger(__name__)


def input_length(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data_args: DataArguments, name: str = "max_seq_length"
) -> int:
    """Return the length of this name, cut (with a warning) to what model and tokenizer can take."""
    wanted, limit = getattr(data_args, name), longest_input(model, tokenizer)
    if limit is None or wanted <= limit:
        return wanted
    family = family_of(model.config)
    of_local_layers = family is not None and limit == getattr(model.config, "max_tokens", None)
    own = f" ({family.length_limit})" if family is not None and of_local_layers else ""
    logger.warning("%s %d is more than the model takes%s: using %d.", name, wanted, own, limit)
    return limit


def check_room(tokenizer: PreTrainedTokenizerBase, max_length: int, *, pair: bool) -> None:
    """Raise `ValueError` if special tokens alone fill a text, or a pair of texts."""
    special = tokenizer.num_special_tokens_to_add(pair=pair)
    if max_length <= special:
        raise ValueError(f"--max_seq_length {max_length} leaves no room for text: {special} tokens are special ones.")


def report_cut(features: Data, max_length: int) -> None:
    """Warn of inputs that are as long as can be, as they have been cut, all but a few."""
    for split, rows in features.items():
        lengths = ([ids] if not ids or isinstance(ids[0], int) else ids for ids in rows["input_ids"])
        full = sum(any(len(one) >= max_length for one in own) for own in lengths)
        if full:
            logger.warning(
                "%d of %d %s rows fill the %d tokens of --max_seq_length: what goes beyond is cut.",
                full,
                len(rows),
                split,
                max_length,
            )


def padding(data_args: DataArguments, max_length: int, multiple: int | None) -> dict[str, Any]:
    """Return a collator's arguments: how it pads.

    Args:
        data_args: `pad_to_max_length` pads to `max_length`, otherwise to the longest row of the batch.
        max_length: in tokens.
        multiple: of which padded lengths should be; None for any.
    """
    return {
        "padding": "max_length" if data_args.pad_to_max_length else True,
        "max_length": max_length if data_args.pad_to_max_length else None,
        "pad_to_multiple_of": multiple,
    }
