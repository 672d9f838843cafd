"""Negation: the scopes of given cues, or cues and their scopes with one token classifier."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, TypeAlias

import datasets
import torch
from transformers import DataCollatorForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.labels import SINGLE_LABEL, Labels
from hf_localattn.data.negation import (
    add_questions,
    check_apart,
    describe_cues,
    group_sentences,
    kinds_of,
    load_negation,
    with_negation,
    with_scope,
)
from hf_localattn.data.negation_corpora import format_starsem
from hf_localattn.data.rows import Data
from hf_localattn.data.scopes import ScopeExamples, check_knows_cues, count_unseen, scope_features
from hf_localattn.data.words import prepare_tokenizer
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.starsem_scores import INSTANCE_SCORES, STARSEM_SCORES
from hf_localattn.metrics.word_scores import set_scores
from hf_localattn.models.cue_markers import CUE_MARKER
from hf_localattn.models.negation_conventions import check_convention
from hf_localattn.models.negation_finder import NegationFinder
from hf_localattn.models.negation_labels import CUE_KINDS, CUE_LABELS, SCOPE_LABELS, FoundCue
from hf_localattn.models.negation_model import ModelLabeler, knows_cues
from hf_localattn.models.negation_reading import Reading
from hf_localattn.names import split_paths
from hf_localattn.settings.data import NegationDataArguments
from hf_localattn.tasks.task import LIMITS, Encoder, Scored, Splits, Task, choose_labels, label_fields
from hf_localattn.training.arguments import ModelArguments

logger = logging.getLogger(__name__)

OFFICIAL_SCORES = (*STARSEM_SCORES, *INSTANCE_SCORES)
"""Names of the official scores of *SEM 2012, and of means over negations."""

Negation: TypeAlias = tuple[FoundCue, list[int]]
"""A cue, and 1 for each word in its scope, 0 for the others."""


class NegationScope(Task):
    """Prediction of the words in the scope of a given cue. A row is a sentence with one cue.

    Scores are computed over all rows (`ScopeExamples`), including those whose cue the model does not see. Rows with
    part-of-speech tags (*SEM 2012) also get the official scores of that task.
    """

    name = "negation"
    model_task = "token-classification"
    DataArguments = NegationDataArguments
    collator_class = DataCollatorForTokenClassification
    own_metrics = ("negation_scope",)
    scores_tokens = True
    group_column = "sentence_id"  # rows of the same sentence must not be in both training and test data
    score_names: tuple[str, ...] = ("f1", "precision", "recall", "scope_exact_match")
    args: NegationDataArguments
    names: list[str]

    def __init__(self, args: NegationDataArguments, training_args: Any):
        super().__init__(args, training_args)
        check_convention(args.convention)
        self.examples: dict[str, ScopeExamples] = {}
        """Rows and words of the features of each split."""

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        args = self.args
        paths = split_paths(data) if isinstance(data, str) else []
        return load_negation(
            paths if len(paths) > 1 else data,
            **vars(args.corpus),
            require_scopes=labeled,
            skip_empty=args.skip_empty,
        )

    def choose_labels(self, data: Splits, model_args: ModelArguments, config: Any) -> dict[str, Any]:
        corpus = self.args.corpus
        kinds = kinds_of(corpus.cues) if corpus.all_sentences else ()
        cue_labels = [label for label in CUE_LABELS if label.startswith(kinds)]
        labels = Labels(SINGLE_LABEL, (*SCOPE_LABELS, *cue_labels))
        self.names = list(choose_labels(labels, model_args, config, trained=True, fixed=True).names)
        self.metrics = {"loss": False} | dict.fromkeys(self.score_names, True)
        if "validation" in data and has_tags(data["validation"]):
            self.metrics |= dict.fromkeys(OFFICIAL_SCORES, True)
        return label_fields(self.names)

    def prepare_rows(self, data: Splits) -> Splits:
        if "train" in data and not any(chain.from_iterable(data["train"]["scope"][:])):
            raise ValueError("No train row has a word in scope: give training data with scopes.")
        if {"train", "validation"} <= data.keys() and self.args.validation_file not in (None, self.args.train_file):
            check_apart(data["train"], data["validation"])
        for split, rows in data.items():
            logger.info("%s: %s.", split, describe_cues(rows))
        return data

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        if self.training_args.do_train:
            add_cue_marker(tokenizer, model)
        check_knows_cues(tokenizer)
        prepare_tokenizer(tokenizer)
        super().adapt(model, tokenizer)

    def encoder(self, split: str) -> Encoder:
        label_ids = {name: index for index, name in enumerate(self.names)}
        return scope_features, {"max_length": self.max_length, "label_ids": label_ids}

    def metric_examples(self) -> tuple[Any, Any]:
        return [[0, 1]], [[0, 1]]

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        # Scopes are scored over all rows: that of a cue which the model does not see is predicted to be empty.
        _, unseen = count_unseen(rows, features)
        cue_lengths = [sum(cue) for cue in rows["cue"][:]]
        kept = [row for row, length in enumerate(cue_lengths) if not length or unseen[row] < length]
        features = self.select(split, features, kept)
        examples = ScopeExamples(rows, kept, features["word_indices"][:])
        self.examples[split] = examples
        if split == "train":  # count only the rows that are trained on
            self.rows[split] = rows.select(kept)
        if not examples.true_scopes:
            features = features.remove_columns("labels")
        return features.remove_columns("word_indices")

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the scope of each row, and the scores, from logits (features, tokens, labels)."""
        examples = self.examples[split]
        scopes = examples.scopes(outputs, self.names, self.args.convention)
        true_scopes = examples.true_scopes
        if true_scopes is None:
            return Scored(scopes, {})
        scores = load_metric("negation_scope").compute(predictions=scopes, references=true_scopes)
        scores |= self.official_scores(examples.rows, scopes)
        return Scored(scopes, scores, pair=(scopes, true_scopes))

    def sentences_with(self, rows: datasets.Dataset, predictions: Any) -> list[list[dict[str, Any]]]:
        """Return the sentences of rows with part-of-speech tags, with predicted negations."""
        return group_sentences(map(with_scope, rows, predictions))

    def official_scores(self, rows: datasets.Dataset, predictions: Any) -> dict[str, float]:
        """Return the scores of *SEM 2012, and means over negations; empty without part-of-speech tags."""
        if not has_tags(rows):
            return {}
        sentences = group_sentences(rows)
        return load_metric("starsem").compute(
            predictions=_starsem_negations(self.sentences_with(rows, predictions)),
            references=_starsem_negations(sentences),
            pos=[sentence[0]["pos"] for sentence in sentences],
        )

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return `predictions.jsonl`, with a JSON line for each of `lines_of`.

        Rows with part-of-speech tags are also written in the columns of *SEM 2012, to `starsem_predicted.txt` and, if
        their scopes are known, to `starsem_gold.txt`.
        """
        rows = self.rows[split]
        lines = [json.dumps(line, ensure_ascii=False) for line in self.lines_of(split, predictions)]
        files = {"predictions.jsonl": "".join(f"{line}\n" for line in lines)}
        if has_tags(rows):
            files["starsem_predicted.txt"] = format_starsem(self.sentences_with(rows, predictions))
            if self.examples[split].true_scopes:
                files["starsem_gold.txt"] = format_starsem(group_sentences(rows))
        return files

    def lines_of(self, split: str, predictions: Any) -> Iterator[dict[str, Any]]:
        """Yield each row with its predicted scope and, if known, its `scope`."""
        names = ["id", "tokens", "cue"]
        if self.examples[split].true_scopes:
            names.append("scope")
        for row, scope in zip(self.rows[split].select_columns(names), predictions, strict=True):
            yield {**row, "predicted_scope": scope}


class NegationDetection(NegationScope):
    """Prediction of cues and of their scopes, with `--detect_cues`.

    Each sentence has a row without markers, which asks for its cues, and a row with markers for each cue. Scopes are
    scored for the cues of the corpus (`f1`) and for the cues that the model finds (`end_to_end_f1`). Found cues of a
    kind that the corpus does not have are not scored.
    """

    score_names = (
        "end_to_end_f1",
        "end_to_end_precision",
        "end_to_end_recall",
        "cue_f1",
        "cue_precision",
        "cue_recall",
        *NegationScope.score_names,
    )
    rows_beyond_limit = 1

    def prepare_rows(self, data: Splits) -> Splits:
        prepared = super().prepare_rows(data)
        for split, rows in prepared.items():
            limit = getattr(self.args, LIMITS[split]) if split in LIMITS else None
            prepared[split] = add_questions(rows, limit)
        return prepared

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().adapt(model, tokenizer)
        self.finder = NegationFinder(ModelLabeler(model, tokenizer, self.max_length))

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the negations found in each sentence, and the scores."""
        examples = self.examples[split]
        sentences = group_sentences(examples.rows)
        predicted = self._find([question["tokens"] for question, *_ in sentences])
        true = [[_negation(row) for row in rows] for _, *rows in sentences]
        if not any(true):
            return Scored(predicted, {})
        annotated = annotated_kinds(examples.rows)
        scored = [[negation for negation in sentence if negation[0].kind in annotated] for sentence in predicted]
        cue_scores = _prefixed_scores("cue", _cues, scored, true)
        if examples.true_scopes is None:
            return Scored(predicted, cue_scores)
        scopes = examples.scopes(outputs, self.names, self.args.convention)
        scopes = [scope for row, scope in zip(examples.rows, scopes, strict=True) if any(row["cue"])]
        true_scopes = [scope for _, scope in chain.from_iterable(true)]
        scores = _prefixed_scores("end_to_end", _scope_words, scored, true) | cue_scores
        scores |= load_metric("negation_scope").compute(predictions=scopes, references=true_scopes)
        scores |= self.official_scores(examples.rows, scored)
        return Scored(predicted, scores, pair=(scopes, true_scopes))

    def _find(self, sentences: list[list[str]]) -> list[list[Negation]]:
        with torch.inference_mode():  # the model evaluates already
            findings = self.finder.find(sentences, Reading(self.args.convention))
        return [[(finding.cue, list(map(int, finding.scope))) for finding in sentence] for sentence in findings]

    def sentences_with(self, rows: datasets.Dataset, predictions: Any) -> list[list[dict[str, Any]]]:
        """Return the sentences with the predicted negations that are scored, so that files have the same scores."""
        annotated = annotated_kinds(rows)
        sentences = []
        for (question, *_), negations in zip(group_sentences(rows), predictions, strict=True):
            sentence = [question]
            for cue, scope in negations:
                if cue.kind in annotated:
                    sentence.append(with_negation(question, cue.words, scope, affix=cue.type == "affix"))
            sentences.append(sentence)
        return sentences

    def lines_of(self, split: str, predictions: list[list[Negation]]) -> Iterator[dict[str, Any]]:
        """Yield each sentence with its predicted negations and the true ones, if known."""
        for (question, *rows), predicted in zip(group_sentences(self.rows[split]), predictions, strict=True):
            yield {
                "sentence_id": question["sentence_id"],
                "tokens": question["tokens"],
                "negations": [_as_record(_negation(row)) for row in rows],
                "predicted_negations": list(map(_as_record, predicted)),
            }


