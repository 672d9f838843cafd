"""Rows of a run: from the Hub, from files, from folds, or streamed while the model is trained."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, count, islice
from typing import Any

import datasets
import torch.utils.data
from transformers import PreTrainedTokenizerBase

from hf_localattn.data.folds import split_rows
from hf_localattn.data.rows import Data, Source, stream_rows
from hf_localattn.errors import loading
from hf_localattn.registry import FAMILIES
from hf_localattn.tasks.task import LIMITS, SPLITS, Splits, Task

logger = logging.getLogger(__name__)

QUERY_ROWS = 1000
"""Number of rows that are searched for a query."""

ROWS_PER_PART = 1000
"""Number of rows of a stream that are checked and tokenized together."""

HEAD_ROWS = 10_000
"""Number of rows at the start of a stream that are read before training. They give the labels."""

SHUFFLED_FEATURES = 10_000
"""Number of features of a stream that wait in memory, of which the next one is drawn."""


def load_splits(task: Task, parts: Mapping[str, str], **hub_arguments: Any) -> tuple[Splits, Stream | None]:
    """Load the rows of the needed splits (train, validation, test), and limit their numbers.

    If `held_out` of the data arguments is set, test and validation rows are held out from the training data unless
    their own files are given, and test rows must have labels. Of several `hub_splits` of a part, the first is named
    after the part. If training rows are streamed, the first ones are the split "train", and all are returned, too.

    Args:
        task: task that reads the rows.
        parts: needed parts, each with the option that requires it, for error messages.
        **hub_arguments: arguments of `datasets.load_dataset`.
    """
    args = task.args
    hub: Mapping[str, Any] = {}
    if args.dataset_name is not None:
        hub_arguments |= {"streaming": args.streaming}
        with loading("data set", args.dataset_name):
            hub = datasets.load_dataset(args.dataset_name, args.dataset_config_name, **hub_arguments)
    folded: Splits = {}
    if args.held_out is not None:
        held_out = [part for part in ("test", "validation") if args.files[part] is None]
        columns = {"group_column": task.group_column, "class_column": task.class_column}
        folded = split_rows(task.read(_training_data(task, hub), True), args.held_out, held_out, **columns)
    elif args.num_folds is not None:
        raise ValueError("--num_folds makes several runs: run them with hf_localattn.studies.command.run_script.")
    data: Splits = {}
    stream = None
    for part in filter(parts.__contains__, SPLITS):
        limit = getattr(args, LIMITS[part])
        limit = None if limit is None else limit + task.rows_beyond_limit
        draw = task.training_args.seed if part == "train" and args.draw_train_samples else None
        labeled = part != "test" or args.held_out is not None
        file, names = args.files[part], [name for name in task.hub_splits[part] if name in hub]
        if part in folded:
            data[part] = _limited(folded[part], limit, draw)
        elif part == "train" and args.streaming and (file or names):
            name = file or f"{args.dataset_name} ({names[0]}, in streaming order)"
            stream = Stream(name, None if file else hub[names[0]], limit)
            data[part] = stream.head(task)
        elif file:
            data[part] = _limited(task.read(file, labeled), limit, draw)
        elif names:
            for name in names:
                rows = _read_hub(task, hub[name], f"{args.dataset_name} ({name})", labeled, limit)
                data[part if name == names[0] else name] = _limited(rows, limit, draw)
        else:
            instead = f"the data set has {', '.join(hub)}" if hub else f"give --{part}_file"
            raise ValueError(f"{parts[part]} needs {part} data: {instead}.")
    return data, stream


def warn_of_no_query(split: str, features: datasets.Dataset) -> None:
    """Warn if the first rows of a split all have an empty query. Features without a query input are ignored."""
    for family in FAMILIES.values():
        if family.query not in features.column_names:
            continue
        rows = features[:QUERY_ROWS][family.query]
        masks = chain.from_iterable(([mask] if not mask or isinstance(mask[0], int) else mask) for mask in rows)
        if not any(any(mask) for mask in masks):
            logger.warning("No %s row (of the first %d) has a query: %s.", split, len(rows), family.query_advice)


def _training_data(task: Task, hub: Mapping[str, Any]) -> Data:
    """Return the file or the split that is divided into folds."""
    if task.args.train_file is not None:
        return task.args.train_file
    name, source = task.hub_splits["train"][0], task.args.dataset_name
    if name not in hub:
        raise ValueError(f"--num_folds splits the training data: the data set has {', '.join(hub)}, but no {name}.")
    logger.info("The folds use only the split %r of %s.", name, source)
    return Source(f"{source} ({name})", hub[name])


def _read_hub(task: Task, rows: Any, name: str, labeled: bool, limit: int | None) -> datasets.Dataset:
    """Return the checked rows of a data set; of a stream, at least `limit` if it has as many."""
    if isinstance(rows, datasets.Dataset):
        return task.read(Source(name, rows), labeled)
    wanted = limit
    while True:
        first = datasets.Dataset.from_list(list(islice(rows, wanted)), features=rows.features)
        kept = task.read(Source(name, first), labeled)
        if wanted is None or limit is None or len(kept) >= limit or len(first) < wanted:
            return kept
        wanted *= 2  # rows were left out


def _limited(rows: datasets.Dataset, limit: int | None, draw: int | None) -> datasets.Dataset:
    """Return the first rows up to a limit, or as many rows drawn with a seed."""
    if draw is not None:
        rows = rows.shuffle(draw)
    return rows if limit is None else rows.select(range(min(limit, len(rows))))


class Stream:
    """Training rows of the .jsonl file `name`, or of a data set with this name in error messages."""

    def __init__(self, name: str, rows: datasets.IterableDataset | None, limit: int | None):
        self.name, self.is_file = name, rows is None
        if rows is None:
            rows = datasets.IterableDataset.from_generator(_records, gen_kwargs={"path": name})
        self.rows = rows if limit is None else rows.take(limit)

    def head(self, task: Task) -> datasets.Dataset:
        """Return the first rows, checked by the task."""
        return self._read(task, next(self.rows.iter(HEAD_ROWS), {}), 0)

    def features(self, task: Task, tokenizer: PreTrainedTokenizerBase, seed: int) -> datasets.IterableDataset:
        """Return the features of all rows in a random order. An invalid row is an error when it is reached."""
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
