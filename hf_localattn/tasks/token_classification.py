"""Token classification: named entities, parts of speech, chunks, errors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import datasets
import numpy as np
import torch
from transformers import DataCollatorForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

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
from hf_localattn.settings.data import TokenClassificationDataArguments
from hf_localattn.tasks.task import Encoder, Scored, Splits, Task, choose_labels, label_fields
from hf_localattn.training.arguments import ModelArguments

logger = logging.getLogger(__name__)

OWN_METRICS: dict[Any, tuple[str, ...]] = {
    entity_scores: ("entities",),
    detection_scores: ("error_detection",),
    diagnosis_scores: ("error_diagnosis", "entities"),
}
"""Metrics that can read labels with such scores."""


class TokenClassification(Task):
    """Prediction of one label per word.

    The labels come from `--label_names_file`, or else from the declaration of the data set. If nothing is declared,
    the labels of the training data and of the file format are used, sorted. A model with all of these labels keeps its
    label set and order.
    """

    name = model_task = "token-classification"
    DataArguments = TokenClassificationDataArguments
    collator_class = DataCollatorForTokenClassification
    scores_tokens = True
    streams = True
    own_metrics: tuple[str, ...] = ("entities", "error_detection", "error_diagnosis")  # before the labels are known
    args: TokenClassificationDataArguments
    names: list[str]

    def __init__(self, args: TokenClassificationDataArguments, training_args: Any):
        super().__init__(args, training_args)
        self.columns = args.columns
        if args.label_names_file is not None:
            self.columns = replace(self.columns, names=load_label_names(args.label_names_file, self.columns))
        self.data_labels: set[str] = set()
        """Labels of the first split that is read."""
        self.seen: dict[str, Any] = {}
        """Indices of the words that the model sees, per split and sentence."""

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        if isinstance(data, Source) and isinstance(data.rows, datasets.Dataset) and self.columns.names is None:
            self.columns = replace(self.columns, names=class_names(data.rows, self.columns))
        sentences = load_sentences(data, self.columns, require_labels=labeled, skip_empty=self.args.skip_empty)
        if not self.data_labels:  # in the first split, with all rows, even if max_train_samples uses only some
            name = data.name if isinstance(data, Source) else str(data)
            _check_scheme(sentences)
            self.data_labels.update(chain.from_iterable(sentences["labels"]), format_labels(name))
        return sentences

    def choose_labels(self, data: Splits, model_args: ModelArguments, config: Any) -> dict[str, Any]:
        names = self.columns.names or sorted_labels(self.data_labels)
        of_data = Labels(SINGLE_LABEL, tuple(names)) if names else None
        labels = choose_labels(of_data, model_args, config, trained=self.training_args.do_train)
        self.names = list(labels.names)
        self.score_words, self.reported = select_metrics(self.names)
        self.own_metrics = OWN_METRICS.get(self.score_words, ())
        self.metrics = {name: name not in LOWER_IS_BETTER for name in ("loss", *self.reported)}
        logger.info("Predicting one of %d labels of each word: %s.", len(self.names), ", ".join(self.names))
        return label_fields(self.names)

    def prepare_rows(self, data: Splits) -> Splits:
        for sentences in data.values():
            check_labels(sentences, self.names)
        return data  # `encoder` numbers the labels

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        prepare_tokenizer(tokenizer)
        super().adapt(model, tokenizer)

    def encoder(self, split: str) -> Encoder:
        options = {
            "max_length": self.max_length,
            "label_ids": {name: index for index, name in enumerate(self.names)},
            "label_all_tokens": self.args.label_all_tokens and split == "train",
        }
        return word_features, options

    def metric_examples(self) -> tuple[Any, Any]:
        return [self.names], [self.names]

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        seen = features["visible_word_ids"][:]
        self.seen[split] = seen
        kept = [index for index, words in enumerate(seen) if words]  # the others would have no loss
        features = self.select(split, features, kept).remove_columns("visible_word_ids")
        # Without labels there is no loss: the column only marks the first tokens of words.
        return features if any(rows["labels"]) else features.rename_column("labels", "marks")

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return (outputs[0].argmax(dim=-1),)  # the index of the best label of each token

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the label of each word that the model sees, for sentences with such words, and the scores."""
        features = self.features[split]
        is_labeled = "labels" in features.column_names
        predictions: list[list[str]] = []
        references: list[list[str]] = []
        for best, marks in zip(outputs, features["labels" if is_labeled else "marks"], strict=True):
            is_first = np.not_equal(marks, IGNORED)
            predictions.append(self._names_of(best[: len(marks)][is_first]))
            if is_labeled:
                references.append(self._names_of(np.asarray(marks)[is_first]))
        if not is_labeled:
            return Scored(predictions, {})
        scores = self.score_words(predictions, references)
        if not self.args.return_entity_level_metrics:
            scores = {name: scores[name] for name in self.reported}
        return Scored(predictions, scores, pair=(predictions, references))

    def constant_outputs(self, split: str) -> Any:
        labels = np.concatenate(self.features["train"]["labels"][:])
        commonest = np.bincount(labels[labels != IGNORED]).argmax()
        return [np.full(len(ids), commonest) for ids in self.features[split]["input_ids"]]

    def _names_of(self, labels: np.ndarray) -> list[str]:
        return [self.names[label] for label in labels]

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return `predictions.txt`: the labels of each sentence in a line, separated by spaces.

        Words that the model does not see get "O" if it is a label, otherwise "_". Sentences left out by `--skip_empty`
        get a blank line.
        """
        unseen = "O" if "O" in self.names else UNSPECIFIED
        rows = self.rows[split]
        predicted = iter(predictions)
        lines = {}
        for index, tokens, seen in zip(row_indices(rows), rows["tokens"], self.seen[split], strict=True):
            labels = dict(zip(seen, next(predicted), strict=True)) if seen else {}
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
