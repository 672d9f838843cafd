"""Plain rivals of a trained model, which need seconds: constants, regressions on a frozen encoder, common words.

The encoder is read once, as it is before the training. The functions are of rows, states and labels alone.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION
from hf_localattn.data.words import IGNORED
from hf_localattn.metrics import load_metric
from hf_localattn.names import RIVALS
from hf_localattn.training.layer_states import encoder_of, mean_layers, token_layers
from hf_localattn.training.scores import main_score

logger = logging.getLogger(__name__)

MOST_TEXTS = 2_000
"""Number of training texts that a regression reads, drawn if there are more."""

MOST_WORDS = 10_000
"""Number of training words that a regression reads."""

PENALTY = 0.01
"""scikit-learn's `C` of logistic regressions on standardized states."""

PENALTIES = tuple(10.0**exponent for exponent in range(7))
"""Penalties of ridge regressions, of which leave-one-out validation chooses one."""

WORD = re.compile(r"\w+")
SENTENCE = re.compile(r"\S.*?(?:[.!?](?=\s)|$)", re.DOTALL | re.MULTILINE)


def regress(train: np.ndarray, targets: Any, problem_type: str | None, num_labels: int) -> Callable[..., np.ndarray]:
    """Fit a logistic regression of classes, or a ridge regression of scores, to standardized features.

    Args:
        train: Features of the training rows (N, D).
        targets: Their labels, as a model takes them: classes, sets of classes (N, labels), or scores.
        problem_type: Problem type of the labels.
        num_labels: Number of labels.

    Returns:
        A function from features (N, D) to outputs (N, labels), which are scored as the logits of a model.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model: Any = LogisticRegression(C=PENALTY, max_iter=200)
    if problem_type == REGRESSION:
        model = RidgeCV(alphas=PENALTIES)
    elif problem_type == MULTI_LABEL:
        model = OneVsRestClassifier(model)
    targets = np.asarray(targets)
    if problem_type not in (REGRESSION, MULTI_LABEL) and len(np.unique(targets)) == 1:  # nothing to fit
        return lambda features: np.tile(np.eye(num_labels)[targets[0]], (len(features), 1))
    fitted = make_pipeline(StandardScaler(), model).fit(train, targets)

    def outputs(features: np.ndarray) -> np.ndarray:
        if problem_type == MULTI_LABEL:
            return fitted.decision_function(features).reshape(len(features), -1)
        predicted = fitted.predict(features)
        return predicted.reshape(-1, 1) if problem_type == REGRESSION else np.eye(num_labels)[predicted]

    return outputs


def pair_features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the distances and the products of the means of all layers (N, S, H) of two texts (N, 2 * S * H)."""
    return np.concatenate([np.abs(first - second), first * second], axis=-1).reshape(len(first), -1)


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine (N, 1) of the means of the last layer (N, S, H) of two texts."""
    a, b = first[:, -1], second[:, -1]
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return ((a * b).sum(-1) / np.maximum(lengths, 1e-12))[:, None]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text: they end with ".", "!" or "?" before a blank, or with their line."""
    return SENTENCE.findall(text)


def most_common_words(question: str, context: str) -> str:
    """Return the sentence of a context that has most words of a question; of equal ones the shorter, then the first.

    Example:
        >>> most_common_words("Who baked the bread?", "It rained. Mira baked bread.")
        'Mira baked bread.'
    """
    asked = set(WORD.findall(question.casefold()))

    def rank(sentence: str) -> tuple[int, int]:
        return len(asked & set(WORD.findall(sentence.casefold()))), -len(sentence)

    return max(sentences_of(context), key=rank, default="")


def drawn(count: int, most: int) -> list[int]:
    """Return the indices of at most `most` of `count` rows, always the same ones, in order."""
    return sorted(random.Random(0).sample(range(count), most)) if count > most else list(range(count))


