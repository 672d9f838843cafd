"""Negation: the scopes of given cues, or cues and their scopes with one token classifier."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import torch
from transformers import DataCollatorForTokenClassification, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

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
from hf_localattn.data.rows import Data, row_numbers
from hf_localattn.data.scopes import (
    ScopeExamples,
    check_knows_cues,
    count_unseen,
    scope_features,
    word_labels,
)
from hf_localattn.data.texts import SINGLE_LABEL, Labels
from hf_localattn.data.words import prepare_tokenizer
from hf_localattn.files import atomic_write
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.starsem_scores import INSTANCE_SCORES, STARSEM_SCORES
from hf_localattn.metrics.word_scores import set_scores
from hf_localattn.models.cue_markers import CUE_MARKER, is_marker
from hf_localattn.models.negation_finder import (
    CUE_LABELS,
    SCOPE_LABELS,
    FoundCue,
    NegationFinder,
    group_cues,
    knows_cues,
)
from hf_localattn.names import split_paths
from hf_localattn.tasks.labels import choose_labels, label_fields
from hf_localattn.tasks.task import LIMITS, Scored, Splits, Task
from hf_localattn.tasks.token_classification import NEGATION, TokenClassificationDataArguments
from hf_localattn.training.arguments import ModelArguments

logger = logging.getLogger(__name__)

PREDICTIONS, GOLD, PREDICTED = "predictions.jsonl", "starsem_gold.txt", "starsem_predicted.txt"

OFFICIAL_SCORES = (*STARSEM_SCORES, *INSTANCE_SCORES)
"""Names of the official scores of *SEM 2012, and of means over negations."""

BATCH = 32
"""Sentences per forward pass when the scopes of found cues are predicted."""

Sentences: TypeAlias = Sequence[Sequence[Mapping[str, Any]]]
"""Rows of each sentence, as `group_sentences` returns them."""

Negation: TypeAlias = tuple[FoundCue, list[int]]
"""A cue, and 1 for each word in its scope, 0 for the others."""


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
    DataArguments = NegationDataArguments
    collator_class = DataCollatorForTokenClassification
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

    def choose_labels(
        self, data: Splits, model_args: ModelArguments, config: PreTrainedConfig | None
    ) -> dict[str, Any]:
        own = Labels(SINGLE_LABEL, self.label_names)
        trained = self.training_args.do_train
        self.names = list(choose_labels(own, model_args, config, trained=trained, fixed=True).names)
        official = OFFICIAL_SCORES if "validation" in data and has_tags(data["validation"]) else ()
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
        super().adapt(model, tokenizer)

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        label_ids = {name: number for number, name in enumerate(self.names)}
        return scope_features, {"max_length": self.max_length, "label_ids": label_ids}

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        """Return the features of the rows whose cue the model sees, and log what it does not see.

        Raises:
            ValueError: no row has a cue that the model sees.
        """
        words, cue_words = count_unseen(rows, features)
        cues = [sum(cue) for cue in rows["cue"][:]]
        kept = [row for row, cue in enumerate(cues) if not cue or cue_words[row] < cue]
        if not kept:
            raise ValueError(f"No {split} row has its cue within {self.max_length} tokens: check --max_seq_length.")
        is_train, of_rows = split == "train", f"of {len(rows)} {split} rows"
        reason = f"after the {self.max_length} tokens of --max_seq_length, or the tokenizer drops"
        if hidden := len(rows) - len(kept):
            then = "These rows are left out of training." if is_train else "An empty scope is predicted for them."
            logger.warning(f"The model does not see the cue of {hidden} {of_rows}: it is {reason} it. {then}")
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
        examples = self.examples[split] = ScopeExamples(rows, kept, features["word_numbers"][:])
        if is_train:  # count only the rows that are trained on
            self.rows[split] = rows.select(kept)
        return features.remove_columns(["word_numbers", *([] if examples.true_scopes else ["labels"])])

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
        return score_sentences(group_sentences(rows), self.sentences_with(rows, predictions)) if has_tags(rows) else {}

    def write_predictions(self, folder: Path, split: str, prefix: str, predictions: Any) -> None:
        """Write a JSON line for each of `lines_of` to `predictions.jsonl`.

        Rows with part-of-speech tags are also written in the columns of *SEM 2012, to `starsem_predicted.txt` and, if
        their scopes are known, to `starsem_gold.txt`.
        """
        rows = self.rows[split]
        lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines_of(split, predictions))
        atomic_write(folder / PREDICTIONS, "".join(lines))
        if has_tags(rows):
            atomic_write(folder / PREDICTED, format_starsem(self.sentences_with(rows, predictions)))
            if self.examples[split].true_scopes:
                atomic_write(folder / GOLD, format_starsem(group_sentences(rows)))

    def lines_of(self, split: str, predictions: Any) -> Iterator[dict[str, Any]]:
        """Yield each row with its predicted scope and, if known, its `scope`."""
        names = ["id", "tokens", "cue", *(["scope"] if self.examples[split].true_scopes else [])]
        for row, scope in zip(self.rows[split].select_columns(names), predictions, strict=True):
            yield {**row, "predicted_scope": scope}


class NegationDetection(NegationScope):
    """Prediction of cues and of their scopes, with `--detect_cues`.

    Each sentence has a row without markers, which asks for its cues, and a row with markers for each cue. Scopes are
    scored for the cues of the corpus (`f1`) and for the cues that the model finds (`end_to_end_f1`).
    """

    score_names = (
        *(f"{task}_{name}" for task in ("end_to_end", "cue") for name in ("f1", "precision", "recall")),
        *NegationScope.score_names,
    )
    rows_beyond_limit = 1

    def __init__(self, args: TokenClassificationDataArguments, training_args: Any):
        super().__init__(args, training_args)
        self.label_names = (*SCOPE_LABELS, *(label for label in CUE_LABELS if label.startswith(kinds_of(args.cues))))

    def prepare_rows(self, data: Splits) -> Splits:
        """Return the rows with those that ask for the cues of a sentence."""
        limits = {split: getattr(self.args, name) for split, name in LIMITS.items()}
        return {split: add_questions(rows, limits.get(split)) for split, rows in super().prepare_rows(data).items()}

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().adapt(model, tokenizer)
        self.finder = NegationFinder(model, tokenizer, self.max_length)

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the negations found in each sentence, and the scores."""
        examples, names = self.examples[split], self.finder.cue_names
        columns = [self.names.index(name) for name in names]
        read = dict(zip(examples.kept, zip(examples.word_numbers, outputs, strict=True), strict=True))
        sentences: list[list[str]] = []
        cues: list[list[FoundCue]] = []
        true: list[list[Negation]] = []
        scopes: list[list[int]] = []  # predicted, of the cues of the corpus
        known: dict[tuple[Any, ...], list[int]] = {}
        for number, (row, scope) in enumerate(zip(examples.rows, examples.scopes(outputs, self.names), strict=True)):
            if any(row["cue"]):
                true[-1].append(_negation(row))
                scopes.append(scope)
                known[len(true) - 1, *_key(true[-1][-1][0])] = scope
                continue
            word_numbers, logits = read[number]
            labels = word_labels(logits[:, columns], word_numbers, len(row["tokens"]), names)
            sentences.append(row["tokens"])
            cues.append(group_cues(labels))
            true.append([])
        self._find_scopes(sentences, cues, known)
        found = [[(cue, known[number, *_key(cue)]) for cue in own] for number, own in enumerate(cues)]
        if not any(true):
            return Scored(found, {})
        keys = ([{_key(cue) for cue, _ in own} for own in negations] for negations in (found, true))
        scores = {f"cue_{name}": value for name, value in set_scores(*keys).items()}
        if examples.true_scopes is None:
            return Scored(found, scores)
        pair = scopes, [scope for own in true for _, scope in own]
        of_scopes = load_metric("negation_scope").compute(predictions=pair[0], references=pair[1])
        words = set_scores(*(list(map(_words, negations)) for negations in (found, true)))
        end_to_end = {f"end_to_end_{name}": value for name, value in words.items()}
        official = self.official_scores(examples.rows, found)
        return Scored(found, {**end_to_end, **scores, **of_scopes, **official}, pair=pair)

    def _find_scopes(
        self, sentences: list[list[str]], cues: list[list[FoundCue]], known: dict[tuple[Any, ...], list[int]]
    ) -> None:
        """Add the scopes of the found cues that are not in the corpus to the known ones."""
        missing = [
            (number, cue) for number, own in enumerate(cues) for cue in own if (number, *_key(cue)) not in known
        ]
        with torch.inference_mode():  # the model evaluates already
            for start in range(0, len(missing), BATCH):
                batch = missing[start : start + BATCH]
                found = self.finder.find_scopes([sentences[number] for number, _ in batch], [cue for _, cue in batch])
                for (number, cue), (scope, _) in zip(batch, found, strict=True):
                    known[number, *_key(cue)] = list(map(int, scope))

    def sentences_with(self, rows: datasets.Dataset, predictions: list[list[Negation]]) -> Sentences:
        return [
            [question, *(with_negation(question, cue.words, scope, affix=cue.type == "affix") for cue, scope in found)]
            for (question, *_), found in zip(group_sentences(rows), predictions, strict=True)
        ]

    def lines_of(self, split: str, predictions: list[list[Negation]]) -> Iterator[dict[str, Any]]:
        """Yield each sentence with its predicted negations and the true ones, if known."""
        for (question, *cues), found in zip(group_sentences(self.rows[split]), predictions, strict=True):
            line = {name: question[name] for name in ("sentence_id", "tokens")}
            for name, negations in (("negations", map(_negation, cues)), ("predicted_negations", found)):
                line[name] = [{**asdict(cue), "scope": scope} for cue, scope in negations]
            yield line


