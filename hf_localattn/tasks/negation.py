"""Negation scope resolution: finding the words that a given cue negates."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
from transformers import DataCollatorForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.negation import check_apart, describe_cues, group_sentences, load_negation, with_scope
from hf_localattn.data.rows import Data, row_numbers
from hf_localattn.data.scopes import (
    ScopeExamples,
    check_knows_cues,
    count_unseen,
    scope_features,
)
from hf_localattn.data.texts import SINGLE_LABEL, Labels
from hf_localattn.data.words import prepare_tokenizer
from hf_localattn.files import atomic_write
from hf_localattn.metrics import load_metric
from hf_localattn.models.cue_markers import CUE_MARKER, is_marker
from hf_localattn.models.negation_finder import SCOPE_LABELS, knows_cues
from hf_localattn.names import split_paths
from hf_localattn.tasks import starsem
from hf_localattn.tasks.labels import choose_labels, label_fields
from hf_localattn.tasks.lengths import input_length, padding
from hf_localattn.tasks.starsem import Sentences
from hf_localattn.tasks.task import Checkpoint, Scored, Splits, Task
from hf_localattn.tasks.token_classification import NEGATION, TokenClassificationDataArguments

logger = logging.getLogger(__name__)

PREDICTIONS = "predictions.jsonl"


@dataclass
class NegationDataArguments(TokenClassificationDataArguments):
    """Data arguments for negation scope resolution."""

    task_name: str = NEGATION


class NegationScope(Task):
    """Prediction of the words in the scope of a given cue. A row is a sentence with one cue.

    Scores are computed over all rows (`ScopeExamples`), including those whose cue the model does not see. Rows with
    part-of-speech tags (*SEM 2012) also get the official scores of that task.
    """

    name = "negation"
    model_task = "token-classification"
    head = "ForTokenClassification"
    DataArguments = NegationDataArguments
    scores_tokens = True
    group_column = "sentence_id"  # rows of the same sentence must not be in both training and test data
    score_names: tuple[str, ...] = ("f1", "precision", "recall", "scope_exact_match")
    args: TokenClassificationDataArguments
    names: list[str]

    def __init__(self, args: TokenClassificationDataArguments, training_args: Any):
        super().__init__(args, training_args)
        self.label_names = tuple(SCOPE_LABELS)
        self.examples: dict[str, ScopeExamples] = {}

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        args = self.args
        if isinstance(data, str) and len(paths := split_paths(data)) > 1:
            data = paths
        return load_negation(
            data,
            args.cues,
            args.cue_in_scope,
            unmatched_scopes=args.unmatched_scopes,
            require_scopes=labeled,
            skip_empty=args.skip_empty,
            all_sentences=args.detect_cues,
        )

    def choose_labels(self, data: Splits, checkpoint: Checkpoint) -> dict[str, Any]:
        own = Labels(SINGLE_LABEL, self.label_names)
        self.names = list(choose_labels(own, checkpoint, trained=self.training_args.do_train, fixed=True).names)
        has_tags = "validation" in data and starsem.has_tags(data["validation"])
        official = starsem.OFFICIAL_SCORES if has_tags else ()
        self.metrics = {"loss": False, **dict.fromkeys((*self.score_names, *official), True)}
        return label_fields(self.names)

    def prepare_rows(self, data: Splits) -> Splits:
        """Return the rows.

        Raises:
            ValueError: No training row has a scope, a word is a cue marker, or a document is in both the training and
                the validation file.
        """
        if "train" in data and not any(chain.from_iterable(data["train"]["scope"][:])):
            raise ValueError("No train row has a word in scope: give training data with scopes.")
        # The same file for both is a trial of the command.
        files = self.args.train_file, self.args.validation_file
        if {"train", "validation"} <= data.keys() and None not in files and files[0] != files[1]:
            check_apart(data["train"], data["validation"])
        for split, rows in data.items():
            logger.info("%s: %s.", split, describe_cues(rows))
            for number, tokens in zip(row_numbers(rows), rows["tokens"][:], strict=True):
                if marker := next(filter(is_marker, tokens), None):
                    raise ValueError(
                        f"{split} row {number + 1}: the word {marker!r} is a cue marker. Remove the markers; they are"
                        " added by the column cue."
                    )
        return data

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        if self.training_args.do_train:
            add_cue_marker(tokenizer, model)
        check_knows_cues(tokenizer)
        if getattr(tokenizer, "cue_marker", "keep") == "drop" and not model.config.required_inputs:
            logger.warning(
                "This model cannot tell which cue is meant: it has no query (local_attention=none) and no marker"
                " (cue_marker=drop). It is a baseline that predicts the same scope for all cues of a sentence."
            )
        prepare_tokenizer(tokenizer)
        self.max_length = input_length(model, tokenizer, self.args)

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        label_ids = {name: number for number, name in enumerate(self.names)}
        return scope_features, {"max_length": self.max_length, "label_ids": label_ids}

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        """Return the features of the rows whose cue the model sees."""
        features, self.examples[split] = drop_unseen_cues(split, rows, features, self.max_length)
        if split == "train":  # count only the rows that are trained on
            self.rows[split] = rows.select(self.examples[split].kept)
        return features

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        return DataCollatorForTokenClassification(tokenizer, **padding(self.args, self.max_length, multiple))

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the scope of each row, and the scores, from logits (features, tokens, labels)."""
        examples = self.examples[split]
        scopes, true = examples.scopes(outputs, self.names), examples.true_scopes
        if true is None:
            return Scored(scopes, {})
        scores = load_metric("negation_scope").compute(predictions=scopes, references=true)
        return Scored(scopes, {**scores, **self.official_scores(examples.rows, scopes)}, pair=(scopes, true))

    def sentences_with(self, rows: datasets.Dataset, predictions: Any) -> Sentences:
        """Return the sentences of rows with part-of-speech tags, with predicted negations."""
        return group_sentences(map(with_scope, rows, predictions))

    def official_scores(self, rows: datasets.Dataset, predictions: Any) -> dict[str, float]:
        """Return the scores of *SEM 2012; empty without part-of-speech tags."""
        if not starsem.has_tags(rows):
            return {}
        return starsem.score_sentences(group_sentences(rows), self.sentences_with(rows, predictions))

    def write_predictions(self, folder: Path, split: str, prefix: str, predictions: Any) -> None:
        """Write a JSON line for each of `lines_of` to `predictions.jsonl`.

        Rows with part-of-speech tags are also written in the columns of *SEM 2012 (`starsem.write_sentences`).
        """
        rows = self.rows[split]
        lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines_of(split, predictions))
        atomic_write(folder / PREDICTIONS, "".join(lines))
        if starsem.has_tags(rows):
            gold = group_sentences(rows) if self.examples[split].true_scopes else None
            starsem.write_sentences(folder, gold, self.sentences_with(rows, predictions))

    def lines_of(self, split: str, predictions: Any) -> Iterator[dict[str, Any]]:
        """Yield each row with its predicted scope and, if known, its `scope`."""
        names = ["id", "tokens", "cue", *(["scope"] if self.examples[split].true_scopes else [])]
        for row, scope in zip(self.rows[split].select_columns(names), predictions, strict=True):
            yield {**row, "predicted_scope": scope}


