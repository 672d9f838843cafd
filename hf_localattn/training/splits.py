"""The splits of a run's data: from the Hub, from files or from folds; checked, limited, turned into features."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import datasets

from hf_localattn.errors import loading
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.folds import split_rows

logger = logging.getLogger(__name__)

Data = dict[str, datasets.Dataset]

FIRST_ROWS = 1000
"""Rows that are looked at where the rest will be alike."""

SPLITS = {"train": ("train",), "validation": ("validation",), "test": ("test",)}
"""What each part of a run works on, and the names of its splits on the Hub; the first one is there in every set."""


def load_splits(
    model_args: ModelArguments,
    data_args: DataArguments,
    training_args: TrainingArguments,
    *,
    read: Callable[[str, bool], datasets.Dataset],
    check: Callable[[datasets.Dataset, str, bool], datasets.Dataset],
    hub_splits: Mapping[str, Sequence[str]] = SPLITS,
    group_column: str | None = None,
    class_column: str | None = None,
) -> Data:
    """Load the rows of the splits that are needed: train, validation and test, each no more than asked for.

    A run of a cross-validation (`data_args.fold`) holds test and validation out of the training data, as far as there
    is no file of them, and its test rows must have labels. Of a data set on the Hub it takes the training split alone.

    Args:
        read: gives the rows of a file; its second argument says whether they must have labels.
        check: gives the rows of a data set from the Hub in the form in which `read` gives a file's, likewise.
        hub_splits: names on the Hub for each part of a run. The second and further ones keep their own names.
        group_column: of rows that folds keep together.
        class_column: of classes that folds share out evenly, if it is a `ClassLabel`.

    Raises:
        ValueError: a part of the run has no data, or they cannot be used.
        OSError: they cannot be fetched or read.
    """
    parts = {
        "train": (training_args.do_train, data_args.train_file, data_args.max_train_samples, "--do_train"),
        "validation": (
            training_args.do_eval,
            data_args.validation_file,
            data_args.max_eval_samples,
            _asks_for_validation(training_args),
        ),
        "test": (training_args.do_predict, data_args.test_file, data_args.max_predict_samples, "--do_predict"),
    }
    hub: Mapping[str, datasets.Dataset] = {}
    if data_args.dataset_name is not None:
        with loading("data set", data_args.dataset_name):
            hub = datasets.load_dataset(
                data_args.dataset_name,
                data_args.dataset_config_name,
                cache_dir=model_args.cache_dir,
                token=model_args.token,
            )
    folded: Data = {}
    if data_args.fold is not None:
        rows = _training_rows(data_args, hub, hub_splits["train"][0], read, check)
        held_out = [part for part in ("test", "validation") if parts[part][1] is None]
        folded = split_rows(rows, data_args.fold, held_out, group_column=group_column, class_column=class_column)
    elif data_args.folds is not None:
        raise ValueError("--folds is several runs; hf_localattn.studies.command.prepare_command prepares them.")
    data: Data = {}
    for part, (wanted, file, limit, option) in parts.items():
        if not wanted:
            continue
        labelled = part != "test" or data_args.fold is not None
        names = [name for name in hub_splits[part] if name in hub]
        if part in folded:
            data[part] = _first(folded[part], limit)
        elif file is not None:
            data[part] = _first(read(file, labelled), limit)
        elif names:
            for name in names:
                rows = check(_first(hub[name], limit), f"{data_args.dataset_name} ({name})", labelled)
                data[part if name == names[0] else name] = rows
        else:
            instead = f"the data set has {', '.join(hub)}" if hub else f"give --{part}_file"
            raise ValueError(f"{option} needs {part} data: {instead}.")
    return data


def make_features(
    data: Data,
    data_args: DataArguments,
    training_args: TrainingArguments,
    function: Callable[..., Any],
    train_function: Callable[..., Any] | None = None,
    **function_arguments: Any,
) -> Data:
    """Turn the rows of every split into model inputs, by a function of a batch of rows (another one to train on)."""
    features: Data = {}
    for split, rows in data.items():
        with training_args.main_process_first(desc=f"{split} features"):
            features[split] = rows.map(
                train_function if train_function is not None and split == "train" else function,
                fn_kwargs=function_arguments,
                batched=True,
                num_proc=data_args.preprocessing_num_workers,
                remove_columns=rows.column_names,
                load_from_cache_file=not data_args.overwrite_cache,
                desc=f"Preparing {split} features",
            )
        warn_of_no_query(split, features[split])
    return features


def warn_of_no_query(split: str, features: datasets.Dataset) -> None:
    """Warn if the rows of a split ask nothing of a model that takes a query (`query_mask`), by the first of them."""
    if "query_mask" not in features.column_names:
        return
    rows = features[:FIRST_ROWS]["query_mask"]
    masks = chain.from_iterable(([mask] if not mask or isinstance(mask[0], int) else mask) for mask in rows)
    if not any(any(mask) for mask in masks):
        logger.warning(
            "No %s row (of the first %d) has a query: orthogonal attention adds nothing to single texts without the"
            " marker [CUE] before a word. Mark words, give pairs of texts, or compare with --local_config"
            " variant=none.",
            split,
            len(rows),
        )


def _training_rows(
    data_args: DataArguments,
    hub: Mapping[str, datasets.Dataset],
    name: str,
    read: Callable[[str, bool], datasets.Dataset],
    check: Callable[[datasets.Dataset, str, bool], datasets.Dataset],
) -> datasets.Dataset:
    """All rows that are shared out among folds."""
    if data_args.train_file is not None:
        return read(data_args.train_file, True)
    if name not in hub:
        raise ValueError(f"--folds splits the training data: the data set has {', '.join(hub)}, but no {name}.")
    logger.info("The folds are of the split %r of %s alone.", name, data_args.dataset_name)
    return check(hub[name], f"{data_args.dataset_name} ({name})", True)


def _asks_for_validation(training_args: TrainingArguments) -> str:
    """The option because of which there has to be something to evaluate on."""
    if training_args.search is not None:
        return "--search"
    return "--do_eval" if training_args.early_stopping_patience is None else "--early_stopping_patience"


def _first(rows: datasets.Dataset, limit: int | None) -> datasets.Dataset:
    return rows if limit is None else rows.select(range(min(limit, len(rows))))
