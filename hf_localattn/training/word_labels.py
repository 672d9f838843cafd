"""Labelled sentences of a run, and the labels that its model knows, in their order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain

import datasets

from hf_localattn.data.rows.sentences import (
    TokenColumns,
    check_labels,
    class_names,
    format_labels,
    load_sentences,
    normalize_sentences,
    sorted_labels,
)
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.models import head_config
from hf_localattn.training.splits import Data, load_splits

logger = logging.getLogger(__name__)


def load_labelled(
    model_args: ModelArguments,
    data_args: DataArguments,
    training_args: TrainingArguments,
    columns: TokenColumns,
) -> tuple[Data, list[str]]:
    """Load the sentences of a run, and choose the labels of its model.

    The labels are those of `columns.names`, else those that the data set names, else those in the training data (and
    those that its format names), sorted. A model that knows them all keeps its own, in its order; without training it
    has to.

    Raises:
        ValueError: sentences cannot be used, a label is not among those, or labels and model do not go together.
        OSError: something cannot be fetched or read.
    """
    declared = list(columns.names or ())
    found: set[str] = set()

    def read(path: str, labelled: bool) -> datasets.Dataset:
        sentences = load_sentences(path, columns, require_labels=labelled, skip_empty=data_args.skip_empty)
        if path == data_args.train_file:  # all of it, even if no more than max_train_samples are used
            found.update(chain.from_iterable(sentences["labels"]), format_labels(path))
        return sentences

    def check(rows: datasets.Dataset, name: str, labelled: bool) -> datasets.Dataset:
        if not declared:
            declared.extend(class_names(rows, columns) or ())
        return normalize_sentences(rows, name, columns, require_labels=labelled, skip_empty=data_args.skip_empty)

    data = load_splits(model_args, data_args, training_args, read=read, check=check)
    if not declared and "train" in data:
        # Folds are all of the training rows.
        for split in data if data_args.fold is not None and data_args.dataset_name is not None else ("train",):
            found.update(chain.from_iterable(data[split]["labels"]))
    names = choose_names(
        declared or sorted_labels(found),
        checkpoint_names(model_args),
        trained=training_args.do_train,
        may_be_fresh=model_args.ignore_mismatched_sizes,
    )
    files = {"train": data_args.train_file, "validation": data_args.validation_file, "test": data_args.test_file}
    for split, sentences in data.items():
        check_labels(sentences, files.get(split) or f"{data_args.dataset_name} ({split})", names)
    return data, names


def choose_names(of_data: Sequence[str], of_model: Sequence[str], *, trained: bool, may_be_fresh: bool) -> list[str]:
    """Return the labels of a model by number: its own if it knows all of the data's, else the data's.

    Args:
        of_data: the labels that the data may have; none if unknown.
        of_model: those of the checkpoint's head; none if its head is a fresh one.
        trained: whether the model is trained on the data, and can learn others.
        may_be_fresh: whether a head of another size starts afresh.

    Raises:
        ValueError: no label is known, or those of data and model do not go together.
    """
    numbered = list(of_model) == [f"LABEL_{number}" for number in range(len(of_model))]
    if not of_data and numbered:
        raise ValueError("It is not known which labels there are: the model names none; give --label_names_file.")
    if set(of_data) <= set(of_model):
        return list(of_model)
    if of_model and not numbered and not trained:
        unknown = sorted(set(of_data) - set(of_model))
        raise ValueError(
            f"The model knows {', '.join(of_model)}, but the data have {', '.join(unknown)}: choose a model that was"
            " trained on such labels, or train it by --do_train."
        )
    if of_model and len(of_model) != len(of_data) and not may_be_fresh:
        raise ValueError(
            f"The model has a head for {len(of_model)} labels, but the data have {len(of_data)}"
            f" ({', '.join(of_data)}): pass --ignore_mismatched_sizes to start its head afresh."
        )
    if of_model and not numbered:
        logger.warning("The model knows %s; taking them for %s.", ", ".join(of_model), ", ".join(of_data))
    return list(of_data)


def checkpoint_names(model_args: ModelArguments) -> list[str]:
    """Return the labels of the token classifier that a run starts from; none if its head is a fresh one."""
    config = head_config(model_args, "ForTokenClassification")
    return [config.id2label[number] for number in sorted(config.id2label)] if config is not None else []
