"""Token classification: named entities, parts of speech, chunks, errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from transformers import DataCollatorForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.negation import OPTIONS
from hf_localattn.data.rows import Data, Source, row_numbers
from hf_localattn.data.texts import SINGLE_LABEL, Labels
from hf_localattn.data.words import (
    CONLLU_COLUMNS,
    IGNORED,
    UNSPECIFIED,
    TokenColumns,
    check_labels,
    class_names,
    format_labels,
    load_label_names,
    load_sentences,
    prepare_tokenizer,
    sorted_labels,
    word_features,
)
from hf_localattn.files import atomic_write
from hf_localattn.metrics.classification_scores import LOWER_IS_BETTER
from hf_localattn.metrics.word_scores import select_metrics
from hf_localattn.tasks.arguments import DataArguments, option
from hf_localattn.tasks.labels import choose_labels, label_fields
from hf_localattn.tasks.lengths import input_length, padding
from hf_localattn.tasks.task import Checkpoint, Scored, Splits, Task

logger = logging.getLogger(__name__)

PREDICTIONS = "predictions.txt"
NEGATION = "negation"
"""Value of `task_name` for `hf_localattn.tasks.negation`."""


@dataclass
class TokenClassificationDataArguments(DataArguments):
    """Data arguments for token classification.

    Files are `.json` or `.jsonl` (rows with lists), `.conllu`, `.xml` (CGED), or column files (`.conll`, `.txt`,
    `.tsv`, `.bio`, `.iob`).
    """

    task_name: str = field(
        default="ner",
        metadata={
            "aliases": ["--task"],
            "help": "Labels are in the column <task_name>_tags, such as ner, pos or chunk. With negation, the words "
            "in the scope of a given cue are found; data with part-of-speech tags also get the scores of *SEM 2012.",
        },
    )
    text_column_name: str | None = option(None, "Column with the lists of words; default: tokens.")
    label_column_name: str | None = option(
        None, "Column with the lists of labels; default: <task_name>_tags, or labels."
    )
    label_column_index: int = option(-1, "Index of the labels' column in a column file; -1: the last one.")
    conllu_column: str = option("upos", f"Column with the labels in a CoNLL-U file: {' or '.join(CONLLU_COLUMNS)}.")
    label_names_file: str | None = option(
        None,
        ".json file with a list of all labels, or an object with such a list per column; labels may be its indices.",
    )
    label_all_tokens: bool = option(
        False, "Train on all tokens of a word (with I- instead of B- after the first), not only on the first one."
    )
    return_entity_level_metrics: bool = option(
        False,
        "Report precision, recall and F1 of each type of entity, or of each label, in addition to the overall ones.",
    )
    cues: str = option("negation", f"With --task negation: kind of cues, {' or '.join(OPTIONS['cues'])}.")
    detect_cues: bool = option(
        False, "With --task negation: train one model that finds the cues of a sentence, too, not only their scopes."
    )
    cue_in_scope: str = option(
        "never", "With --task negation: never removes the cue's words from its scope; corpus keeps the scope."
    )
    unmatched_scopes: str = option(
        "error", "With --task negation: scopes without a cue raise an error, or are dropped with a warning (skip)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.conllu_column not in CONLLU_COLUMNS:
            raise ValueError(f"--conllu_column must be {' or '.join(CONLLU_COLUMNS)}; got {self.conllu_column!r}.")
        for name, choices in OPTIONS.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"--{name} must be {' or '.join(choices)}; got {getattr(self, name)!r}.")
            self._check_task(name, for_negation=True)
        self._check_task("detect_cues", for_negation=True)
        if self.detect_cues and self.draw_train_samples:
            raise ValueError("--draw_train_samples cannot be used with --detect_cues: it draws parts of sentences.")
        for name in ("text_column_name", "label_column_name", "label_names_file", "return_entity_level_metrics"):
            self._check_task(name, for_negation=False)

    def _check_task(self, name: str, *, for_negation: bool) -> None:
        """Raise `ValueError` if an option is given that the task does not use."""
        given = getattr(self, name) != type(self).__dataclass_fields__[name].default
        if given and for_negation != (self.task_name == NEGATION):
            what = "can only be used" if for_negation else "cannot be used"
            raise ValueError(f"--{name} {what} with --task {NEGATION}: leave it out, or change --task.")


class TokenClassification(Task):
    """Prediction of one label per word.

    The labels come from `--label_names_file`, or else from the declaration of the data set. If nothing is declared,
    the labels of the training data and of the file format are used, sorted. A model with all of these labels keeps its
    label set and order.
    """

    name = model_task = "token-classification"
    head = "ForTokenClassification"
    DataArguments = TokenClassificationDataArguments
    scores_tokens = True
    streams = True
    args: TokenClassificationDataArguments
    names: list[str]

    def __init__(self, args: TokenClassificationDataArguments, training_args: Any):
        super().__init__(args, training_args)
        self.columns = columns_of(args)
        self._declared = list(self.columns.names or ())
        self._found: set[str] = set()
        self._visible: dict[str, list[list[int]]] = {}
        """Indices of the words that the model sees, per split and sentence."""

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        if isinstance(data, Source) and isinstance(data.rows, datasets.Dataset) and not self._declared:
            self._declared.extend(class_names(data.rows, self.columns) or ())
        sentences = load_sentences(data, self.columns, require_labels=labeled, skip_empty=self.args.skip_empty)
        name = data.name if isinstance(data, Source) else data
        if name == self.args.train_file:  # all rows, even if max_train_samples uses only some
            self._found.update(chain.from_iterable(sentences["labels"]), format_labels(name))
        return sentences

    def choose_labels(self, data: Splits, checkpoint: Checkpoint) -> dict[str, Any]:
        if not self._declared and "train" in data:
            # the splits of a fold are all parts of the training rows
            for split in data if self.args.held_out is not None and self.args.dataset_name is not None else ("train",):
                self._found.update(chain.from_iterable(data[split]["labels"]))
        names = self._declared or sorted_labels(self._found)
        own = Labels(SINGLE_LABEL, tuple(names)) if names else None
        self.names = list(choose_labels(own, checkpoint, trained=self.training_args.do_train).names)
        self.score_words, reported = select_metrics(self.names)
        self.metrics = {name: name not in LOWER_IS_BETTER for name in ("loss", *reported)}
        logger.info("Predicting one of %d labels of each word: %s.", len(self.names), ", ".join(self.names))
        if all(name.isdecimal() for name in self.names):
            logger.warning(
                "The labels are numbers, so words are scored one by one. If they mark entities, name them in a"
                " --label_names_file."
            )
        return label_fields(self.names)

    def prepare_rows(self, data: Splits) -> Splits:
        """Return the rows as they are, since `encoder` numbers labels; raise `ValueError` for unknown labels."""
        args = self.args
        files = {"train": args.train_file, "validation": args.validation_file, "test": args.test_file}
        for split, sentences in data.items():
            check_labels(sentences, files.get(split) or f"{args.dataset_name} ({split})", self.names)
        return data

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        prepare_tokenizer(tokenizer)
        self.max_length = input_length(model, tokenizer, self.args)

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        label_ids = {name: number for number, name in enumerate(self.names)}
        every = self.args.label_all_tokens and split == "train"
        return word_features, {"max_length": self.max_length, "label_ids": label_ids, "label_all_tokens": every}

    def is_trainable(self, feature: Mapping[str, Any]) -> bool:
        return bool(feature["visible_word_ids"])

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        """Return the features of sentences with a word that the model sees. Other sentences would have no loss."""
        self._visible[split] = list(features["visible_word_ids"])
        features = drop_unseen_words(split, rows, features, self.max_length)
        # Without labels there is no loss: the column only marks the first tokens of words.
        return features if any(rows["labels"]) else features.rename_column("labels", "marks")

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        return DataCollatorForTokenClassification(tokenizer, **padding(self.args, self.max_length, multiple))

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the index of the best label of each token (batch, tokens), from logits (batch, tokens, labels)."""
        return (outputs[0].argmax(dim=-1),)

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the label of each word that the model sees, for sentences with such words, and the scores."""
        features = self.features[split]
        is_labeled = "labels" in features.column_names
        marks = [np.asarray(row) for row in features["labels" if is_labeled else "marks"]]
        predictions = [
            [self.names[number] for number in row[: len(own)][own != IGNORED]]
            for row, own in zip(outputs, marks, strict=True)
        ]
        if not is_labeled:
            return Scored(predictions, {})
        references = [[self.names[number] for number in own[own != IGNORED]] for own in marks]
        each = self.args.return_entity_level_metrics
        scores = self.score_words(predictions, references, each=each)
        return Scored(predictions, scores, pair=(predictions, references))

    def write_predictions(self, folder: Path, split: str, prefix: str, predictions: Any) -> None:
        """Write the labels of each sentence to a line of `predictions.txt`, separated by spaces.

        Words that the model does not see get "O" if it is a label, otherwise "_". Sentences left out by `--skip_empty`
        get a blank line.
        """
        unseen = "O" if "O" in self.names else UNSPECIFIED
        rows, predicted = self.rows[split], iter(predictions)
        lines = {}
        for number, tokens, seen in zip(row_numbers(rows), rows["tokens"], self._visible[split], strict=True):
            labels = dict(zip(seen, next(predicted) if seen else (), strict=True))
            lines[number] = " ".join(labels.get(word, unseen) for word in range(len(tokens)))
        kept = (lines.get(number, "") for number in range(max(lines) + 1))
        atomic_write(folder / PREDICTIONS, "".join(f"{line}\n" for line in kept))


def columns_of(data_args: TokenClassificationDataArguments) -> TokenColumns:
    """Return the names of the columns, and the label names if there is a `--label_names_file`."""
    columns = TokenColumns(
        text=data_args.text_column_name,
        label=data_args.label_column_name,
        task=data_args.task_name,
        conll=data_args.label_column_index,
        conllu=data_args.conllu_column,
    )
    if data_args.label_names_file is None:
        return columns
    return replace(columns, names=load_label_names(data_args.label_names_file, columns))


def drop_unseen_words(
    split: str, sentences: datasets.Dataset, features: datasets.Dataset, max_length: int
) -> datasets.Dataset:
    """Drop the features of sentences without a word that the model sees, and log the number of unseen words.

    Raises:
        ValueError: the model sees no word of any sentence.
    """
    seen = list(features["visible_word_ids"])
    hidden = [len(tokens) - len(own) for tokens, own in zip(sentences["tokens"], seen, strict=True)]
    if not any(seen):
        raise ValueError(f"No {split} sentence has a word within {max_length} tokens: check --max_seq_length.")
    if any(hidden):
        logger.warning(
            "The model does not see %d words of %d %s sentences: they are after the %d tokens of --max_seq_length, or"
            " the tokenizer drops them. They are left out of training and scores.",
            sum(hidden),
            sum(map(bool, hidden)),
            split,
            max_length,
        )
    if not all(seen):
        logger.warning("%d %s sentences have no word that the model sees.", sum(not own for own in seen), split)
    return features.select([number for number, own in enumerate(seen) if own]).remove_columns("visible_word_ids")
