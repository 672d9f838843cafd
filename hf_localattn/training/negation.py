"""Fine-tuning and evaluating the resolution of negation scopes: which words does a cue negate?"""

from __future__ import annotations

import json
import logging
from itertools import chain
from pathlib import Path

import datasets
import numpy as np
from transformers import DataCollatorForTokenClassification
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.features.scopes import (
    INSIDE,
    SCOPE_LABELS,
    ScopeExamples,
    check_knows_cues,
    find_unseen,
    scope_features,
)
from hf_localattn.data.features.words import prepare_tokenizer
from hf_localattn.data.readers.negation import describe_cues
from hf_localattn.data.rows.negation import load_negation, normalize_negation
from hf_localattn.files import write_whole
from hf_localattn.metrics import load_metric
from hf_localattn.models.cue_marker import is_marker
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.models import batch_padding, input_length, load_model_and_tokenizer
from hf_localattn.training.run import Run, begin
from hf_localattn.training.splits import Data, load_splits, make_features
from hf_localattn.training.token_classification import TokenClassificationDataArguments
from hf_localattn.training.trainer import ExampleTrainer
from hf_localattn.training.word_labels import checkpoint_names, choose_names

logger = logging.getLogger(__name__)

MAIN_SCORE = "f1"
GREATER_IS_BETTER = {"loss": False, MAIN_SCORE: True, "precision": True, "recall": True, "exact_scope": True}
PREDICTIONS = "predictions.jsonl"


class ScopeTrainer(ExampleTrainer):
    """Scores the words in scope; `eval_examples` are `ScopeExamples`, predictions a scope for each of their rows."""

    def judge(
        self, logits: tuple[np.ndarray, ...], examples: ScopeExamples, features: datasets.Dataset, prefix: str
    ) -> tuple[list[list[int]], dict[str, float]]:
        scopes, true = examples.scopes(logits[0], self.model.config.label2id[INSIDE]), examples.true_scopes
        if true is None:
            return scopes, {}
        return scopes, load_metric("negation_scope").compute(predictions=scopes, references=true)


class NegationRun(Run):
    """Scores and writes the scope of every cue, also where the model does not see the cue."""

    task = "token-classification"
    trainer: ScopeTrainer
    examples: dict[str, ScopeExamples]

    def evaluate_split(self, split: str, prefix: str) -> dict[str, float]:
        own = self.examples[split]
        return self.trainer.evaluate(self.features[split], metric_key_prefix=prefix, eval_examples=own)

    def predict_split(self, split: str, prefix: str) -> PredictionOutput:
        return self.trainer.predict(self.features[split], self.examples[split], metric_key_prefix=prefix)

    def write_predictions(self, split: str, prefix: str, output: PredictionOutput) -> None:
        """Write a line of json for each row to `predictions.jsonl`, with `scope` if that is known."""
        names = ["id", "tokens", "cue", *(["scope"] if self.examples[split].true_scopes else [])]
        lines = [
            json.dumps({**row, "predicted_scope": scope}, ensure_ascii=False) + "\n"
            for row, scope in zip(self.data[split].select_columns(names), output.predictions, strict=True)
        ]
        write_whole(Path(self.trainer.args.output_dir, PREDICTIONS), "".join(lines))


