"""Plain rivals of a trained model, which need seconds: constants, regressions on a frozen encoder, common words.

The encoder is read once, as it is before the training. The functions are of rows, states and labels alone.
"""

from __future__ import annotations

import logging
import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from hf_localattn.data.words import IGNORED
from hf_localattn.names import RIVALS
from hf_localattn.tasks import MultipleChoice, QuestionAnswering, TextClassification, TokenClassification
from hf_localattn.tasks.task import Split
from hf_localattn.training.evaluation import Evaluation
from hf_localattn.training.layer_states import encoder_of, mean_layers, token_layers
from hf_localattn.training.scores import main_score, perfect_score, strongest_rival

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
    is_number = problem_type in (REGRESSION, MULTI_LABEL)
    if (targets == targets[0]).all():  # nothing to fit
        constant = targets[0] - 0.5 * (problem_type == MULTI_LABEL) if is_number else np.eye(num_labels)[targets[0]]
        return lambda features: np.tile(constant, (len(features), 1))
    with warnings.catch_warnings():
        # such a label is predicted as it is
        warnings.filterwarnings("ignore", message="Label .* is present in")
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
    """Return the cosine (...) of vectors (..., H)."""
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return np.einsum("...h,...h->...", first, second) / np.maximum(lengths, 1e-12)


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


@dataclass(frozen=True)
class Rivals:
    """Plain rivals of the model of a run, fitted to its training rows.

    Args:
        evaluation: The task and its splits.
        outputs (*optional*): Outputs of the rivals that read the encoder, by name of the rival and of the split.
    """

    evaluation: Evaluation
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def scores(self, split: Split, scores: Mapping[str, float]) -> dict[str, float]:
        """Score the rivals on a split, and warn if the model is not better than the strongest one.

        Args:
            split: The split.
            scores: Scores of the model.

        Returns:
            A score of each rival, such as `accuracy_of_constant`: the main score, of a constant in place of
            correlations `rmse`. {} without a rival or labels.
        """
        task, target = self.evaluation.task, self.evaluation.target
        train = self.evaluation.splits.get("train")
        name = main_score(target.metrics)
        if name not in scores or train is None:
            return {}
        constant_name = "rmse" if "rmse" in target.metrics else name  # a constant has no correlation
        results: dict[str, dict[str, float]] = {}
        constant = task.constant_outputs(split, train, target)
        if constant is not None:
            results[constant_name] = {"constant": self._score(split, constant, constant_name)}
        for rival, outputs in self.outputs.items():
            if split.name in outputs:
                results.setdefault(name, {})[rival] = self._score(split, outputs[split.name], name)
        if isinstance(task, QuestionAnswering):
            results.setdefault(name, {})["words"] = task.score_pair(*answer_by_words(split.rows), target)[name]
        for score_name, of_rivals in results.items():
            self._compare(split, score_name, scores[score_name], of_rivals)
        return {f"{score}_of_{rival}": value for score, rivals in results.items() for rival, value in rivals.items()}

    def _score(self, split: Split, outputs: Any, name: str) -> float:
        evaluation = self.evaluation
        return evaluation.task.score(split, outputs, evaluation.target, evaluation.encoding).scores[name]

    def _compare(self, split: Split, name: str, score: float, of_rivals: Mapping[str, float]) -> None:
        """Warn if a model is not better than its strongest rival, with advice unless its score is perfect."""
        is_greater = self.evaluation.target.metrics[name]
        strongest = strongest_rival(score, of_rivals, is_greater=is_greater)
        if strongest is None:
            return
        rival, value, relation = strongest
        perfect = perfect_score(self.evaluation.task, is_greater=is_greater)
        advice = "" if score == perfect else ": train it longer, or with another --learning_rate"
        logger.warning(
            "The model is %s its rival %r, %s, on the %s rows (%s %.4f, against %.4f)%s.",
            relation,
            rival,
            RIVALS[rival],
            split.name,
            name,
            score,
            value,
            advice,
        )


