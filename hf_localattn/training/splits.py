"""The splits of a run's data: from the Hub or from files, checked, no more than asked for, turned into features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets

from hf_localattn.errors import loading
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments

Data = dict[str, datasets.Dataset]

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
) -> Data:
    """Load the rows of the splits that are needed: train, validation and test, each no more than asked for.

    Args:
        read: gives the rows of a file; its second argument says whether they must have labels.
        check: gives the rows of a data set from the Hub in the form in which `read` gives a file's, likewise.
        hub_splits: names on the Hub for each part of a run. The second and further ones keep their own names.

    Raises:
        ValueError: a part of the run has no data, or they cannot be used.
        OSError: they cannot be fetched or read.
    """
    parts = {
        "train": (training_args.do_train, data_args.train_file, data_args.max_train_samples, "--do_train"),
        "validation": (training_args.do_eval, data_args.validation_file, data_args.max_eval_samples, "--do_eval"),
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
    data: Data = {}
    for part, (wanted, file, limit, option) in parts.items():
        if not wanted:
            continue
        labelled = part != "test"
        names = [name for name in hub_splits[part] if name in hub]
        if file is not None:
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
    return features


def _first(rows: datasets.Dataset, limit: int | None) -> datasets.Dataset:
    return rows if limit is None else rows.select(range(min(limit, len(rows))))