def prepare(
    model_args: ModelArguments, data_args: TokenClassificationDataArguments, training_args: TrainingArguments
) -> NegationRun:
    """Return a run that is ready to go; everything that can be checked has been.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    begin(training_args, GREATER_IS_BETTER)
    data = load_scopes(model_args, data_args, training_args)
    names = choose_names(
        SCOPE_LABELS,
        checkpoint_names(model_args),
        trained=training_args.do_train,
        may_be_fresh=model_args.ignore_mismatched_sizes,
    )
    label_ids = {name: number for number, name in enumerate(names)}
    fields = {"num_labels": len(names), "id2label": dict(enumerate(names)), "label2id": label_ids}
    model, tokenizer = load_model_and_tokenizer("token-classification", model_args, training_args, **fields)
    check_knows_cues(tokenizer)
    if getattr(tokenizer, "cue_marker", "keep") == "drop" and not model.config.needed_inputs:
        logger.warning(
            "Nothing tells this model which cue is meant: it has no query (variant=none), and sees no marker"
            " (cue_marker=drop). It is a baseline that predicts the same for all cues of a sentence."
        )
    prepare_tokenizer(tokenizer)
    max_length = input_length(model, tokenizer, data_args)
    whole = make_features(
        data,
        data_args,
        training_args,
        scope_features,
        tokenizer=tokenizer,
        max_length=max_length,
        label_ids=label_ids,
    )
    features: Data = {}
    examples: dict[str, ScopeExamples] = {}
    for split, rows in data.items():
        features[split], examples[split] = keep_seen(split, rows, whole[split], max_length)
    trainer = ScopeTrainer(
        model=model,
        args=training_args,
        train_dataset=features.get("train"),
        eval_dataset=features.get("validation"),
        eval_examples=examples.get("validation"),
        processing_class=tokenizer,
        data_collator=DataCollatorForTokenClassification(
            tokenizer, **batch_padding(data_args, training_args, max_length)
        ),
    )
    if "train" in data:  # what is left out is not trained on, and so not counted
        data["train"] = data["train"].select(examples["train"].kept)
    run = NegationRun(trainer, data, features, model_args, data_args, fields)
    run.examples = examples
    return run


def load_scopes(
    model_args: ModelArguments, data_args: TokenClassificationDataArguments, training_args: TrainingArguments
) -> Data:
    """Load the rows of a run, each a sentence with one cue.

    Raises:
        ValueError: they cannot be used; there is nothing to learn from them.
        OSError: something cannot be fetched or read.
    """
    data = load_splits(
        model_args,
        data_args,
        training_args,
        read=lambda path, labelled: load_negation(
            path,
            data_args.cues,
            data_args.cue_in_scope,
            stray_scopes=data_args.stray_scopes,
            require_scopes=labelled,
            skip_empty=data_args.skip_empty,
        ),
        check=lambda rows, name, labelled: normalize_negation(
            rows, name, data_args.cue_in_scope, require_scopes=labelled, skip_empty=data_args.skip_empty
        ),
        group_column="sentence_id",  # rows that tell the same sentence are not both trained and tested on
    )
    if "train" in data and not any(chain.from_iterable(data["train"]["scope"][:])):
        raise ValueError("No train row has a word in scope: there is nothing to learn.")
    for split, rows in data.items():
        logger.info("%s: %s.", split, describe_cues(rows))
        for number, tokens in enumerate(rows["tokens"][:], start=1):
            if marker := next(filter(is_marker, tokens), None):
                raise ValueError(
                    f"{split} row {number}: the word {marker!r} is a cue marker. Leave out the markers: the column cue"
                    " says where they go."
                )
    return data


def keep_seen(
    split: str, rows: datasets.Dataset, features: datasets.Dataset, max_length: int
) -> tuple[datasets.Dataset, ScopeExamples]:
    """Return the features of the rows whose cue the model sees, with what leads back from them to all rows' words.

    Says how many cues and words it does not see. Without its cue a row asks nothing of a model.

    Raises:
        ValueError: it sees none.
    """
    unseen = find_unseen(rows, features)
    kept = sorted(set(range(len(rows))) - set(unseen.cues))
    if not kept:
        raise ValueError(f"No {split} row has its cue within {max_length} tokens: check --max_seq_length.")
    reason = "behind the %d tokens of --max_seq_length, or the tokenizer makes nothing of"
    if unseen.cues:
        logger.warning(
            f"The model does not see the cue of %d of %d %s rows: it is {reason} it. %s",
            len(unseen.cues),
            len(rows),
            split,
            max_length,
            "They are left out of training." if split == "train" else "Nothing is predicted to be in their scope.",
        )
    if unseen.parts:
        logger.warning(
            f"The model sees a part of the cue alone of %d of %d %s rows: the rest is {reason} it. They are kept.",
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
