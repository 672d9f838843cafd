"""Rivals of a model: their scores, and a warning if the model is not better."""

from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.settings.data import QuestionAnsweringDataArguments
from hf_localattn.tasks.multiple_choice import MultipleChoice
from hf_localattn.tasks.question_answering import QuestionAnswering
from hf_localattn.tasks.question_generation import QuestionGeneration
from hf_localattn.tasks.text_classification import REPORTED, TextClassification
from hf_localattn.tasks.token_classification import TokenClassification
from hf_localattn.training.rivals import Rivals


class MeanStates:
    """Stands for the kept states of a frozen encoder, whose mean states tell the label."""

    def mean_states(self, features):
        return np.array([[row["input_ids"][0]] for row in features], float)


def task_with(task_class, train, test, **attributes):
    task = object.__new__(task_class)
    task.features = {"train": Dataset.from_list(train), "validation": Dataset.from_list(test)}
    vars(task).update(attributes)
    return task


def texts(kind, names, train, test):
    rows = [[{"input_ids": [states], "label": label} for states, label in split] for split in (train, test)]
    names_of_scores = REPORTED[kind]
    return task_with(
        TextClassification,
        *rows,
        labels=Labels(kind, names),
        has_classes=kind == SINGLE_LABEL,
        score_names=names_of_scores,
        combined=(),
        metrics={"loss": False, **{name: name not in ("mse", "rmse") for name in names_of_scores}},
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
        task_with(
            MultipleChoice,
            [{"input_ids": [[1]] * 3, "label": label} for label in (2, 2, 0)],
            [{"input_ids": [[1]] * 3, "label": label} for label in (2, 0)],
        ),
        {"accuracy_of_constant": 0.5},
    ),
}


@pytest.mark.filterwarnings("ignore:Label .* is present")
@pytest.mark.parametrize("case", CASES)
def test_rivals_are_scored_as_the_model(case, caplog):
    task, expected = CASES[case]
    score_name = next(iter(expected)).partition("_of_")[0]
    results = Rivals(task, MeanStates()).scores("validation", {score_name: 0.5})
    assert results == pytest.approx(expected)
    assert ("not better" in caplog.text) == (case in ("classes", "sets", "choices"))


def test_the_commonest_label_of_words():
    features = [{"input_ids": [1, 2, 3], "labels": [-100, 1, 1]}, {"input_ids": [4], "labels": [0]}]
    task = task_with(TokenClassification, features, features)
    assert [outputs.tolist() for outputs in task.constant_outputs("validation")] == [[1, 1, 1], [1]]


def questions(threshold):
    """The task of two questions with a window each; the second question has no answer."""
    window = {"input_ids": [1, 2, 3], "offset_mapping": [None, [0, 4], [5, 8]], "no_answer_position": 0}
    windows = [{**window, "example_id": identifier} for identifier in "ab"]
    answers = [{"text": ["Mira"], "answer_start": [0]}, {"text": [], "answer_start": []}]
    rows = [
        {"id": name, "context": "Mira met.", "answers": answer} for name, answer in zip("ab", answers, strict=True)
    ]
    args = QuestionAnsweringDataArguments(validation_file="rows.json", version_2_with_negative=True)
    return task_with(
        QuestionAnswering,
        windows,
        windows,
        rows={"validation": Dataset.from_list(rows)},
        metrics={"f1": True},
        args=args,
        no_answer_threshold=threshold,
    )


@pytest.mark.parametrize("threshold", [0.0, -10.0, 1000.0])
def test_no_answer_is_the_rival_of_a_reader_that_may_say_so(threshold):
    assert Rivals(questions(threshold)).scores("validation", {"f1": 60.0}) == {"f1_of_constant": 50.0}


@pytest.mark.parametrize(
    ("written", "warns"), [(["Who?", "Who?"], True), (["Who?", "Where?"], False), (["Who?"], False)]
)
def test_a_model_that_writes_the_same_for_all_rows_is_told(written, warns, caplog):
    tokenizer = SimpleNamespace(pad_token_id=0, batch_decode=lambda ids, **options: written)
    features = [{"reference": "Who is it?"}] * len(written)
    args = SimpleNamespace(generation_num_beams=1)
    task = task_with(QuestionGeneration, features, features, tokenizer=tokenizer, training_args=args)
    task.score("validation", np.ones((len(written), 3), int), None)
    assert ("the same" in caplog.text) == warns


def test_some_models_have_no_rival():
    """Without training rows in memory (a stream), without labels, and for answers that every question has."""
    streamed = texts(SINGLE_LABEL, ("a", "b"), [(0, 0)], [(0, 0)])
    del streamed.features["train"]
    assert Rivals(streamed).scores("validation", {"accuracy": 1.0}) == {}
    task = CASES["choices"][0]
    assert Rivals(task).scores("validation", {}) == {}
    answers = questions(None)
    assert Rivals(answers).scores("validation", {"f1": 50.0}) == {}
