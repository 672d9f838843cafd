"""Training rows that are read while a model is trained (`--streaming`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import torch.utils.data

from hf_localattn.data.rows import Data, Source, check_special_tokens, stream_rows
from hf_localattn.data.words import IGNORED
from hf_localattn.tasks.task import Target, Task
from hf_localattn.training.arguments import TrainingArguments

ROWS_PER_PART = 1000
"""Number of rows of a stream that are checked and tokenized together."""

BUFFER = 10_000
"""Size of the shuffle buffer, and rows read to learn the labels."""


@dataclass(frozen=True)
class StreamedRows:
    """Rows of a .jsonl file or of a streamed data set, which a task reads part by part.

    Args:
        task: The task.
        name: Name of the file or data set.
        rows: The rows.
        is_file: Rows have a place in a file, and a record.
    """

    task: Task
    name: str
    rows: Any
    is_file: bool

    @classmethod
    def of(cls, task: Task, data: Data, limit: int | None) -> StreamedRows:
        """Return the rows of a file or data set, at most `limit`."""
        datasets.disable_progress_bars()  # there would be one for each part
        if isinstance(data, Source):
            rows: Any = data.rows
        else:
            rows = datasets.IterableDataset.from_generator(_records, gen_kwargs={"path": data})
        name = data.name if isinstance(data, Source) else str(data)
        return cls(task, name, rows if limit is None else rows.take(limit), not isinstance(data, Source))

    def head(self, layout: Any) -> tuple[datasets.Dataset, Any]:
        """Return the first rows, checked by the task, and the layout that they complete."""
        return self._read(next(self.rows.iter(BUFFER), {}), 0, layout)

    def encode(self, layout: Any, target: Target, encoding: Any, args: TrainingArguments) -> Stream:
        """Return the features. An invalid row is an error when it is reached.

        Args:
            layout: Layout of the rows.
            target: The labels.
            encoding: The tokenizer.
            args: Training arguments with the seed of the order.
        """
        make_features, arguments = self.task.encoder("train", target, encoding)

        def encode(batch: dict[str, list[Any]], indices: list[int]) -> dict[str, list[Any]]:
            rows, _ = self._read(batch, indices[0], layout)
            if not len(rows):
                return {}
            check_special_tokens(rows, self.task.input_columns, self.name, encoding.tokenizer)
            rows = self.task.prepare_rows({"train": rows}, target)["train"]
            return _labeled(make_features(rows[:], tokenizer=encoding.tokenizer, **arguments))

        features = self.rows.map(
            encode,
            batched=True,
            batch_size=ROWS_PER_PART,
            with_indices=True,
            remove_columns=["place", "record"] if self.is_file else self.rows.column_names,
        )
        seed = args.seed if args.data_seed is None else args.data_seed
        return Stream(features.shuffle(seed, buffer_size=BUFFER))

    def _read(self, batch: dict[str, list[Any]], first: int, layout: Any) -> tuple[datasets.Dataset, Any]:
        rows: Any
        if self.is_file:
            rows = list(zip(*batch.values(), strict=True))
        else:
            rows = datasets.Dataset.from_dict(batch, features=self.rows.features)
        return self.task.read(Source(self.name, rows, first), layout, labeled=True)


class Stream(torch.utils.data.IterableDataset):
    """Features of streamed rows, in another order in each pass.

    The order depends only on the seed and on the number of workers, so that a resumed training skips what it has seen.

    Args:
        features: Shuffled features of the rows of one pass.
    """

    def __init__(self, features: datasets.IterableDataset):
        self.features = features

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for epoch in itertools.count():
            self.features.set_epoch(epoch)
            is_empty = True
            for features in self.features:
                is_empty = False
                yield features
            if is_empty:
                break
        worker = torch.utils.data.get_worker_info()
        if worker is None or worker.id == 0:  # others are idle if there are fewer files than workers
            raise ValueError("No row of the stream can be trained on: check --max_seq_length.")


def _records(path: str) -> Iterator[dict[str, Any]]:
    for place, record in stream_rows(path):
        yield {"place": place, "record": record}


def _labeled(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Leave out features without a label: a sentence without a word that the model sees has no loss."""
    if "labels" not in columns:
        return dict(columns)
    is_labeled = [not np.all(np.equal(labels, IGNORED)) for labels in columns["labels"]]
    return {name: list(itertools.compress(values, is_labeled)) for name, values in columns.items()}


def check_streaming(task: type[Task], args: TrainingArguments) -> None:
    """Raise `ValueError` if `--streaming` cannot be used with the task or with another argument."""
    problem = None
    if not task.streams:
        problem = f"cannot be used for {task.name}, which reads all rows first: leave it out"
    elif args.search_space is not None:
        problem = "cannot be used with --search_space: search on a part of the rows without it"
    elif not args.do_train:
        problem = "reads training rows: give --do_train, or leave it out"
    elif args.max_steps < 1:
        problem = "needs --max_steps, since the number of training rows is unknown"
    elif args.eval_strategy == "epoch":
        problem = "has no epochs: give --eval_strategy steps"
    elif args.save_strategy == "epoch":
        problem = "has no epochs: give --save_strategy steps"
    elif args.train_sampling_strategy != "random":
        problem = "has an order of its own: leave out --train_sampling_strategy"
    if problem is not None:
        raise ValueError(f"--streaming {problem}.")
