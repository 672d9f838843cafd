"""Reading of the splits that a run needs: files, data sets, folds, and parts of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets

from hf_localattn.data.folds import split_rows, warn_of_shared_inputs
from hf_localattn.data.rows import Data, Source
from hf_localattn.errors import loading
from hf_localattn.tasks.stream import Stream
from hf_localattn.tasks.task import LIMITS, PARTS, Splits, Task


def load_splits(task: Task, **hub_arguments: Any) -> tuple[Splits, Stream | None]:
    """Load the rows of the splits that a run needs, and limit their numbers.

    With `held_out` of the data arguments, test and validation rows are held out from the training data, unless they
    have files, and test rows must have labels. If training rows are streamed, the split "train" has the first ones.

    Args:
        task: The task with its arguments.
        **hub_arguments: Arguments of `datasets.load_dataset`.

    Returns:
        The splits, and the stream of the training rows, or None.
    """
    args = task.args
    if args.num_folds is not None and args.held_out is None:
        raise ValueError("--num_folds makes several runs: run them with hf_localattn.studies.command.run_task.")
    hub: Mapping[str, Any] = {}
    if args.dataset_name is not None:
        with loading("data set", args.dataset_name):
            hub = datasets.load_dataset(
                args.dataset_name,
                args.dataset_config_name,
                streaming=args.streaming,
                **hub_arguments,
            )
    folds = {} if args.held_out is None else read_folds(task, hub)
    data = Splits()
    stream = None
    for part, prefix in PARTS.items():
        if not getattr(task.training_args, f"do_{prefix}"):
            continue
        if part == "train" and args.streaming:
            stream = Stream(task, sources_of(task, part, hub)[part], row_limit(task, part))
            data[part] = stream.head()
        elif part in folds:
            data[part] = limited(task, part, folds[part])
        else:
            for split, source in sources_of(task, part, hub).items():
                data[split] = limited(task, part, read_split(task, part, source))
    if stream is None:
        warn_of_shared_inputs(data)
    return data, stream


def sources_of(task: Task, part: str, hub: Mapping[str, Any]) -> dict[str, Data]:
    """Return the file of a part of the data, or its splits on the Hub, by name of the split in the run.

    The first split of a part on the Hub is named after the part.

    Raises:
        ValueError: There are no data for the part.
    """
    args = task.args
    if file := args.files[part]:
        return {part: file}
    possible = (part, f"{part}_matched", f"{part}_mismatched")  # MNLI has the latter two
    names = [name for name in possible if name in hub]
    if not names:
        instead = f"the data set has {', '.join(hub)}" if hub else f"give --{part}_file"
        option = f"--do_{PARTS[part]}"
        if part == "validation":
            option = "--do_eval, --early_stopping_patience or --search_space"
        raise ValueError(f"{option} needs {part} data: {instead}.")
    sources: dict[str, Data] = {}
    for name in names:
        split = name if sources else part
        sources[split] = Source(f"{args.dataset_name} ({name})", hub[name])
    return sources


def read_split(task: Task, part: str, source: Data) -> datasets.Dataset:
    """Read the rows of a split. Those of a streamed split are read up to the limit."""
    if isinstance(source, Source) and isinstance(source.rows, datasets.IterableDataset):
        rows = source.rows
        limit = row_limit(task, part)
        first_rows = list(rows if limit is None else rows.take(limit))
        source = Source(source.name, datasets.Dataset.from_list(first_rows, features=rows.features))
    is_labeled = part != "test" or task.args.held_out is not None
    return task.read(source, is_labeled)


def read_folds(task: Task, hub: Mapping[str, Any]) -> Splits:
    """Read the training data, and hold out the rows of the parts that have no file of their own."""
    args = task.args
    rows = task.read(sources_of(task, "train", hub)["train"], True)
    held_out = [part for part in ("test", "validation") if args.files[part] is None]
    return split_rows(
        rows,
        args.held_out,
        held_out,
        group_column=task.group_column,
        class_column=task.class_column,
    )


def row_limit(task: Task, part: str) -> int | None:
    """Return the number of rows to load of a part; None for all."""
    limit = getattr(task.args, LIMITS[part])
    return None if limit is None else limit + task.rows_beyond_limit


def limited(task: Task, part: str, rows: datasets.Dataset) -> datasets.Dataset:
    """Return the first rows of a part up to its limit, or drawn ones."""
    if part == "train" and task.args.draw_train_samples:
        rows = rows.shuffle(task.training_args.seed)
    limit = row_limit(task, part)
    return rows if limit is None else rows.select(range(min(limit, len(rows))))
