"""Training rows that are read while the model is trained, so that they need not fit into memory or on the disk."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import datasets
import torch
from transformers import PreTrainedTokenizerBase

from hf_localattn.data.rows import Source, stream_rows
from hf_localattn.tasks.arguments import DataArguments

if TYPE_CHECKING:
    from hf_localattn.tasks.task import Task

ROWS_PER_PART = 1000
"""Number of rows that are validated and tokenized together."""

HEAD_ROWS = 10_000
"""Number of rows at the start of a stream that are read before training. They give the labels."""

SHUFFLED_FEATURES = 10_000
"""Number of features that wait in memory, of which the next one is drawn."""


def check_streaming(task: type[Task], data_args: DataArguments, training_args: Any) -> None:
    """Check the arguments of a run before anything is loaded.

    Raises:
        ValueError: `--streaming` cannot be used with the task or with another argument.
    """
    if not data_args.streaming:
        return
    if not task.streams:
        raise ValueError(f"--streaming cannot be used for {task.name}, which reads all rows first: leave it out.")
    if training_args.search_space is not None:
        raise ValueError("--streaming cannot be used with --search_space: search on a part of the rows without it.")
    if not training_args.do_train:
        raise ValueError("--streaming reads training rows: give --do_train, or leave it out.")
    if training_args.max_steps < 1:
        raise ValueError("--streaming needs --max_steps, since the number of training rows is unknown.")
    for name in ("eval_strategy", "save_strategy"):
        if getattr(training_args, name) == "epoch":
            raise ValueError(f"--streaming has no epochs: give --{name} steps.")


class StreamedRows:
    """Training rows of a .jsonl file or of a data set, in parts.

    Args:
        task: task that validates the rows.
        source: the file, or the name of the data set for error messages.
        stream: the data set; None for a file.
        limit: maximum number of rows, *optional*.
    """

    def __init__(
        self, task: Task, source: str, stream: datasets.IterableDataset | None = None, limit: int | None = None
    ):
        self.task, self.source, self.stream, self.limit = task, source, stream, limit

    def head(self) -> datasets.Dataset:
        """Return the first rows.

        Raises:
            ValueError: there are no rows, or a row is invalid.
        """
        rows = self._read(0, next(self._parts(HEAD_ROWS), []))
        return rows if self.limit is None else rows.select(range(min(self.limit, len(rows))))

    def parts(self, worker: int = 0, num_workers: int = 1) -> Iterator[datasets.Dataset]:
        """Iterate over validated rows.

        Args:
            worker: number of the process that reads, from 0. It gets every `num_workers`-th part.
            num_workers: number of processes.

        Raises:
            ValueError: a row is invalid. The message names the row.
        """
        left = self.limit
        for number, rows in enumerate(self._parts(ROWS_PER_PART)):
            own = number % num_workers == worker
            if left is None and not own:
                continue
            part = self._read(number * ROWS_PER_PART, rows)
            if left is not None:  # every worker counts the rows that are not left out
                part = part.select(range(min(left, len(part))))
                left -= len(part)
            if own:
                yield part
            if left == 0:
                return

    def _parts(self, size: int) -> Iterator[list[Any]]:
        rows: Iterable[Any] = stream_rows(self.source) if self.stream is None else self.stream
        rows = iter(rows)
        while part := list(islice(rows, size)):
            yield part

    def _read(self, first: int, rows: list[Any]) -> datasets.Dataset:
        table = rows if self.stream is None else datasets.Dataset.from_list(rows, features=self.stream.features)
        with no_progress_bars():
            return self.task.read(Source(self.source, table, first), True)


class StreamedFeatures(torch.utils.data.IterableDataset):
    """Features of streamed rows, again and again, in another order in each pass.

    The order depends only on the seed and on the number of workers, so that a resumed training skips what it has seen.

    Args:
        rows: the rows.
        task: task whose `config_fields` and `adapt` have been called.
        tokenizer: tokenizer of the model.
        seed: seed of the order.
    """

    def __init__(self, rows: StreamedRows, task: Task, tokenizer: PreTrainedTokenizerBase, seed: int):
        self.rows, self.task, self.tokenizer, self.seed = rows, task, tokenizer, seed

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = torch.utils.data.get_worker_info()
        worker, num_workers = (0, 1) if info is None else (info.id, info.num_workers)
        for number in count():
            order = random.Random(f"{self.seed} {number}")
            is_empty = True
            for feature in shuffled(self._once(worker, num_workers), SHUFFLED_FEATURES, order):
                is_empty = False
                yield feature
            if is_empty and worker == 0:
                raise ValueError(f"{self.rows.source}: no row can be trained on.")
            if is_empty:  # fewer parts than workers
                return

    def _once(self, worker: int, num_workers: int) -> Iterator[dict[str, Any]]:
        function, arguments = self.task.encoder("train")
        for rows in self.rows.parts(worker, num_workers):
            if not len(rows):
                continue
            self.task.check_rows({"train": rows})
            rows = self.task.number_labels({"train": rows})["train"]
            encoded = function(rows[:], tokenizer=self.tokenizer, **arguments)
            for values in zip(*encoded.values(), strict=True):
                feature = dict(zip(encoded, values, strict=True))
                if self.task.is_trainable(feature):
                    yield feature


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Hide the progress bars of `datasets`, which would appear for each part."""
    were_shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if were_shown:
            datasets.enable_progress_bars()


def shuffled(items: Iterable[Any], size: int, order: random.Random) -> Iterator[Any]:
    """Iterate over items in random order, with `size` of them in memory."""
    waiting: list[Any] = []
    for item in items:
        if len(waiting) < size:
            waiting.append(item)
            continue
        place = order.randrange(size)
        yield waiting[place]
        waiting[place] = item
    order.shuffle(waiting)
    yield from waiting