def has_tags(rows: datasets.Dataset) -> bool:
    """Return True if all rows have part-of-speech tags, which the official scores need."""
    return all(rows["pos"][:])


def score_sentences(gold: Sentences, predicted: Sentences) -> dict[str, float]:
    """Return the official scores of *SEM 2012, and means over negations, for sentences with tags."""
    predictions, references = (
        [
            [{"cue_text": row["cue_text"], "scope_text": row["scope_text"]} for row in rows if any(row["cue_text"])]
            for rows in sentences
        ]
        for sentences in (predicted, gold)
    )
    tags = [rows[0]["pos"] for rows in gold]
    return load_metric("starsem").compute(predictions=predictions, references=references, pos=tags)


def add_cue_marker(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Add the cue marker as a special token with a new embedding, unless the tokenizer has one."""
    if knows_cues(tokenizer):
        return
    tokenizer.add_special_tokens({"extra_special_tokens": [CUE_MARKER]}, replace_extra_special_tokens=False)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def _negation(row: Mapping[str, Any]) -> Negation:
    words = tuple(word for word, is_cue in enumerate(row["cue"]) if is_cue)
    return FoundCue(row["cue_kind"], row["cue_type"], words), list(row["scope"])


def _key(cue: FoundCue) -> tuple[str, tuple[int, ...]]:
    """Return kind and words of a cue, which identify it in its sentence."""
    return cue.kind, cue.words


def _words(negations: list[Negation]) -> set[Any]:
    """Return the words in scope, each with its cue."""
    return {(_key(cue), word) for cue, scope in negations for word, inside in enumerate(scope) if inside}
