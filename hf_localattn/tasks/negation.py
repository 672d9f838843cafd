"""Negation: the scopes of given cues, or cues and their scopes with one token classifier."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import datasets
import torch
from transformers import (
    DataCollatorForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)

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
from hf_localattn.metrics.starsem_scores import INSTANCE_SCORES, STARSEM_SCORES, starsem
from hf_localattn.metrics.word_scores import negation_scope, set_scores
from hf_localattn.models.cue_markers import CUE_MARKER
from hf_localattn.models.negation_conventions import check_convention
from hf_localattn.models.negation_finder import NegationFinder
from hf_localattn.models.negation_labels import CUE_KINDS, CUE_LABELS, SCOPE_LABELS, FoundCue
from hf_localattn.models.negation_model import ModelLabeler, knows_cues
from hf_localattn.models.negation_reading import Reading
from hf_localattn.names import split_paths
from hf_localattn.settings.data import NegationDataArguments
from hf_localattn.tasks.labels import Head, choose_labels, label_fields
from hf_localattn.tasks.task import LIMITS, Encoder, Encoding, Rows, Scored, Split, Target, Task, select_features

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
    input_columns = ("tokens",)
    DataArguments = NegationDataArguments
    collator_class = DataCollatorForTokenClassification
    own_metrics = ("negation_scope",)
    scores_tokens = True
    group_column = "sentence_id"  # rows of the same sentence must not be in both training and test data
    score_names: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall", "scope_exact_match")
    args: NegationDataArguments

    def check(self, training_args: TrainingArguments) -> None:
        check_convention(self.args.convention)

    def read(
        self, data: Data, layout: Any = None, *, labeled: bool, predicted: bool = False
    ) -> tuple[datasets.Dataset, Any]:
        args = self.args
        paths = split_paths(data) if isinstance(data, str) else []
        rows = load_negation(
            paths if len(paths) > 1 else data,
            **vars(args.corpus),
            require_scopes=labeled,
            skip_empty=args.skip_empty,
        )
        return rows, None

    def choose_target(self, rows: Rows, layout: Any, head: Head) -> Target:
        corpus = self.args.corpus
        kinds = kinds_of(corpus.cues) if corpus.all_sentences else ()
        cue_labels = [label for label in CUE_LABELS if label.startswith(kinds)]
        labels = Labels(SINGLE_LABEL, (*SCOPE_LABELS, *cue_labels))
        labels = choose_labels(labels, replace(head, is_trained=True), fixed=True)
        metrics = {"loss": False} | dict.fromkeys(self.score_names, True)
        if "validation" in rows and has_tags(rows["validation"]):
            metrics |= dict.fromkeys(OFFICIAL_SCORES, True)
        examples = [[0, 1]]
        return Target(
            metrics,
            labels,
            label_fields(labels.names),
            own_metrics=self.own_metrics,
            examples=(examples, examples),
        )

    def prepare_rows(self, rows: Rows, target: Target) -> Rows:
        if "train" in rows and not any(chain.from_iterable(rows["train"]["scope"][:])):
            raise ValueError("No train row has a word in scope: give training data with scopes.")
        if {"train", "validation"} <= rows.keys() and self.args.validation_file not in (None, self.args.train_file):
            check_apart(rows["train"], rows["validation"])
        for name, split in rows.items():
            logger.info("%s: %s.", name, describe_cues(split))
        return rows

    def adapt(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, training_args: TrainingArguments
    ) -> Encoding:
        if training_args.do_train:
            add_cue_marker(tokenizer, model)
        check_knows_cues(tokenizer)
        prepare_tokenizer(tokenizer)
        return super().adapt(model, tokenizer, training_args)

    def encoder(self, split: str, target: Target, encoding: Encoding) -> Encoder:
        label_ids = {name: index for index, name in enumerate(target.names)}
        return scope_features, {"max_length": encoding.max_length, "label_ids": label_ids}

    def finish_features(
        self, name: str, rows: datasets.Dataset, features: datasets.Dataset, encoding: Encoding
    ) -> Split:
        # Scopes are scored over all rows: that of a cue which the model does not see is predicted to be empty.
        _, unseen = count_unseen(rows, features)
        cue_lengths = [sum(cue) for cue in rows["cue"][:]]
        kept = [row for row, length in enumerate(cue_lengths) if not length or unseen[row] < length]
        split = select_features(name, rows, features, kept, encoding.max_length)
        split = replace(split, words=split.features["word_indices"][:])
        removed = ["word_indices"] if examples_of(split).true_scopes else ["word_indices", "labels"]
        split = replace(split, features=split.features.remove_columns(removed))
        # count only the rows that are trained on
        return replace(split, rows=rows.select(kept), kept=range(len(kept))) if name == "train" else split

    def score(self, split: Split, outputs: Any, target: Target, encoding: Any = None) -> Scored:
        """Return the scope of each row, and the scores, from logits (features, tokens, labels)."""
        examples = examples_of(split)
        scopes = examples.scopes(outputs, target.names, self.args.convention)
        true_scopes = examples.true_scopes
        if true_scopes is None:
            return Scored(scopes, {})
        scores = self.score_pair(scopes, true_scopes, target) | self.official_scores(split.rows, scopes)
        return Scored(scopes, scores, pair=(scopes, true_scopes))

    def score_pair(self, predictions: Any, references: Any, target: Target) -> dict[str, float]:
        return negation_scope(predictions, references)

    def sentences_with(self, rows: datasets.Dataset, predictions: Any) -> list[list[dict[str, Any]]]:
        """Return the sentences of rows with part-of-speech tags, with predicted negations."""
        return group_sentences(map(with_scope, rows, predictions))

    def official_scores(self, rows: datasets.Dataset, predictions: Any) -> dict[str, float]:
        """Return the scores of *SEM 2012, and means over negations; empty without part-of-speech tags."""
        if not has_tags(rows):
            return {}
        sentences = group_sentences(rows)
        return starsem(
            _starsem_negations(self.sentences_with(rows, predictions)),
            _starsem_negations(sentences),
            pos=[sentence[0]["pos"] for sentence in sentences],
        )

    def files(self, split: Split, predictions: Any, target: Target) -> dict[str, str]:
        """Return `predictions.jsonl`, with a JSON line for each of `lines_of`.

        Rows with part-of-speech tags are also written in the columns of *SEM 2012, to `starsem_predicted.txt` and, if
        their scopes are known, to `starsem_gold.txt`.
        """
        lines = [json.dumps(line, ensure_ascii=False) for line in self.lines_of(split, predictions)]
        files = {"predictions.jsonl": "".join(f"{line}\n" for line in lines)}
        if has_tags(split.rows):
            files["starsem_predicted.txt"] = format_starsem(self.sentences_with(split.rows, predictions))
            if examples_of(split).true_scopes:
                files["starsem_gold.txt"] = format_starsem(group_sentences(split.rows))
        return files

    def lines_of(self, split: Split, predictions: Any) -> Iterator[dict[str, Any]]:
        """Yield each row with its predicted scope and, if known, its `scope`."""
        names = ["id", "tokens", "cue"]
        if examples_of(split).true_scopes:
            names.append("scope")
        for row, scope in zip(split.rows.select_columns(names), predictions, strict=True):
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

    def prepare_rows(self, rows: Rows, target: Target) -> Rows:
        prepared = super().prepare_rows(rows, target)
        limits = {name: getattr(self.args, LIMITS[name]) if name in LIMITS else None for name in prepared}
        return {name: add_questions(split, limits[name]) for name, split in prepared.items()}

    def adapt(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, training_args: TrainingArguments
    ) -> Encoding:
        encoding = super().adapt(model, tokenizer, training_args)
        NegationFinder(ModelLabeler(model, tokenizer, encoding.max_length))  # checks that the model can find cues
        return encoding

    def complete_outputs(self, outputs: Any, split: Split, model: Any, encoding: Encoding) -> Any:
        """Return the logits, and the negations that the model finds in each sentence."""
        finder = NegationFinder(ModelLabeler(model, encoding.tokenizer, encoding.max_length))
        sentences = [question["tokens"] for question, *_ in group_sentences(split.rows)]
        with torch.inference_mode():  # the model evaluates already
            findings = finder.find(sentences, Reading(self.args.convention))
        return outputs, [[(finding.cue, list(map(int, finding.scope))) for finding in each] for each in findings]

    def score(self, split: Split, outputs: Any, target: Target, encoding: Any = None) -> Scored:
        """Return the negations found in each sentence, and the scores."""
        logits, predicted = outputs
        examples = examples_of(split)
        true = [[_negation(row) for row in rows] for _, *rows in group_sentences(split.rows)]
        if not any(true):
            return Scored(predicted, {})
        annotated = annotated_kinds(examples.rows)
        scored = [[negation for negation in sentence if negation[0].kind in annotated] for sentence in predicted]
        cue_scores = _prefixed_scores("cue", _cues, scored, true)
        if examples.true_scopes is None:
            return Scored(predicted, cue_scores)
        scopes = examples.scopes(logits, target.names, self.args.convention)
        scopes = [scope for row, scope in zip(split.rows, scopes, strict=True) if any(row["cue"])]
        true_scopes = [scope for _, scope in chain.from_iterable(true)]
        scores = _prefixed_scores("end_to_end", _scope_words, scored, true) | cue_scores
        scores |= self.score_pair(scopes, true_scopes, target)
        scores |= self.official_scores(split.rows, scored)
        return Scored(predicted, scores, pair=(scopes, true_scopes))

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

    def lines_of(self, split: Split, predictions: list[list[Negation]]) -> Iterator[dict[str, Any]]:
        """Yield each sentence with its predicted negations and the true ones, if known."""
        for (question, *rows), predicted in zip(group_sentences(split.rows), predictions, strict=True):
            yield {
                "sentence_id": question["sentence_id"],
                "tokens": question["tokens"],
                "negations": [_as_record(_negation(row)) for row in rows],
                "predicted_negations": list(map(_as_record, predicted)),
            }


def examples_of(split: Split) -> ScopeExamples:
    """Return the rows of a split with the words of its features."""
    return ScopeExamples(split.rows, list(split.kept), [list(words) for words in split.words])


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
    return {"kind": cue.kind, "type": cue.type, "words": cue.words, "scope": scope}


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
