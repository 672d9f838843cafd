"""Negation detection: finding cues and their scopes with one token classifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import datasets
import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.negation import add_questions, group_sentences, kinds_of, with_negation
from hf_localattn.data.scopes import ScopeExamples, word_labels, words_in_scope
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.word_scores import set_scores
from hf_localattn.model_utils import evaluating
from hf_localattn.models.negation_finder import (
    CUE_LABELS,
    INSIDE,
    OUTSIDE,
    SCOPE_LABELS,
    FoundCue,
    NegationFinder,
    group_cues,
)
from hf_localattn.tasks.negation import NegationScope
from hf_localattn.tasks.splits import LIMITS
from hf_localattn.tasks.starsem import Sentences
from hf_localattn.tasks.task import Scored, Splits
from hf_localattn.tasks.token_classification import TokenClassificationDataArguments

BATCH = 32
"""Sentences per forward pass when the scopes of found cues are predicted."""


@dataclass(frozen=True)
class Negation:
    """A cue and the words in its scope.

    Attributes:
        kind: "negation" or "speculation".
        type: "affix", "single" or "multi".
        words: indices of the cue's words.
        scope: 1 for each word in scope, 0 for the others.
    """

    kind: str
    type: str
    words: tuple[int, ...]
    scope: list[int]

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        """Kind and words of the cue, which identify it in its sentence."""
        return self.kind, self.words


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
        examples = self.examples[split]
        sentences = group_sentences(examples.rows)
        cues, scopes = self._read_logits(outputs, examples)
        true = [[_negation(row) for row in rows] for _, *rows in sentences]
        found = self._end_to_end([question["tokens"] for question, *_ in sentences], cues, true, scopes)
        if not any(true):
            return Scored(found, {})
        keys = ([{one.key for one in own} for own in negations] for negations in (found, true))
        scores = {f"cue_{name}": value for name, value in set_scores(*keys).items()}
        if examples.true_scopes is None:
            return Scored(found, scores)
        pair = list(chain.from_iterable(scopes)), [one.scope for own in true for one in own]
        of_scopes = load_metric("negation_scope").compute(predictions=pair[0], references=pair[1])
        words = set_scores(*(list(map(_words, negations)) for negations in (found, true)))
        end_to_end = {f"end_to_end_{name}": value for name, value in words.items()}
        official = self.official_scores(examples.rows, found)
        return Scored(found, {**end_to_end, **scores, **of_scopes, **official}, pair=pair)

    def _read_logits(
        self, logits: np.ndarray, examples: ScopeExamples
    ) -> tuple[list[list[FoundCue]], list[list[list[int]]]]:
        """Return for each sentence the cues that are found, and the predicted scopes of its annotated cues."""
        names = self.finder.cue_names
        cue_columns, scope_columns = ([self.names.index(name) for name in own] for own in (names, (OUTSIDE, INSIDE)))
        read = dict(zip(examples.kept, zip(examples.word_numbers, logits, strict=True), strict=True))
        cues: list[list[FoundCue]] = []
        scopes: list[list[list[int]]] = []
        for number, cue in enumerate(examples.rows["cue"][:]):
            if not any(cue):
                numbers, own = read[number]
                cues.append(group_cues(word_labels(own[:, cue_columns], numbers, len(cue), names)))
                scopes.append([])
            elif number in read:
                numbers, own = read[number]
                scopes[-1].append(words_in_scope(own[:, scope_columns], numbers, len(cue)))
            else:  # the model does not see the cue
                scopes[-1].append([0] * len(cue))
        return cues, scopes

    def _end_to_end(
        self,
        sentences: list[list[str]],
        cues: list[list[FoundCue]],
        true: list[list[Negation]],
        scopes: list[list[list[int]]],
    ) -> list[list[Negation]]:
        """Return the found cues of each sentence with their scopes, which are known for cues of the corpus."""
        known = [
            {one.key: scope for one, scope in zip(negations, own, strict=True)}
            for negations, own in zip(true, scopes, strict=True)
        ]
        missing = [
            (number, cue)
            for number, own in enumerate(cues)
            for cue in own
            if (cue.kind, cue.words) not in known[number]
        ]
        with evaluating(self.finder.model), torch.inference_mode():
            for start in range(0, len(missing), BATCH):
                batch = missing[start : start + BATCH]
                found = self.finder.find_scopes([sentences[number] for number, _ in batch], [cue for _, cue in batch])
                for (number, cue), (scope, _) in zip(batch, found, strict=True):
                    known[number][cue.kind, cue.words] = list(map(int, scope))
        return [
            [Negation(cue.kind, cue.type, cue.words, known[number][cue.kind, cue.words]) for cue in own]
            for number, own in enumerate(cues)
        ]

    def sentences_with(self, rows: datasets.Dataset, predictions: list[list[Negation]]) -> Sentences:
        return [
            [question, *(with_negation(question, one.words, one.scope, affix=one.type == "affix") for one in found)]
            for (question, *_), found in zip(group_sentences(rows), predictions, strict=True)
        ]

    def lines_of(self, split: str, predictions: list[list[Negation]]) -> Iterator[dict[str, Any]]:
        """Yield each sentence with its predicted negations and the true ones, if known."""
        for (question, *cues), found in zip(group_sentences(self.rows[split]), predictions, strict=True):
            line = {name: question[name] for name in ("sentence_id", "tokens")}
            line["negations"] = [asdict(_negation(row)) for row in cues]
            line["predicted_negations"] = list(map(asdict, found))
            yield line


def _negation(row: dict[str, Any]) -> Negation:
    words = tuple(word for word, is_cue in enumerate(row["cue"]) if is_cue)
    return Negation(row["cue_kind"], row["cue_type"], words, list(row["scope"]))


def _words(negations: list[Negation]) -> set[Any]:
    """Return the words in scope, each with its cue."""
    return {(one.key, word) for one in negations for word, inside in enumerate(one.scope) if inside}