def answer_by_words(rows: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return SQuAD's predictions, each the sentence with most words of its question, and references."""
    predictions = []
    for row in rows.select_columns(["id", "question", "context"]):
        answer = most_common_words(row["question"], row["context"])
        predictions.append({"id": row["id"], "prediction_text": answer, "no_answer_probability": 0.0})
    return predictions, rows.select_columns(["id", "answers"]).to_list()


def fit_rivals(evaluation: Evaluation, model: Any = None) -> Rivals:
    """Fit the rivals of a model to the training rows of a run.

    Args:
        evaluation: The task and its splits.
        model (*optional*): The model before its training. Without it no rival reads an encoder.
    """
    encoder = None if model is None else encoder_of(model)
    splits = {name: split for name, split in evaluation.splits.items() if name == "train" or split.has_labels}
    evaluation = replace(evaluation, splits=splits)
    outputs: dict[str, Mapping[str, Any]] = {}
    if encoder is not None and "train" in splits and len(splits) > 1:
        if isinstance(evaluation.task, TextClassification):
            has_pairs = "text_pair" in splits["train"].rows.column_names
            outputs = (_fit_pairs if has_pairs else _fit_texts)(evaluation, encoder)
        elif isinstance(evaluation.task, MultipleChoice):
            outputs = {"cosine": _compare_choices(evaluation, encoder)}
        elif type(evaluation.task) is TokenClassification:  # not scopes of cues
            outputs = {"linear": _fit_words(evaluation, encoder)}
    return Rivals(evaluation, outputs)


def _fit(evaluation: Evaluation, features: Mapping[str, np.ndarray], indices: Sequence[int]) -> dict[str, np.ndarray]:
    """Return the outputs of a regression on features of the drawn training rows for the other splits."""
    labels, targets = evaluation.target.labels, evaluation.splits["train"].labels
    assert labels is not None
    assert targets is not None
    predict = regress(features["train"], targets[indices], labels.problem_type, labels.num_labels)
    return {split: predict(values) for split, values in features.items() if split != "train"}


def _fit_texts(evaluation: Evaluation, encoder: Any) -> dict[str, Mapping[str, Any]]:
    rows = {name: split.features for name, split in evaluation.splits.items()}
    indices = drawn(len(rows["train"]), MOST_TEXTS)
    rows["train"] = rows["train"].select(indices)
    means = {name: mean_layers(encoder, split_rows.to_list()) for name, split_rows in rows.items()}
    return {"linear": _fit(evaluation, {name: mean.reshape(len(mean), -1) for name, mean in means.items()}, indices)}


def _fit_pairs(evaluation: Evaluation, encoder: Any) -> dict[str, Mapping[str, Any]]:
    indices = drawn(len(evaluation.splits["train"].features), MOST_TEXTS)
    sides: dict[str, list[np.ndarray]] = {}
    for name, split in evaluation.splits.items():
        rows = split.rows.select(split.kept) if split.kept else split.rows
        rows = rows.select(indices) if name == "train" else rows
        sides[name] = np.split(_read(encoder, evaluation, [*rows["text"][:], *rows["text_pair"][:]]), 2)
    return {
        "linear": _fit(evaluation, {name: pair_features(*pair) for name, pair in sides.items()}, indices),
        "cosine": _fit(evaluation, {name: cosines(a[:, -1:], b[:, -1:]) for name, (a, b) in sides.items()}, indices),
    }


def _compare_choices(evaluation: Evaluation, encoder: Any) -> dict[str, np.ndarray]:
    """Return the cosine of each choice with its context, by split (rows, choices)."""
    outputs = {}
    for name, split in evaluation.splits.items():
        if name != "train":
            texts = [*split.rows["context"][:], *(choice for row in split.rows["choices"] for choice in row)]
            contexts, choices = np.split(_read(encoder, evaluation, texts)[:, -1], [len(split.rows)])
            outputs[name] = cosines(contexts[:, None], choices.reshape(len(contexts), -1, choices.shape[-1]))
    return outputs


def _read(encoder: Any, evaluation: Evaluation, texts: Sequence[str]) -> np.ndarray:
    """Return the means of all layers for texts (N, S, H)."""
    encoding = evaluation.encoding
    columns = dict(encoding.tokenizer(texts, truncation=True, max_length=encoding.max_length))
    return mean_layers(
        encoder, [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    )


def _fit_words(evaluation: Evaluation, encoder: Any) -> dict[str, list[np.ndarray]]:
    """Return the index of the best label of each token of each row, by split."""
    splits = evaluation.splits
    train = splits["train"].features
    order = random.Random(0).sample(range(len(train)), len(train))
    labels = train["labels"][:]
    counts = np.cumsum([np.not_equal(labels[index], IGNORED).sum() for index in order])
    chosen = order[: 1 + int(np.searchsorted(counts, MOST_WORDS))]
    states, targets = _words(encoder, train.select(chosen))
    predict = regress(np.concatenate(states), np.concatenate(targets), SINGLE_LABEL, len(evaluation.target.names))
    outputs: dict[str, list[np.ndarray]] = {}
    for name, split in splits.items():
        if name == "train":
            continue
        states, _ = _words(encoder, split.features)
        outputs[name] = []
        for row_labels, values in zip(split.features["labels"], states, strict=True):
            best = np.zeros(len(row_labels), int)
            if len(values):
                best[np.not_equal(row_labels, IGNORED)] = predict(values).argmax(axis=-1)
            outputs[name].append(best)
    return outputs


def _words(encoder: Any, rows: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the states of the labeled words of each row, and their labels."""
    labels = [np.asarray(values) for values in rows["labels"]]
    positions = [np.flatnonzero(values != IGNORED) for values in labels]
    states = token_layers(encoder, rows.to_list(), positions)
    return states, [values[chosen] for values, chosen in zip(labels, positions, strict=True)]