class Rivals:
    """Plain rivals of the model of a run, fitted to its training rows.

    Args:
        task: `hf_localattn.tasks.Task` with its rows and features.
        model (*optional*): The model before its training. Without it the only rivals are those that read no encoder.
        tokenizer (*optional*): Its tokenizer.
    """

    def __init__(self, task: Any, model: Any = None, tokenizer: Any = None):
        self.task = task
        self.tokenizer = tokenizer
        self.encoder = None if model is None else encoder_of(model)
        self.outputs: dict[str, dict[str, Any]] = {}
        """Outputs of the rivals that read the encoder, by name and split."""

    def read_encoder(self) -> None:
        """Fit the rivals that read the encoder, and keep their outputs for all splits."""
        task = self.task
        if self.encoder is None or "train" not in task.features or len(task.features) == 1:
            return
        if task.name == "text-classification":
            if "text_pair" in task.rows["train"].column_names:
                self._read_pairs()
            else:
                self._read_texts()
        elif task.name == "token-classification":
            self._read_words()

    def _fit(self, name: str, features: Mapping[str, np.ndarray], indices: Sequence[int]) -> None:
        """Fit a regression to the features of the training rows, and keep its outputs for the other splits."""
        labels = self.task.labels
        targets = np.asarray(self.task.features["train"]["label"][:])[indices]
        predict = regress(features["train"], targets, labels.problem_type, labels.num_labels)
        splits = {split: values for split, values in features.items() if split != "train"}
        self.outputs[name] = {split: predict(values) for split, values in splits.items()}

    def _read_texts(self) -> None:
        features = self.task.features
        indices = drawn(len(features["train"]), MOST_TEXTS)
        rows = {**features, "train": features["train"].select(indices)}
        means = {split: mean_layers(self.encoder, split_rows.to_list()) for split, split_rows in rows.items()}
        self._fit("linear", {split: values.reshape(len(values), -1) for split, values in means.items()}, indices)

    def _read_pairs(self) -> None:
        rows = dict(self.task.rows)
        indices = drawn(len(rows["train"]), MOST_TEXTS)
        rows["train"] = rows["train"].select(indices)
        means = {}
        for split, split_rows in rows.items():
            texts = [self._tokenized(split_rows[column][:]) for column in ("text", "text_pair")]
            means[split] = [mean_layers(self.encoder, side) for side in texts]
        self._fit("linear", {split: pair_features(*sides) for split, sides in means.items()}, indices)
        self._fit("cosine", {split: cosines(*sides) for split, sides in means.items()}, indices)

    def _tokenized(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        columns = dict(self.tokenizer(list(texts), truncation=True, max_length=self.task.max_length))
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _read_words(self) -> None:
        features = self.task.features
        order = random.Random(0).sample(range(len(features["train"])), len(features["train"]))
        labels = features["train"]["labels"][:]
        counts = np.cumsum([np.not_equal(labels[index], IGNORED).sum() for index in order])
        chosen = order[: 1 + int(np.searchsorted(counts, MOST_WORDS))]
        train, targets = self._words(features["train"].select(chosen))
        predict = regress(np.concatenate(train), np.concatenate(targets), None, len(self.task.names))
        self.outputs["linear"] = {}
        for split, rows in features.items():
            if split == "train" or "labels" not in rows.column_names:
                continue
            predicted = []
            states, _ = self._words(rows)
            for row_labels, values in zip(rows["labels"], states, strict=True):
                best = np.zeros(len(row_labels), int)
                best[np.not_equal(row_labels, IGNORED)] = predict(values).argmax(axis=-1)
                predicted.append(best)
            self.outputs["linear"][split] = predicted

    def _words(self, rows: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the states of the labeled words of each row, and their labels."""
        labels = [np.asarray(values) for values in rows["labels"]]
        positions = [np.flatnonzero(values != IGNORED) for values in labels]
        states = token_layers(self.encoder, rows.to_list(), positions)
        return states, [values[chosen] for values, chosen in zip(labels, positions, strict=True)]

    def scores(self, split: str, scores: Mapping[str, float]) -> dict[str, float]:
        """Score the rivals on a split, and tell if the model is not better than the strongest one.

        Args:
            split: Name of the split.
            scores: Scores of the model.

        Returns:
            A score of each rival, such as `accuracy_of_constant`: the main score, of a constant in place of
            correlations `rmse`. {} without a rival or labels.
        """
        task = self.task
        name = main_score(task.metrics)
        if name not in scores or "train" not in task.features:
            return {}
        constant_name = "rmse" if "rmse" in task.metrics else name  # a constant has no correlation
        results: dict[str, dict[str, float]] = {}
        constant = task.constant_outputs(split)
        if constant is not None:
            results[constant_name] = {"constant": self._score(split, constant, constant_name)}
        for rival, outputs in self.outputs.items():
            if split in outputs:
                results.setdefault(name, {})[rival] = self._score(split, outputs[split], name)
        if task.name == "question-answering":
            results.setdefault(name, {})["words"] = self._score_common_words(split, name)
        for score_name, of_rivals in results.items():
            self._compare(split, score_name, scores[score_name], of_rivals)
        return {f"{score}_of_{rival}": value for score, rivals in results.items() for rival, value in rivals.items()}

    def _score(self, split: str, outputs: Any, name: str) -> float:
        features = self.task.features[split]
        labels = np.asarray(features["label"][:]) if "label" in features.column_names else None
        return self.task.score(split, outputs, labels).scores[name]

    def _score_common_words(self, split: str, name: str) -> float:
        rows = self.task.rows[split]
        predictions = []
        for row in rows.select_columns(["id", "question", "context"]):
            predictions.append(
                {"id": row["id"], "prediction_text": most_common_words(row["question"], row["context"])}
            )
        references = rows.select_columns(["id", "answers"]).to_list()
        if self.task.no_answer_threshold is None:
            return load_metric("squad").compute(predictions=predictions, references=references)[name]
        certain = [{**prediction, "no_answer_probability": 0.0} for prediction in predictions]
        return load_metric("squad_v2").compute(predictions=certain, references=references)[name]

    def _compare(self, split: str, name: str, score: float, of_rivals: Mapping[str, float]) -> None:
        """Tell if a model is not better than its strongest rival, with advice unless its score is perfect."""
        is_greater = self.task.metrics[name]
        strongest = (max if is_greater else min)(of_rivals, key=lambda rival: of_rivals[rival])
        value = of_rivals[strongest]
        is_better = score > value if is_greater else score < value
        if is_better:
            return
        perfect = (100.0 if self.task.name == "question-answering" else 1.0) if is_greater else 0.0
        advice = "" if score == perfect else ": train it longer, or with another --learning_rate"
        logger.warning(
            "The model is %s its rival %r, %s, on the %s rows (%s %.4f, against %.4f)%s.",
            "level with" if score == value else "not better than",
            strongest,
            RIVALS[strongest],
            split,
            name,
            score,
            value,
            advice,
        )
