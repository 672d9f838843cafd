"""Rivals of a model: their scores, and a warning if the model is not better."""

from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.tasks import (
    MultipleChoice,
    QuestionAnswering,
    QuestionGeneration,
    Split,
    Target,
    TextClassification,
    TokenClassification,
)
from hf_localattn.tasks.question_generation import GenerationEncoding
from hf_localattn.tasks.text_classification import REPORTED
from hf_localattn.training.evaluation import Evaluation
from hf_localattn.training.rivals import Rivals


class MeanStates:
    """Stands for the kept states of a frozen encoder, whose mean states tell the label."""

    def mean_states(self, features):
        return np.array([[row["input_ids"][0]] for row in features], float)


def evaluation(task_class, target, train, test, rows=None, **options):
    task = task_class(task_class.DataArguments(validation_file="rows.json", **options))
    splits = {
        name: Split(name, Dataset.from_list(rows or features), Dataset.from_list(features))
        for name, features in (("train", train), ("validation", test))
    }
    return Evaluation(task, target, None, splits)


def texts(kind, names, train, test):
    rows = [[{"input_ids": [states], "label": label} for states, label in split] for split in (train, test)]
    metrics = {"loss": False, **{name: name not in ("mse", "rmse") for name in REPORTED[kind]}}
    return evaluation(
        TextClassification, Target(metrics, Labels(kind, names), has_classes=kind == SINGLE_LABEL), *rows
    )


CASES = {
    "classes": (
        texts(
            SINGLE_LABEL, ("a", "b", "c"), [(1, 2), (1, 2), (0, 0), (0, 0), (1, 2)], [(0, 0), (1, 2), (0, 0), (0, 1)]
        ),
        {"accuracy_of_constant": 0.25, "accuracy_of_linear": 0.75},
    ),
    "sets": (
        texts(MULTI_LABEL, ("a", "b"), [(0, [1.0, 0.0]), (1, [1.0, 1.0])] * 2, [(1, [1.0, 1.0])]),
        {"micro_f1_of_constant": 2 / 3, "micro_f1_of_linear": 1.0},
    ),
    "scores": (
        texts(REGRESSION, (), [(0, 0.0), (2, 4.0)], [(0, 3.0), (0, 1.0)]),
        {"rmse_of_constant": 1.0, "rmse_of_linear": (50 / 18) ** 0.5},
    ),
    "choices": (
        evaluation(
            MultipleChoice,
            Target({"loss": False, "accuracy": True}),
            [{"input_ids": [[1]] * 3, "label": label} for label in (2, 2, 0)],
            [{"input_ids": [[1]] * 3, "label": label} for label in (2, 0)],
        ),
        {"accuracy_of_constant": 0.5},
    ),
}


@pytest.mark.filterwarnings("ignore:Label .* is present")
@pytest.mark.parametrize("case", CASES)
def test_rivals_are_scored_as_the_model(case, caplog):
    scored, expected = CASES[case]
    score_name = next(iter(expected)).partition("_of_")[0]
    results = Rivals(scored, MeanStates()).scores(scored.splits["validation"], {score_name: 0.5})
    assert results == pytest.approx(expected)
    assert ("not better" in caplog.text) == (case in ("classes", "sets", "choices"))


def test_the_commonest_label_of_words():
    features = [{"input_ids": [1, 2, 3], "labels": [-100, 1, 1]}, {"input_ids": [4], "labels": [0]}]
    words = evaluation(TokenClassification, Target({}), features, features)
    outputs = words.task.constant_outputs(words.splits["validation"], words.splits["train"], words.target)
    assert [output.tolist() for output in outputs] == [[1, 1, 1], [1]]


def questions(may_be_silent, threshold=0.0):
    """Two questions with a window each; the second question has no answer."""
    window = {"input_ids": [1, 2, 3], "offset_mapping": [None, [0, 4], [5, 8]], "no_answer_position": 0}
    windows = [{**window, "example_id": identifier} for identifier in "ab"]
    answers = [{"text": ["Mira"], "answer_start": [0]}, {"text": [], "answer_start": []}]
    rows = [
        {"id": name, "context": "Mira met.", "answers": answer} for name, answer in zip("ab", answers, strict=True)
    ]
    options = {"version_2_with_negative": may_be_silent, "null_score_diff_threshold": threshold}
    return evaluation(QuestionAnswering, Target({"f1": True}), windows, windows, rows, **options)


@pytest.mark.parametrize("threshold", [0.0, -10.0, 1000.0])
def test_no_answer_is_the_rival_of_a_reader_that_may_say_so(threshold):
    reading = questions(True, threshold)
    assert Rivals(reading).scores(reading.splits["validation"], {"f1": 60.0}) == {"f1_of_constant": 50.0}


@pytest.mark.parametrize(
    ("written", "warns"), [(["Who?", "Who?"], True), (["Who?", "Where?"], False), (["Who?"], False)]
)
def test_a_model_that_writes_the_same_for_all_rows_is_told(written, warns, caplog):
    tokenizer = SimpleNamespace(pad_token_id=0, batch_decode=lambda ids, **options: written)
    features = Dataset.from_list([{"reference": "Who is it?"}] * len(written))
    encoding = GenerationEncoding(tokenizer, 9, 9, 9, -100, num_beams=1)
    split = Split("validation", features, features)
    QuestionGeneration(None).score(split, np.ones((len(written), 3), int), Target({}), encoding)
    assert ("the same" in caplog.text) == warns


def test_some_models_have_no_rival():
    """Without training rows in memory (a stream), without labels, and for answers that every question has."""
    streamed = texts(SINGLE_LABEL, ("a", "b"), [(0, 0)], [(0, 0)])
    split = streamed.splits.pop("validation")
    del streamed.splits["train"]
    assert Rivals(streamed).scores(split, {"accuracy": 1.0}) == {}
    choices = CASES["choices"][0]
    assert Rivals(choices).scores(choices.splits["validation"], {}) == {}
    answers = questions(False)
    assert Rivals(answers).scores(answers.splits["validation"], {"f1": 50.0}) == {}
