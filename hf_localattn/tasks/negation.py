"""Negation scope resolution: finding the words that a given cue negates."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np
from transformers import DataCollatorForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.negation import describe_cues, load_negation
from hf_localattn.data.rows import Data, row_numbers
from hf_localattn.data.scopes import (
    ScopeExamples,
    check_knows_cues,
    find_unseen,
    scope_features,
)
from hf_localattn.data.words import prepare_tokenizer
from hf_localattn.files import atomic_write
from hf_localattn.metrics import load_metric
from hf_localattn.models.cue_markers import CUE_MARKER, is_marker
from hf_localattn.models.negation_finder import SCOPE_LABELS, knows_cues
from hf_localattn.tasks import starsem
from hf_localattn.tasks.labels import checkpoint_names, choose_names, label_fields
from hf_localattn.tasks.lengths import input_length, padding
from hf_localattn.tasks.splits import Splits
from hf_localattn.tasks.task import Checkpoint, Task
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
    metrics = MappingProxyType(
        {
            "loss": False,
            "f1": True,
            "precision": True,
            "recall": True,
            "scope_exact_match": True,
            **dict.fromkeys(starsem.OFFICIAL_SCORES, True),
        }
    )
    metrics_depend_on_labels = True
    logits_scored = 1
    group_column = "sentence_id"  # rows of the same sentence must not be in both training and test data
    args: TokenClassificationDataArguments
    names: list[str]
    has_tags: bool
    """True if the validation rows have part-of-speech tags."""
    examples: dict[str, ScopeExamples]

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        args = self.args
        return load_negation(
            data,
            args.cues,
            args.cue_in_scope,
            unmatched_scopes=args.unmatched_scopes,
            require_scopes=labeled,
            skip_empty=args.skip_empty,
            all_sentences=args.detect_cues,
        )

    def load(self, parts: Mapping[str, str], **hub: Any) -> Splits:
        data = super().load(parts, **hub)
        if "train" in data and not any(chain.from_iterable(data["train"]["scope"][:])):
            raise ValueError("No train row has a word in scope: give training data with scopes.")
        self.has_tags = "validation" in data and starsem.has_tags(data["validation"])
        for split, rows in data.items():
            logger.info("%s: %s.", split, describe_cues(rows))
            for number, tokens in zip(row_numbers(rows), rows["tokens"][:], strict=True):
                if marker := next(filter(is_marker, tokens), None):
                    raise ValueError(
                        f"{split} row {number + 1}: the word {marker!r} is a cue marker. Remove the markers; they are"
                        " added by the column cue."
                    )
        return data

    @property
    def label_names(self) -> list[str]:
        """The labels that the model needs."""
        return list(SCOPE_LABELS)

    def config_fields(self, data: Splits, checkpoint: Checkpoint) -> dict[str, Any]:
        self.trained = checkpoint.trained
        self.names = choose_names(
            self.label_names,
            checkpoint_names(checkpoint.config),
            trained=checkpoint.trained,
            may_be_fresh=checkpoint.may_be_fresh,
        )
        return label_fields(self.names)

    @property
    def reported_metrics(self) -> Sequence[str]:
        return [name for name in self.metrics if self.has_tags or name not in starsem.OFFICIAL_SCORES]

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Splits) -> None:
        if self.trained:
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

    def finish_features(self, data: Splits, features: Splits) -> Splits:
        """Return the features of the rows whose cue the model sees."""
        kept = {}
        for split, rows in data.items():
            kept[split], self.examples[split] = drop_unseen_cues(split, rows, features[split], self.max_length)
        if "train" in data:  # count only the rows that are trained on
            data["train"] = data["train"].select(self.examples["train"].kept)
        return kept

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        return DataCollatorForTokenClassification(tokenizer, **padding(self.args, self.max_length, multiple))

    def score_examples(
        self, logits: tuple[np.ndarray, ...], examples: ScopeExamples, features: datasets.Dataset
    ) -> tuple[Any, dict[str, float]]:
        scopes, true = examples.scopes(logits[0], self.names), examples.true_scopes
        if true is None:
            return scopes, {}
        scores = load_metric("negation_scope").compute(predictions=scopes, references=true)
        return scopes, {**scores, **starsem.score_scopes(examples.rows, scopes)}

    def write_predictions(
        self, folder: Path, split: str, prefix: str, rows: datasets.Dataset, output: PredictionOutput
    ) -> None:
        """Write one JSON line per row to `predictions.jsonl`, with the true `scope`, if known.

        Rows with part-of-speech tags are also written in the columns of *SEM 2012 (`starsem.write_scopes`).
        """
        names = ["id", "tokens", "cue", *(["scope"] if self.examples[split].true_scopes else [])]
        lines = [
            json.dumps({**row, "predicted_scope": scope}, ensure_ascii=False) + "\n"
            for row, scope in zip(rows.select_columns(names), output.predictions, strict=True)
        ]
        atomic_write(folder / PREDICTIONS, "".join(lines))
        starsem.write_scopes(folder, rows, output.predictions)


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
    unseen = find_unseen(rows, features)
    kept = sorted(set(range(len(rows))) - set(unseen.cues))
    if not kept:
        raise ValueError(f"No {split} row has its cue within {max_length} tokens: check --max_seq_length.")
    reason = "after the %d tokens of --max_seq_length, or the tokenizer drops"
    if unseen.cues:
        logger.warning(
            f"The model does not see the cue of %d of %d %s rows: it is {reason} it. %s",
            len(unseen.cues),
            len(rows),
            split,
            max_length,
            "These rows are left out of training." if split == "train" else "An empty scope is predicted for them.",
        )
    if unseen.parts:
        logger.warning(
            f"The model sees only a part of the cue of %d of %d %s rows: the rest is {reason} it. They are kept.",
            len(unseen.parts),
            len(rows),
            split,
            max_length,
        )
    if words := [unseen.words[row] for row in kept if unseen.words[row]]:
        logger.warning(
            f"The model does not see %d words of %d other %s rows: they are {reason} them. They %s.",
            sum(words),
            len(words),
            split,
            max_length,
            "are left out of training" if split == "train" else "count as not in scope, and are scored",
        )
    features = features.select(kept)
    examples = ScopeExamples(rows, kept, features["word_numbers"][:])
    features = features.remove_columns("word_numbers")
    return (features if examples.true_scopes else features.remove_columns("labels")), examples
