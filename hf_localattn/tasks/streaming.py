"""Training rows that are read while the model is trained, so that they need not fit into memory or on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import datasets
import torch.utils.data
from transformers import PreTrainedTokenizerBase

from hf_localattn.data.rows import Source, stream_rows
from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.task import Task

ROWS_PER_PART = 1000
"""Number of rows that are checked and tokenized together."""

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


@dataclass(frozen=True)
class Stream:
    """Rows of a .jsonl file or of a data set.

    Args:
        name: the file, or the name of the data set for error messages.
        rows: the data set; of a file, the columns `place` and `record`.
        is_file: True for a file.
    """

    name: str
    rows: datasets.IterableDataset
    is_file: bool

    @classmethod
    def open(cls, name: str, rows: datasets.IterableDataset | None, limit: int | None) -> Stream:
        """Return the first rows of a data set, or of the file `name` if `rows` is None."""
        is_file = rows is None
        if rows is None:
            rows = datasets.IterableDataset.from_generator(_records, gen_kwargs={"path": name})
        return cls(name, rows if limit is None else rows.take(limit), is_file)

    def head(self, task: Task) -> datasets.Dataset:
        """Return the first rows, checked by the task."""
        rows = list(self.rows.take(HEAD_ROWS))
        return self._read(task, {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}, 0)

    def features(self, task: Task, tokenizer: PreTrainedTokenizerBase, seed: int) -> datasets.IterableDataset:
        """Return the features of all rows in a random order.

        Args:
            task: task whose `choose_labels` and `adapt` have been called.
            tokenizer: tokenizer of the model.
            seed: seed of the order.

        Raises:
            ValueError: a row is invalid, when it is reached.
        """
        function, arguments = task.encoder("train")

        def encode(batch: dict[str, list[Any]], numbers: list[int]) -> dict[str, list[Any]]:
            rows = self._read(task, batch, numbers[0])
            if not len(rows):
                return {}
            rows = task.prepare_rows({"train": rows})["train"]
            columns = function(rows[:], tokenizer=tokenizer, **arguments)
            features = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
            kept = [feature for feature in features if task.is_trainable(feature)]
            return {name: [feature[name] for feature in kept] for name in columns}

        parts = {"batched": True, "batch_size": ROWS_PER_PART, "with_indices": True}
        given = ["place", "record"] if self.is_file else self.rows.column_names
        return self.rows.map(encode, **parts, remove_columns=given).shuffle(seed, buffer_size=SHUFFLED_FEATURES)

    def _read(self, task: Task, batch: dict[str, list[Any]], first: int) -> datasets.Dataset:
        table: Any = list(zip(*batch.values(), strict=True))
        if not self.is_file:
            table = datasets.Dataset.from_dict(batch, features=self.rows.features)
        with _no_progress_bars():
            return task.read(Source(self.name, table, first), True)


class Passes(torch.utils.data.IterableDataset):
    """Features of a stream, again and again, in another order in each pass.

    The order depends only on the seed and on the number of workers, so that a resumed training skips what it has seen.

    Args:
        features: the features.
    """

    def __init__(self, features: datasets.IterableDataset):
        self.features = features

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in count():
            self.features.set_epoch(number)
            is_empty = True
            for feature in self.features:
                is_empty = False
                yield feature
            info = torch.utils.data.get_worker_info()
            if is_empty and (info is None or info.id == 0):
                raise ValueError("No row of the stream can be trained on.")
            if is_empty:  # fewer files than workers
                return


def _records(path: str) -> Iterator[dict[str, Any]]:
    for place, record in stream_rows(path):
        yield {"place": place, "record": record}


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Hide the progress bars of `datasets`, which would appear for each part."""
    were_shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if were_shown:
            datasets.enable_progress_bars()
