"""Reading of the splits that a run needs: files, data sets, folds, and parts of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import datasets
from transformers import TrainingArguments

from hf_localattn.data.folds import split_rows, warn_of_shared_inputs
from hf_localattn.data.rows import Data, Source
from hf_localattn.errors import loading
from hf_localattn.tasks.task import LIMITS, PARTS, Rows, Task
from hf_localattn.training.stream import StreamedRows


@dataclass(frozen=True)
class ReadRows:
    """Rows of a run.

    Args:
        rows: Rows of each split; of streamed training rows the first ones.
        layout: Layout by which the task has read them.
        stream (*optional*): The training rows, if they are streamed.
    """

    rows: Rows
    layout: Any
    stream: StreamedRows | None = None


def load_splits(task: Task, training_args: TrainingArguments, **hub_arguments: Any) -> ReadRows:
    """Load the rows of the splits that a run needs, and limit their numbers.

    With `held_out` of the data arguments, test and validation rows are held out from the training data, unless they
    have files, and test rows must have labels.

    Args:
        task: The task with its options.
        training_args: Parts of the data to load, and the seed of drawn rows.
        **hub_arguments: Arguments of `datasets.load_dataset`.
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
    keeps_input = training_args.do_predict
    layout = task.layout
    folds = Rows()
    if args.held_out is not None:
        training_rows = sources_of(task, "train", hub)["train"]
        rows, layout = task.read(training_rows, layout, labeled=True, predicted=keeps_input)
        folds = split_folds(task, rows)
    splits = Rows()
    stream = None
    for part, prefix in PARTS.items():
        if not getattr(training_args, f"do_{prefix}"):
            continue
        if part == "train" and args.streaming:
            stream = StreamedRows.of(task, sources_of(task, part, hub)[part], row_limit(task, part))
            splits[part], layout = stream.head(layout)
        elif part in folds:
            splits[part] = limited(task, part, folds[part], training_args.seed)
        else:
            is_labeled = part != "test" or args.held_out is not None
            may_be_test = keeps_input and not (is_labeled and args.held_out is None)
            for split, source in sources_of(task, part, hub).items():
                data = first_rows(source, row_limit(task, part))
                rows, layout = task.read(data, layout, labeled=is_labeled, predicted=may_be_test)
                splits[split] = limited(task, part, rows, training_args.seed)
    if stream is None:
        warn_of_shared_inputs(splits, task.input_columns)
    return ReadRows(splits, layout, stream)


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


def first_rows(source: Data, limit: int | None) -> Data:
    """Return data in memory: of a streamed split the rows up to the limit."""
    if not isinstance(source, Source) or not isinstance(source.rows, datasets.IterableDataset):
        return source
    rows = source.rows
    read = list(rows if limit is None else rows.take(limit))
    return Source(source.name, datasets.Dataset.from_list(read, features=rows.features))


def split_folds(task: Task, rows: datasets.Dataset) -> Rows:
    """Hold out training rows for the parts that have no file of their own."""
    args = task.args
    held_out = [part for part in ("test", "validation") if args.files[part] is None]
    return split_rows(
        rows,
        args.held_out,
        held_out,
        inputs=task.input_columns,
        group_column=task.group_column,
        class_column=task.class_column,
    )


def row_limit(task: Task, part: str) -> int | None:
    """Return the number of rows to load of a part; None for all."""
    limit = getattr(task.args, LIMITS[part])
    return None if limit is None else limit + task.rows_beyond_limit


def limited(task: Task, part: str, rows: datasets.Dataset, seed: int) -> datasets.Dataset:
    """Return the first rows of a part up to its limit, or drawn ones."""
    if part == "train" and task.args.draw_train_samples:
        rows = rows.shuffle(seed)
    limit = row_limit(task, part)
    return rows if limit is None else rows.select(range(min(limit, len(rows))))