def add_cue_marker(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Add the cue marker as a special token with a new embedding, unless the tokenizer has one."""
    if knows_cues(tokenizer):
        return
    tokenizer.add_special_tokens({"extra_special_tokens": [CUE_MARKER]}, replace_extra_special_tokens=False)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def drop_unseen_cues(
    split: str, rows: datasets.Dataset, features: datasets.Dataset, max_length: int
) -> tuple[datasets.Dataset, ScopeExamples]:
    """Drop the features of the rows whose cue the model does not see.

    The numbers of cues and words that the model does not see are logged.

    Returns:
        The remaining features, and the examples that map features to the words of all rows.

    Raises:
        ValueError: no row has a cue that the model sees.
    """
    words, cue_words = count_unseen(rows, features)
    cues = [sum(cue) for cue in rows["cue"][:]]
    hidden = [bool(cue) and count == cue for cue, count in zip(cues, cue_words, strict=True)]
    kept = [row for row, is_hidden in enumerate(hidden) if not is_hidden]
    if not kept:
        raise ValueError(f"No {split} row has its cue within {max_length} tokens: check --max_seq_length.")
    is_train, of_rows = split == "train", f"of {len(rows)} {split} rows"
    reason = f"after the {max_length} tokens of --max_seq_length, or the tokenizer drops"
    if any(hidden):
        then = "These rows are left out of training." if is_train else "An empty scope is predicted for them."
        logger.warning(f"The model does not see the cue of {sum(hidden)} {of_rows}: it is {reason} it. {then}")
    if parts := sum(cue_words[row] > 0 for row in kept):
        logger.warning(
            f"The model sees only a part of the cue of {parts} {of_rows}: the rest is {reason} it. They are kept."
        )
    if lost := [words[row] for row in kept if words[row]]:
        then = "are left out of training" if is_train else "count as not in scope, and are scored"
        logger.warning(
            f"The model does not see {sum(lost)} words of {len(lost)} other {split} rows: they are {reason} them."
            f" They {then}."
        )
    features = features.select(kept)
    examples = ScopeExamples(rows, kept, features["word_numbers"][:])
    features = features.remove_columns("word_numbers")
    return (features if examples.true_scopes else features.remove_columns("labels")), examples
