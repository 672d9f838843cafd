"""Negation detection: finding cues and their scopes with one token classifier."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.features.scopes import ScopeExamples, word_labels, words_in_scope
from hf_localattn.data.readers.negation.rows import Options
from hf_localattn.data.rows.cue_questions import add_questions, rows_of_sentences
from hf_localattn.files import atomic_write
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.labeled_sentences import set_scores
from hf_localattn.model_utils import evaluating
from hf_localattn.models.cue_labels import INSIDE, OUTSIDE, SCOPE_LABELS, FoundCue, cue_label_names, group_cues
from hf_localattn.models.negation_finder import NegationFinder
from hf_localattn.tasks.negation import PREDICTIONS, NegationScope
from hf_localattn.tasks.splits import Data

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
    def cue(self) -> tuple[str, tuple[int, ...]]:
        """The identity of the cue in its sentence."""
        return self.kind, self.words


class NegationDetection(NegationScope):
    """Prediction of cues and of their scopes, with `--detect_cues`.

    Each sentence has a row without markers, which asks for its cues, and a row with markers for each cue. Scopes are
    scored for the cues of the corpus (`f1`) and for the cues that the model finds (`end_to_end_f1`).
    """

    metrics = MappingProxyType(
        {
            "loss": False,
            **{f"{task}_{name}": True for task in ("end_to_end", "cue") for name in ("f1", "precision", "recall")},
            **{name: better for name, better in NegationScope.metrics.items() if name != "loss"},
        }
    )

    def load(self, parts: Any, **hub: Any) -> Data:
        return {split: add_questions(rows) for split, rows in super().load(parts, **hub).items()}

    @property
    def _kinds(self) -> tuple[str, ...]:
        return Options(self.args.cues).kinds

    @property
    def label_names(self) -> list[str]:
        return [*SCOPE_LABELS, *cue_label_names(self._kinds)]

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Data) -> None:
        super().adapt(model, tokenizer, data)
        self.finder = NegationFinder(model, tokenizer, self.max_length)

    def score_examples(
        self, logits: tuple[np.ndarray, ...], examples: ScopeExamples, features: datasets.Dataset
    ) -> tuple[list[list[Negation]], dict[str, float]]:
        """Return the negations found in each sentence, and the scores."""
        questions, scopes = self._read_logits(logits[0], examples)
        sentences = rows_of_sentences(examples.rows)
        true = [[_negation(row) for row in sentence if any(row["cue"])] for sentence in sentences]
        with_gold_cues = {
            (row["sentence_id"], _negation(row).cue): scopes[row["id"]]
            for sentence in sentences
            for row in sentence
            if any(row["cue"])
        }
        found = self._end_to_end([sentence[0] for sentence in sentences], questions, with_gold_cues)
        if not any(true):
            return found, {}
        cues = set_scores(*([{one.cue for one in own} for own in negations] for negations in (found, true)))
        scores = {f"cue_{name}": value for name, value in cues.items()}
        if examples.true_scopes is None:
            return found, scores
        rows = [row for sentence in sentences for row in sentence if any(row["cue"])]
        predictions, references = [scopes[row["id"]] for row in rows], [row["scope"] for row in rows]
        of_scopes = load_metric("negation_scope").compute(predictions=predictions, references=references)
        words = set_scores(*(list(map(_words, negations)) for negations in (found, true)))
        return found, {**{f"end_to_end_{name}": value for name, value in words.items()}, **scores, **of_scopes}

    def _read_logits(
        self, logits: np.ndarray, examples: ScopeExamples
    ) -> tuple[dict[str, list[FoundCue]], dict[str, list[int]]]:
        """Return the cues found in each sentence, and the scope of the cue of each other row, by the row's id."""
        questions: dict[str, list[FoundCue]] = {}
        scopes: dict[str, list[int]] = {row["id"]: [0] * len(row["cue"]) for row in examples.rows if any(row["cue"])}
        cue_columns, scope_columns = (
            [self.names.index(name) for name in names] for names in (self.finder.cue_names, (OUTSIDE, INSIDE))
        )
        rows = list(examples.rows)
        for number, numbers, own in zip(examples.kept, examples.word_numbers, logits, strict=True):
            row = rows[number]
            if any(row["cue"]):
                scopes[row["id"]] = words_in_scope(own[:, scope_columns], numbers, len(row["cue"]), 1)
            else:
                labels = word_labels(own[:, cue_columns], numbers, len(row["cue"]), self.finder.cue_names)
                questions[row["sentence_id"]] = group_cues(labels)
        return questions, scopes

    def _end_to_end(
        self,
        sentences: list[dict[str, Any]],
        questions: dict[str, list[FoundCue]],
        known: dict[tuple[str, tuple[str, tuple[int, ...]]], list[int]],
    ) -> list[list[Negation]]:
        """Return the found cues of each sentence with their scopes. Scopes of the corpus's own cues are known."""
        scopes = dict(known)
        missing = [
            (row, cue)
            for row in sentences
            for cue in questions[row["sentence_id"]]
            if (row["sentence_id"], (cue.kind, cue.words)) not in scopes
        ]
        with evaluating(self.finder.model), torch.inference_mode():
            for start in range(0, len(missing), BATCH):
                batch = missing[start : start + BATCH]
                found = self.finder.find_scopes([row["tokens"] for row, _ in batch], [cue for _, cue in batch])
                for (row, cue), scope in zip(batch, found, strict=True):
                    scopes[row["sentence_id"], (cue.kind, cue.words)] = list(map(int, scope.words))
        return [
            [
                Negation(cue.kind, cue.type, cue.words, scopes[row["sentence_id"], (cue.kind, cue.words)])
                for cue in questions[row["sentence_id"]]
            ]
            for row in sentences
        ]

    def write_predictions(
        self, folder: Path, split: str, prefix: str, rows: datasets.Dataset, output: PredictionOutput
    ) -> None:
        """Write one JSON line per sentence to `predictions.jsonl`, with the true cues and scopes, if known."""
        lines = []
        for sentence, found in zip(rows_of_sentences(rows), output.predictions, strict=True):
            true = [_negation(row) for row in sentence if any(row["cue"])]
            line = {name: sentence[0][name] for name in ("sentence_id", "tokens")}
            line |= {"negations": list(map(asdict, true)), "predicted_negations": list(map(asdict, found))}
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        atomic_write(folder / PREDICTIONS, "".join(lines))


def _negation(row: dict[str, Any]) -> Negation:
    words = tuple(word for word, is_cue in enumerate(row["cue"]) if is_cue)
    return Negation(row["cue_kind"], row["cue_type"], words, list(row["scope"]))


def _words(negations: list[Negation]) -> set[Any]:
    """Return the words in scope, each with its cue."""
    return {(one.cue, word) for one in negations for word, inside in enumerate(one.scope) if inside}