def annotated_kinds(rows: datasets.Dataset) -> set[str]:
    """Return the kinds of cues that a corpus annotates: *SEM 2012 never has speculation. Without cues, negation."""
    cues = zip(rows["cue_kind"][:], rows["cue"][:], strict=True)
    return {kind for kind, cue in cues if any(cue)} or {CUE_KINDS[0]}


def has_tags(rows: datasets.Dataset) -> bool:
    """Return True if all rows have part-of-speech tags, which the official scores need."""
    return all(rows["pos"][:])


def add_cue_marker(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Add the cue marker as a special token with a new embedding, unless the tokenizer has one."""
    if knows_cues(tokenizer):
        return
    tokenizer.add_special_tokens({"extra_special_tokens": [CUE_MARKER]}, replace_extra_special_tokens=False)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def _negation(row: Mapping[str, Any]) -> Negation:
    words = tuple(index for index, is_cue in enumerate(row["cue"]) if is_cue)
    return FoundCue(row["cue_kind"], row["cue_type"], words), list(row["scope"])


def _as_record(negation: Negation) -> dict[str, Any]:
    cue, scope = negation
    return {**asdict(cue), "scope": scope}


def _starsem_negations(sentences: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Return the characters of cue and scope of each negation, as the metric takes them."""
    negations = []
    for rows in sentences:
        cued = [row for row in rows if any(row["cue_text"])]
        negations.append([{"cue_text": row["cue_text"], "scope_text": row["scope_text"]} for row in cued])
    return negations


def _prefixed_scores(
    prefix: str,
    items_of: Callable[[list[Negation]], set[Any]],
    predicted: Sequence[list[Negation]],
    true: Sequence[list[Negation]],
) -> dict[str, float]:
    """Return scores of the items that are found in the predicted and true negations of each sentence."""
    scores = set_scores(list(map(items_of, predicted)), list(map(items_of, true)))
    return {f"{prefix}_{name}": score for name, score in scores.items()}


def _cues(negations: list[Negation]) -> set[Any]:
    return {(cue.kind, cue.words) for cue, _ in negations}


def _scope_words(negations: list[Negation]) -> set[Any]:
    words = set[Any]()
    for cue, scope in negations:
        words.update((cue.kind, cue.words, word) for word, is_inside in enumerate(scope) if is_inside)
    return words
