"""Token classification: named entities, parts of speech, chunks, errors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import datasets
import numpy as np
import torch
from transformers import (
    DataCollatorForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)

from hf_localattn.data.column_files import UNSPECIFIED
from hf_localattn.data.labels import SINGLE_LABEL, Labels, sorted_labels
from hf_localattn.data.rows import Data, Source, row_indices
from hf_localattn.data.words import (
    IGNORED,
    check_labels,
    class_names,
    format_labels,
    load_label_names,
    load_sentences,
    place_of_label,
    prepare_tokenizer,
    word_features,
)
from hf_localattn.metrics.classification_scores import LOWER_IS_BETTER
from hf_localattn.metrics.word_scores import (
    detection_scores,
    diagnosis_scores,
    entity_scores,
    find_stray_tag,
    select_metrics,
)
from hf_localattn.settings.columns import TokenColumns
from hf_localattn.settings.data import TokenClassificationDataArguments
from hf_localattn.tasks.labels import Head, choose_labels, label_fields
from hf_localattn.tasks.task import Encoder, Encoding, Rows, Scored, Split, Target, Task, select_features

logger = logging.getLogger(__name__)

OWN_METRICS: dict[Any, tuple[str, ...]] = {
    entity_scores: ("entities",),
    detection_scores: ("error_detection",),
    diagnosis_scores: ("error_diagnosis", "entities"),
}
"""Metrics that can read labels with such scores."""


@dataclass(frozen=True)
class WordLayout:
    """Layout of sentences with labels.

    Args:
        columns: Columns, with the names of labels that are declared.
        labels (*optional*): Labels of the first split that is read, with all its rows.
    """

    columns: TokenColumns
    labels: frozenset[str] = field(default_factory=frozenset)


class TokenClassification(Task):
    """Prediction of one label per word.

    The labels come from `--label_names_file`, or else from the declaration of the data set. If nothing is declared,
    the labels of the training data and of the file format are used, sorted. A model with all of these labels keeps its
    label set and order.
    """

    name = model_task = "token-classification"
    input_columns = ("tokens",)
    DataArguments = TokenClassificationDataArguments
    collator_class = DataCollatorForTokenClassification
    scores_tokens = True
    streams = True
    own_metrics = ("entities", "error_detection", "error_diagnosis")
    args: TokenClassificationDataArguments

    @property
    def layout(self) -> WordLayout:
        columns = self.args.columns
        if self.args.label_names_file is not None:
            columns = replace(columns, names=load_label_names(self.args.label_names_file, columns))
        return WordLayout(columns)

    def read(
        self, data: Data, layout: WordLayout, *, labeled: bool, predicted: bool = False
    ) -> tuple[datasets.Dataset, WordLayout]:
        columns = layout.columns
        if isinstance(data, Source) and isinstance(data.rows, datasets.Dataset) and columns.names is None:
            columns = replace(columns, names=class_names(data.rows, columns))
        sentences = load_sentences(data, columns, require_labels=labeled, skip_empty=self.args.skip_empty)
        labels = layout.labels
        if not labels:  # in the first split, with all rows, even if max_train_samples uses only some
            name = data.name if isinstance(data, Source) else str(data)
            _check_scheme(sentences)
            labels = frozenset([*chain.from_iterable(sentences["labels"]), *format_labels(name)])
        return sentences, WordLayout(columns, labels)

    def choose_target(self, rows: Rows, layout: WordLayout, head: Head) -> Target:
        names = layout.columns.names or sorted_labels(layout.labels)
        of_data = Labels(SINGLE_LABEL, tuple(names)) if names else None
        labels = choose_labels(of_data, head)
        score_words, reported = select_metrics(list(labels.names))
        logger.info("Predicting one of %d labels of each word: %s.", labels.num_labels, ", ".join(labels.names))
        return Target(
            {name: name not in LOWER_IS_BETTER for name in ("loss", *reported)},
            labels,
            label_fields(labels.names),
            own_metrics=OWN_METRICS.get(score_words, ()),
            examples=([list(labels.names)], [list(labels.names)]),
        )

    def prepare_rows(self, rows: Rows, target: Target) -> Rows:
        for sentences in rows.values():
            check_labels(sentences, target.names)
        return rows  # `encoder` numbers the labels

    def adapt(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, training_args: TrainingArguments
    ) -> Encoding:
        prepare_tokenizer(tokenizer)
        return super().adapt(model, tokenizer, training_args)

    def encoder(self, split: str, target: Target, encoding: Encoding) -> Encoder:
        options = {
            "max_length": encoding.max_length,
            "label_ids": {name: index for index, name in enumerate(target.names)},
            "label_all_tokens": self.args.label_all_tokens and split == "train",
        }
        return word_features, options

    def finish_features(
        self, name: str, rows: datasets.Dataset, features: datasets.Dataset, encoding: Encoding
    ) -> Split:
        words = features["visible_word_ids"][:]
        kept = [index for index, seen in enumerate(words) if seen]  # the others would have no loss
        split = select_features(name, rows, features, kept, encoding.max_length)
        features = split.features.remove_columns("visible_word_ids")
        if not any(rows["labels"]):
            # Without labels there is no loss: the column only marks the first tokens of words.
            features = features.rename_column("labels", "marks")
        return replace(split, features=features, words=[words[index] for index in kept])

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return (outputs[0].argmax(dim=-1),)  # the index of the best label of each token

    def score(self, split: Split, outputs: Any, target: Target, encoding: Any = None) -> Scored:
        """Return the label of each word that the model sees, for sentences with such words, and the scores."""
        names = np.array(target.names, dtype=object)
        is_labeled = "labels" in split.features.column_names
        predictions: list[list[str]] = []
        references: list[list[str]] = []
        for best, marks in zip(outputs, split.features["labels" if is_labeled else "marks"], strict=True):
            is_first = np.not_equal(marks, IGNORED)
            predictions.append(names[best[: len(marks)][is_first]].tolist())
            if is_labeled:
                references.append(names[np.asarray(marks)[is_first]].tolist())
        if not is_labeled:
            return Scored(predictions, {})
        scores = self.score_pair(predictions, references, target)
        return Scored(predictions, scores, pair=(predictions, references))

    def score_pair(self, predictions: Any, references: Any, target: Target) -> dict[str, float]:
        score_words, reported = select_metrics(target.names)
        scores: dict[str, float] = score_words(predictions, references)
        return scores if self.args.return_entity_level_metrics else {name: scores[name] for name in reported}

    def constant_outputs(self, split: Split, train: Split, target: Target) -> Any:
        labels = np.concatenate(train.features["labels"][:])
        commonest = np.bincount(labels[labels != IGNORED]).argmax()
        return [np.full(len(ids), commonest) for ids in split.features["input_ids"]]

    def files(self, split: Split, predictions: Any, target: Target) -> dict[str, str]:
        """Return `predictions.txt`: the labels of each sentence in a line, separated by spaces.

        Words that the model does not see get "O" if it is a label, otherwise "_". Sentences left out by `--skip_empty`
        get a blank line.
        """
        unseen = "O" if "O" in target.names else UNSPECIFIED
        by_row = {
            row: dict(zip(words, labels, strict=True))
            for row, words, labels in zip(split.kept, split.words, predictions, strict=True)
        }
        lines = {}
        for row, (index, tokens) in enumerate(zip(row_indices(split.rows), split.rows["tokens"], strict=True)):
            labels = by_row.get(row, {})
            lines[index] = " ".join(labels.get(word, unseen) for word in range(len(tokens)))
        return {"predictions.txt": "".join(f"{lines.get(index, '')}\n" for index in range(max(lines) + 1))}


def _check_scheme(sentences: datasets.Dataset) -> None:
    """Raise `ValueError` if one label hides the tagging scheme of the others, so that no entity would be scored."""
    stray = find_stray_tag(set(chain.from_iterable(sentences["labels"])))
    if stray is not None:
        raise ValueError(
            f"{place_of_label(sentences, stray)}: the label {stray!r} is not of the tagging scheme of the others, such"
            " as O and B-PER: correct it."
        )
