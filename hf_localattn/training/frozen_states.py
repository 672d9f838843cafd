"""States of a frozen encoder, which runs once for each row and not in each epoch."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ByteSize, TypeAdapter
from torch import nn
from transformers.modeling_outputs import BaseModelOutput
from transformers.training_args import ParallelMode

logger = logging.getLogger(__name__)

PRECISIONS = {"full": torch.float32, "half": torch.float16}
"""Data types of kept states, by the value of `--frozen_states`."""

MEMORY = "4GiB"
"""Size of the states that are kept in memory by default."""

TOKENS_PER_GROUP = 4096
"""Number of tokens that a frozen encoder reads at a time."""

Group = list[tuple[bytes, np.ndarray]]
"""Rows of equal length, each with its key and its inputs (n, L), the ids of its tokens and possibly of segments."""


def frozen_base_model(model: nn.Module) -> Any:
    """Return the headless model inside `model` if its backbone is frozen and without dropout, otherwise None."""
    for base in model.modules():
        if hasattr(base, "backbone") and hasattr(base, "forward_backbone"):
            base.train()  # a frozen backbone stays in evaluation mode
            is_trained = any(parameter.requires_grad for parameter in base.backbone.parameters())
            return None if is_trained or base.backbone.training else base
    return None


def frozen_states_of(model: nn.Module, args: Any) -> FrozenStates | None:
    """Return the states to keep in a training, none of them computed; None if the encoder runs in every step.

    Args:
        model: the model to train.
        args: training arguments.

    Raises:
        ValueError: an option for frozen states is given, but the encoder is trained.
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
        features: rows of a data set.
        computed: keys of rows to leave out.
    """
    rows: dict[bytes, np.ndarray] = {}
    for feature in features:
        for inputs in _inputs_of(feature):
            key = inputs.tobytes()
            if key not in computed:
                rows[key] = inputs
    group: Group = []
    for key, inputs in sorted(rows.items(), key=lambda row: row[1].shape[1]):
        length = inputs.shape[1]
        is_full = (len(group) + 1) * length > TOKENS_PER_GROUP
        if group and (is_full or group[0][1].shape[1] != length):
            yield group
            group = []
        group.append((key, inputs))
    if group:
        yield group


def _inputs_of(feature: dict[str, Any]) -> list[np.ndarray]:
    """Return the inputs of a feature, or those of each of its choices."""
    names = [name for name in ("input_ids", "token_type_ids") if name in feature]
    columns = [feature[name] for name in names]
    if columns[0] and not isinstance(columns[0][0], int):
        return [np.array(choice, np.int64) for choice in zip(*columns, strict=True)]
    return [np.array(columns, np.int64)]


class FrozenStates:
    """The last hidden states of a frozen encoder, by row.

    `add` computes the states of rows. In the block of `reading`, the model reads them in place of running its encoder.
    A batch with another row, or with other inputs than tokens and segments, runs the encoder.

    Args:
        base: a headless model with a frozen backbone.
        precision: data type in which states are kept.
        memory: number of bytes to keep in memory. The rows of an `add` that exceeds it are in a file.
        folder: folder of that temporary file, which is memory-mapped and has no name.
    """

    def __init__(self, base: Any, precision: torch.dtype, memory: int, folder: Path):
        self.base = base
        self.precision = precision
        self.memory = memory
        self.folder = folder
        self.bytes_in_memory = 0
        self.rows: dict[bytes, torch.Tensor] = {}
        self.run_encoder = base.forward_backbone

    def add(self, features: Iterable[dict[str, Any]]) -> int:
        """Compute the states of the rows of a data set that are not there, and return their number of bytes."""
        groups = list(groups_of(features, self.rows))
        tokens = sum(inputs.shape[1] for _, inputs in chain.from_iterable(groups))
        size = tokens * self.base.config.backbone_config.hidden_size * self.precision.itemsize
        if self.bytes_in_memory + size <= self.memory:
            self.bytes_in_memory += size
            for group in groups:
                self.rows |= zip([key for key, _ in group], self._compute(group), strict=True)
        elif groups:
            self._write(groups)
        return size

    @torch.no_grad()
    def _compute(self, group: Group) -> torch.Tensor:
        """Return the states (B, L, H) of a group."""
        inputs = torch.from_numpy(np.stack([row for _, row in group], axis=1)).to(self.base.device)
        token_types = inputs[1] if len(inputs) > 1 else None
        outputs = self.run_encoder(inputs[0], torch.ones_like(inputs[0]), token_types, None, None)
        return outputs.last_hidden_state.to("cpu", self.precision)

    def _write(self, groups: list[Group]) -> None:
        """Compute the states of groups into a file, and map it into memory."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            for group in groups:
                file.write(self._compute(group).numpy().tobytes())
            file.flush()
            dtype = np.dtype(str(self.precision).removeprefix("torch."))
            states = torch.from_numpy(np.memmap(file, dtype, "c"))  # "c": torch warns of arrays that are read-only
        states = states.view(-1, self.base.config.backbone_config.hidden_size)
        start = 0
        for key, inputs in chain.from_iterable(groups):
            self.rows[key] = states[start : start + inputs.shape[1]]
            start += inputs.shape[1]

    def mean_states(self, features: Iterable[dict[str, Any]]) -> np.ndarray:
        """Return the mean state (N, H) of each row of a data set of texts. `add` has computed the states."""
        means = [self.rows[_inputs_of(feature)[0].tobytes()].float().mean(0) for feature in features]
        return torch.stack(means).numpy()

    @contextmanager
    def reading(self, splits: Mapping[str, Iterable[dict[str, Any]]]) -> Iterator[None]:
        """Compute the states of features by split, and let the model read them in the block."""
        size = sum(map(self.add, splits.values()))
        places = "memory" if size == self.bytes_in_memory else f"memory and {self.folder}"
        logger.info(
            "The frozen encoder runs once for each %s row: %d MB of states are kept in %s.",
            " and ".join(splits) or "evaluated",
            size / 1e6,
            places,
        )
        self.base.forward_backbone = torch.compiler.disable(self._read)
        try:
            yield
        finally:
            del self.base.forward_backbone  # that of the class is left

    def _read(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        *more: torch.Tensor | None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Return the states of a batch, 0 at padding."""
        is_plain = all(value is None or value is False for value in (*more, *kwargs.values()))
        states = None
        if input_ids is not None and attention_mask is not None and is_plain:
            states = self._states_of(input_ids, attention_mask != 0, token_type_ids)
        if states is None:
            return self.run_encoder(input_ids, attention_mask, token_type_ids, *more, **kwargs)
        return BaseModelOutput(last_hidden_state=states)

    def _states_of(
        self, input_ids: torch.Tensor, mask: torch.Tensor, token_type_ids: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Return the states (B, L, H) of a batch; None if those of a row are not there."""
        inputs = torch.stack([input_ids] if token_type_ids is None else [input_ids, token_type_ids], dim=1)
        rows = []
        for row, is_token in zip(inputs.cpu().numpy(), mask.cpu().numpy(), strict=True):
            states = self.rows.get(row[:, is_token].tobytes())
            if states is None:
                return None
            rows.append(states)
        states = torch.cat(rows).to(self.base.device, self.base.dtype)
        padded = states.new_zeros(*mask.shape, states.shape[-1])
        padded[mask] = states
        return padded
