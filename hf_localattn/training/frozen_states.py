"""States of a frozen encoder, which runs once for each row and not in each epoch."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from pydantic import ByteSize, TypeAdapter
from torch import nn
from transformers.modeling_outputs import BaseModelOutput
from transformers.training_args import ParallelMode

from hf_localattn.training.layer_states import equal_lengths

logger = logging.getLogger(__name__)

PRECISIONS = {"full": torch.float32, "half": torch.float16}
"""Data types of kept states, by the value of `--frozen_states`."""

MEMORY = "4GiB"
"""Size of the states that are kept in memory by default."""

Group = list[tuple[bytes, np.ndarray]]
"""Rows of equal length, each with its key and its inputs (n, L), the ids of its tokens and possibly of segments."""


def frozen_base_model(model: nn.Module) -> Any:
    """Return the headless model inside `model` if its backbone is frozen and without dropout, otherwise None."""
    base: Any
    for base in model.modules():
        if hasattr(base, "backbone") and hasattr(base, "read_encoder"):
            base.train()  # a frozen backbone stays in evaluation mode
            is_trained = any(parameter.requires_grad for parameter in base.backbone.parameters())
            return None if is_trained or base.backbone.training else base
    return None


def frozen_states_of(model: nn.Module, args: Any) -> FrozenStates | None:
    """Return the states to keep in a training, none of them computed; None if the encoder runs in every step.

    Args:
        model: The model to train.
        args: Training arguments.

    Raises:
        ValueError: An option for frozen states is given, but the encoder is trained.
    """
    if not args.do_train:
        return None
    base = frozen_base_model(model)
    options = [name for name in ("frozen_states", "frozen_states_memory") if getattr(args, name) is not None]
    if base is None and options and args.frozen_states != "no":
        raise ValueError(f"--{options[0]} needs a frozen encoder, but this one is trained: leave it out.")
    reason = None
    if base is None:
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        is_mostly_frozen = 2 * trained < sum(map(torch.numel, model.parameters()))
        reason = "a part of it is trained" if is_mostly_frozen else None
    elif args.parallel_mode != ParallelMode.NOT_PARALLEL:
        reason = "its states are kept on one device only"
    if reason is not None:
        logger.info("The encoder runs in every step: %s.", reason)
    if base is None or reason is not None or args.frozen_states == "no":
        return None
    memory = TypeAdapter(ByteSize).validate_python(args.frozen_states_memory or MEMORY)
    return FrozenStates(base, PRECISIONS[args.frozen_states or "full"], memory, Path(args.output_dir))


def groups_of(features: Iterable[dict[str, Any]], computed: Container[bytes] = ()) -> Iterator[Group]:
    """Group different rows of equal length, without padding. The groups depend only on the rows.

    The last bits of a state depend on the rest of the group: a training that is resumed must form the same groups.

    Args:
        features: Rows of a data set.
        computed: Keys of rows to leave out.
    """
    rows: dict[bytes, np.ndarray] = {}
    for feature in features:
        for inputs in _inputs_of(feature):
            key = inputs.tobytes()
            if key not in computed:
                rows[key] = inputs
    different = list(rows.items())
    for group in equal_lengths([inputs.shape[1] for _, inputs in different]):
        yield [different[index] for index in group]


def _inputs_of(feature: dict[str, Any]) -> list[np.ndarray]:
    """Return the inputs of a feature, or those of each of its choices."""
    names = [name for name in ("input_ids", "token_type_ids") if name in feature]
    columns = [feature[name] for name in names]
    if columns[0] and not isinstance(columns[0][0], int):
        return [np.array(choice, np.int64) for choice in zip(*columns, strict=True)]
    return [np.array(columns, np.int64)]


class FrozenStates:
    """The states of a frozen encoder that the layers on top of it read, by row; of several layers concatenated.

    In the block of `computed`, `complete` adds them to batches, for which the encoder need not run. A batch with
    another row, or with other inputs than tokens and segments, stays as it is.

    Args:
        base: A headless model with a frozen backbone.
        precision: Data type in which states are kept.
        memory: Number of bytes to keep in memory. More states are in a temporary file.
        folder: Folder of that file, which has no name and ends with the process.
    """

    def __init__(self, base: Any, precision: torch.dtype, memory: int, folder: Path):
        self.base = base
        self.precision = precision
        self.memory = memory
        self.folder = folder
        self.bytes_in_memory = 0
        self.bytes_in_file = 0
        self.file: IO[bytes]
        self.rows: dict[bytes, torch.Tensor] = {}

    def add(self, features: Iterable[dict[str, Any]]) -> None:
        """Compute the states of the rows of a data set that are not there."""
        for group in groups_of(features, self.rows):
            states = self._stored(self._compute(group))
            self.rows |= zip([key for key, _ in group], states, strict=True)

    @torch.no_grad()
    def _compute(self, group: Group) -> torch.Tensor:
        """Return the states (B, L, F) of a group."""
        inputs = torch.from_numpy(np.stack([row for _, row in group], axis=1)).to(self.base.device)
        names = ("input_ids", "token_type_ids")[: len(inputs)]
        mask = torch.ones_like(inputs[0])
        run = self.base.forward_backbone
        outputs = self.base.read_encoder(run, attention_mask=mask, **dict(zip(names, inputs, strict=True)))
        return outputs.last_hidden_state.to("cpu", self.precision)

    def _stored(self, states: torch.Tensor) -> torch.Tensor:
        """Return states as they are if there is memory left, otherwise from a file that is mapped into memory."""
        if self.bytes_in_memory + states.nbytes <= self.memory:
            self.bytes_in_memory += states.nbytes
            return states
        array = states.numpy()
        self.file.write(array.tobytes())
        self.file.flush()
        # Mode "c" because torch warns of arrays that cannot be written.
        mapped = np.memmap(self.file, array.dtype, "c", self.bytes_in_file, array.shape)
        self.bytes_in_file += states.nbytes
        return torch.from_numpy(mapped)

    @contextmanager
    def computed(self, splits: Mapping[str, Iterable[dict[str, Any]]]) -> Iterator[None]:
        """Compute the states of features by split, and keep them in the block."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as self.file:
            for features in splits.values():
                self.add(features)
            logger.info(
                "The frozen encoder runs once for each row (%s): %d MB of states in memory, %d MB in a file in %s.",
                ", ".join(splits) or "evaluated",
                self.bytes_in_memory / 1e6,
                self.bytes_in_file / 1e6,
                self.folder,
            )
            try:
                yield
            finally:
                self.rows = {}

    def complete(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a batch with `encoder_outputs`, the states (B, L, F), 0 at padding, if those of all rows are kept."""
        names = [name for name in ("input_ids", "token_type_ids") if name in batch]
        if "attention_mask" not in batch or names[:1] != ["input_ids"] or {"position_ids", "inputs_embeds"} & {*batch}:
            return batch
        mask, *columns = (batch[name].flatten(0, -2).cpu() for name in ("attention_mask", *names))
        mask = mask != 0
        inputs = torch.stack(columns, dim=1).numpy()
        rows = [self.rows.get(row[:, real].tobytes()) for row, real in zip(inputs, mask.numpy(), strict=True)]
        if any(states is None for states in rows):
            return batch
        states = torch.cat(rows).to(self.base.dtype)  # type: ignore[arg-type]  # none is None
        padded = states.new_zeros(*mask.shape, states.shape[-1])
        padded[mask] = states
        return {**batch, "encoder_outputs": BaseModelOutput(last_hidden_state=padded.to(self.base.device))}
