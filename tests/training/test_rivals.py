"""Rivals of a model: their scores, and a warning if the model is not better."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers.processors import Sequence
from transformers import AutoModel, AutoTokenizer

from hf_localattn.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.resources import tiny_backbone
from hf_localattn.tasks import (
    Encoding,
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
from hf_localattn.training import layer_states
from hf_localattn.training.evaluation import Evaluation
from hf_localattn.training.layer_states import encoder_of, mean_layers, token_layers
from hf_localattn.training.rivals import (
    Rivals,
    cosines,
    drawn,
    fit_rivals,
    most_common_words,
    pair_features,
    regress,
)


@pytest.fixture(scope="module")
def encoder():
    return AutoModel.from_pretrained(tiny_backbone())


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(tiny_backbone())


def evaluation(task_class, target, train, test, rows=None, encoding=None, **options):
    task = task_class(task_class.DataArguments(validation_file="rows.json", **options))
    splits = {
        name: Split(name, Dataset.from_list(rows or features), Dataset.from_list(features))
        for name, features in (("train", train), ("validation", test))
    }
    return Evaluation(task, target, encoding, splits)


def target_of(kind, names):
    metrics = {"loss": False, **{name: name not in ("mse", "rmse") for name in REPORTED[kind]}}
    return Target(metrics, Labels(kind, names), has_classes=kind == SINGLE_LABEL)


def texts(kind, names, train, test):
    rows = [[{"input_ids": [5 + word], "label": label} for word, label in split] for split in (train, test)]
    return evaluation(TextClassification, target_of(kind, names), *rows)


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
        texts(REGRESSION, (), [(0, 0.0), (2, 4.0)] * 2, [(0, 0.0), (2, 4.0)]),
        {"rmse_of_constant": 2.0, "pearson_of_linear": 1.0},
    ),
}


@pytest.mark.filterwarnings("ignore:Label .* is present")
@pytest.mark.parametrize("case", CASES)
def test_rivals_are_scored_as_the_model(case, encoder):
    scored, expected = CASES[case]
    scores = {name.partition("_of_")[0]: 0.5 for name in expected}
    rivals = fit_rivals(scored, encoder)
    assert rivals.scores(scored.splits["validation"], scores) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("score", "shown", "absent"),
    [
        (0.5, "not better than its rival 'linear'", "constant"),
        (0.75, "level with its rival 'linear'", "constant"),
        (0.9, "", "rival"),
    ],
)
def test_the_strongest_rival_is_named(score, shown, absent, encoder, caplog):
    scored, _ = CASES["classes"]
    fit_rivals(scored, encoder).scores(scored.splits["validation"], {"accuracy": score})
    assert shown in caplog.text
    assert absent not in caplog.text


@pytest.mark.parametrize(("score", "advises"), [(0.75, True), (1.0, False)])
def test_a_perfect_score_gets_no_advice(score, advises, caplog):
    scored, _ = CASES["classes"]
    Rivals(scored)._compare(scored.splits["validation"], "accuracy", score, {"constant": score})
    assert "level with" in caplog.text
    assert ("train it longer" in caplog.text) == advises


def test_pairs_have_a_cosine(encoder, tokenizer):
    pairs = [("a baker", "a baker", 5.0), ("a baker", "roses", 1.0), ("roses", "roses", 5.0)] * 2
    rows = [{"text": text, "text_pair": other, "label": score} for text, other, score in pairs]
    scored = evaluation(
        TextClassification, target_of(REGRESSION, ()), rows, rows, encoding=Encoding(tokenizer, max_length=16)
    )
    scores = fit_rivals(scored, encoder).scores(scored.splits["validation"], {"pearson": 0.5, "rmse": 1.0})
    assert scores.keys() == {"rmse_of_constant", "pearson_of_linear", "pearson_of_cosine"}
    assert scores["pearson_of_cosine"] > 0.99


def test_texts_without_tokens_have_means_of_0(encoder):
    bare = AutoTokenizer.from_pretrained(tiny_backbone())
    bare.backend_tokenizer.post_processor = Sequence([])  # as of a tokenizer without special tokens
    rows = [{"text": f"{word} baker", "text_pair": "\u200b", "label": float(score)} for score, word in enumerate("ab")]
    scored = evaluation(TextClassification, target_of(REGRESSION, ()), rows, rows, encoding=Encoding(bare, 16))
    assert fit_rivals(scored, encoder).outputs["cosine"]["validation"].tolist() == [[0.5]] * 2


def test_rows_without_labels_are_not_read(encoder):
    scored, _ = CASES["classes"]
    unread = Split("test", Dataset.from_list([{"text": "a"}]), Dataset.from_list([{"input_ids": [10**9]}]))
    rivals = fit_rivals(replace(scored, splits={**scored.splits, "test": unread}), encoder)
    assert rivals.outputs["linear"].keys() == {"validation"}


def test_the_nearest_choice_is_a_rival(encoder, tokenizer):
    rows = [{"context": "a baker", "choices": ["a baker", "roses"], "label": 0}] * 2
    rows += [{"context": "roses", "choices": ["a baker", "roses"], "label": 1}]
    features = [{"input_ids": [[1]] * 2, "label": row["label"]} for row in rows]
    target = Target({"loss": False, "accuracy": True})
    scored = evaluation(MultipleChoice, target, features, features, rows, Encoding(tokenizer, max_length=16))
    scores = fit_rivals(scored, encoder).scores(scored.splits["validation"], {"accuracy": 0.5})
    assert scores == {"accuracy_of_constant": pytest.approx(2 / 3), "accuracy_of_cosine": 1.0}


def test_words_are_labeled_by_their_states(encoder):
    features = [{"input_ids": [7, 5, 6], "labels": [-100, 0, 1]}, {"input_ids": [6, 6], "labels": [1, -100]}] * 4
    target = Target({"loss": False, "f1": True}, Labels(SINGLE_LABEL, ("O", "B-PER")))
    words = evaluation(TokenClassification, target, features, features)
    scores = fit_rivals(words, encoder).scores(words.splits["validation"], {"f1": 0.5})
    assert scores == {"f1_of_constant": pytest.approx(0.8), "f1_of_linear": 1.0}


def test_the_commonest_label_of_words():
    features = [{"input_ids": [1, 2, 3], "labels": [-100, 1, 1]}, {"input_ids": [4], "labels": [0]}]
    words = evaluation(TokenClassification, Target({}), features, features)
    outputs = words.task.constant_outputs(words.splits["validation"], words.splits["train"], words.target)
    assert [output.tolist() for output in outputs] == [[1, 1, 1], [1]]


def test_states_are_those_of_each_row_alone(encoder, monkeypatch):
    rows = [{"input_ids": ids} for ids in ([5, 6, 7], [8], [9, 5, 5], [6, 7])]
    positions = [np.array([0, 2]), np.array([0]), np.array([1]), np.array([], int)]
    monkeypatch.setattr(layer_states, "TOKENS_PER_GROUP", 3)
    encoder.train()
    means, words = mean_layers(encoder, rows), token_layers(encoder, rows, positions)
    assert encoder.training
    encoder.eval()
    assert mean_layers(encoder, [{"input_ids": []}, *rows])[0].tolist() == np.zeros_like(means[0]).tolist()
    for row, mean, chosen, states in zip(rows, means, positions, words, strict=True):
        with torch.no_grad():
            layers = encoder(torch.tensor([row["input_ids"]]), output_hidden_states=True).hidden_states
        every = torch.stack(layers)[:, 0].numpy()
        np.testing.assert_allclose(mean, every.mean(1), atol=1e-5)
        expected = np.concatenate(list(every[:, chosen]), axis=-1)  # the tiny encoder has fewer than four layers
        np.testing.assert_allclose(states, expected, atol=1e-5)


def test_the_encoder_is_read_without_the_layers_of_a_family(encoder):
    model = SimpleNamespace(config=SimpleNamespace(), base_model=SimpleNamespace(backbone=encoder))
    assert encoder_of(model) is encoder
    assert encoder_of(encoder) is encoder
    assert encoder_of(SimpleNamespace(config=SimpleNamespace(is_encoder_decoder=True))) is None


def test_features_of_pairs():
    first, second = np.array([[[9.0, 9.0], [3.0, 0.0]]]), np.array([[[9.0, 0.0], [0.0, 2.0]]])
    assert pair_features(first, second).tolist() == [[0, 9, 81, 0, 3, 2, 0, 0]]
    assert cosines(first[:, -1:], second[:, -1:]).tolist() == [[0]]


@pytest.mark.parametrize(
    ("targets", "problem_type", "expected"),
    [
        ([0.75], REGRESSION, [[0.75]] * 2),
        ([[1, 0]], MULTI_LABEL, [[0.5, -0.5]] * 2),
        ([2, 0, 1], SINGLE_LABEL, None),
        ([[1, 0], [1, 1], [1, 0]], MULTI_LABEL, None),
    ],
    ids=str,
)
def test_rows_that_are_fewer_than_classes_are_enough(targets, problem_type, expected):
    """Of six classes, of scores, and of labels that all rows have."""
    rows = np.eye(len(targets), 8)
    outputs = regress(rows, targets, problem_type, 6)(rows[:2] if len(rows) > 1 else np.ones((2, 8)))
    assert np.isfinite(outputs).all()
    assert expected is None or outputs.tolist() == expected


def test_a_single_class_needs_no_regression():
    assert regress(np.ones((2, 1)), [1, 1], SINGLE_LABEL, 3)(np.zeros((2, 1))).tolist() == [[0, 1, 0]] * 2


def test_many_rows_are_drawn():
    assert drawn(3, 3) == [0, 1, 2]
    assert len({*drawn(9, 4)}) == 4


@pytest.mark.parametrize(
    ("question", "context", "answer"),
    [
        ("Who baked the bread?", "It rained. Mira baked bread! Bread is good", "Mira baked bread!"),
        ("Where?", "One sentence alone", "One sentence alone"),
        ("What is 3.5?", "Pi is not 3.5 but less.\nA heading", "Pi is not 3.5 but less."),
        ("Who?", "", ""),
    ],
)
def test_the_sentence_with_most_words_of_a_question(question, context, answer):
    assert most_common_words(question, context) == answer


def questions(may_be_silent, threshold=0.0, count=2):
    """Two questions with a window each; the second question has no answer."""
    window = {"input_ids": [1, 2, 3], "offset_mapping": [None, [0, 4], [5, 8]], "no_answer_position": 0}
    windows = [{**window, "example_id": identifier} for identifier in "ab"[:count]]
    answers = [{"text": ["Mira"], "answer_start": [0]}, {"text": [], "answer_start": []}]
    rows = [
        {"id": name, "question": "Who met?", "context": "Mira met.", "answers": answer}
        for name, answer in zip("ab"[:count], answers[:count], strict=True)
    ]
    options = {"version_2_with_negative": may_be_silent, "null_score_diff_threshold": threshold}
    return evaluation(QuestionAnswering, Target({"f1": True}), windows, windows, rows, **options)


@pytest.mark.parametrize("threshold", [0.0, -10.0, 1000.0])
def test_no_answer_is_a_rival_of_a_reader_that_may_say_so(threshold):
    reading = questions(True, threshold)
    scores = fit_rivals(reading).scores(reading.splits["validation"], {"f1": 60.0})
    assert scores == pytest.approx({"f1_of_constant": 50.0, "f1_of_words": 100 / 3})


def test_a_reader_that_always_answers_has_the_rival_of_common_words():
    reading = questions(False, count=1)
    scores = fit_rivals(reading).scores(reading.splits["validation"], {"f1": 50.0})
    assert scores == pytest.approx({"f1_of_words": 200 / 3})


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


def test_some_models_have_no_rival(encoder):
    """Without training rows in memory (a stream), and without labels."""
    streamed = texts(SINGLE_LABEL, ("a", "b"), [(0, 0)], [(0, 0)])
    split = streamed.splits.pop("validation")
    del streamed.splits["train"]
    assert fit_rivals(streamed, encoder).scores(split, {"accuracy": 1.0}) == {}
    classes, _ = CASES["classes"]
    assert fit_rivals(classes, encoder).scores(classes.splits["validation"], {}) == {}
