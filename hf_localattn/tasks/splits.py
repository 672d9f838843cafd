"""Loading the splits of a run from the Hub, from files, or from folds."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

import datasets

from hf_localattn.data.folds import split_rows
from hf_localattn.data.rows import Source
from hf_localattn.errors import loading
from hf_localattn.registry import FAMILIES
from hf_localattn.tasks.streaming import Stream
from hf_localattn.tasks.task import SPLITS, Splits, Task

logger = logging.getLogger(__name__)

QUERY_ROWS = 1000
"""Number of rows that are searched for a query."""

LIMITS = {"train": "max_train_samples", "validation": "max_eval_samples", "test": "max_predict_samples"}
"""Name of the argument that limits the rows of each part."""


def load_splits(task: Task, parts: Mapping[str, str], **hub_arguments: Any) -> tuple[Splits, Stream | None]:
    """Load the rows of the needed splits (train, validation, test), and limit their numbers.

    If `held_out` of the data arguments is set, test and validation rows are held out from the training data unless
    their own files are given, and test rows must have labels. A data set on the Hub is then read only from its
    training split.

    Args:
        task: task that reads the rows. If a part has several `hub_splits`, the first is named after the part, and the
            rest keep their names.
        parts: needed parts, each with the option that requires it, for error messages.
        **hub_arguments: arguments of `datasets.load_dataset`.

    Returns:
        Rows by split, and all training rows if they are streamed. The first ones are then the split "train".

    Raises:
        ValueError: a part has no data, or its data are invalid.
        OSError: the data cannot be downloaded or read.
    """
    args, stream = task.args, None
    hub: Mapping[str, Any] = {}
    if args.dataset_name is not None:
        with loading("data set", args.dataset_name):
            hub = datasets.load_dataset(
                args.dataset_name, args.dataset_config_name, streaming=args.streaming, **hub_arguments
            )
    files = {part: getattr(args, f"{part}_file") for part in SPLITS}
    folded: Splits = {}
    if args.held_out is not None:
        held_out = [part for part in ("test", "validation") if files[part] is None]
        columns = {"group_column": task.group_column, "class_column": task.class_column}
        folded = split_rows(_training_rows(task, hub), args.held_out, held_out, **columns)
    elif args.num_folds is not None:
        raise ValueError("--num_folds makes several runs: run them with hf_localattn.studies.command.run_script.")
    data: Splits = {}
    for part in SPLITS:  # in this order
        if part not in parts:
            continue
        limit = getattr(args, LIMITS[part])
        if limit is not None:
            limit += task.rows_beyond_limit
        draw = task.training_args.seed if part == "train" and args.draw_train_samples else None
        labeled = part != "test" or args.held_out is not None
        names = [name for name in task.hub_splits[part] if name in hub]
        if part == "train" and args.streaming and (files[part] is not None or names):
            name = files[part] or f"{args.dataset_name} ({names[0]}, in streaming order)"
            stream = Stream.open(name, hub[names[0]] if names else None, limit)
            data[part] = stream.head(task)
        elif part in folded:
            data[part] = _limited(folded[part], limit, draw)
        elif files[part] is not None:
            data[part] = _limited(task.read(files[part], labeled), limit, draw)
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
    queries = (family.query for family in FAMILIES.values() if family.query is not None)
    for query in queries:
        if query.input not in features.column_names:
            continue
        rows = features[:QUERY_ROWS][query.input]
        masks = chain.from_iterable(([mask] if not mask or isinstance(mask[0], int) else mask) for mask in rows)
        if not any(any(mask) for mask in masks):
            logger.warning("No %s row (of the first %d) has a query: %s", split, len(rows), query.warning)


def _training_rows(task: Task, hub: Mapping[str, datasets.Dataset]) -> datasets.Dataset:
    """Return the rows that are split into folds."""
    if task.args.train_file is not None:
        return task.read(task.args.train_file, True)
    name, source = task.hub_splits["train"][0], task.args.dataset_name
    if name not in hub:
        raise ValueError(f"--num_folds splits the training data: the data set has {', '.join(hub)}, but no {name}.")
    logger.info("The folds use only the split %r of %s.", name, source)
    return task.read(Source(f"{source} ({name})", hub[name]), True)


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
