"""Metrics of labeled words. Expected numbers are counted by hand; conlleval and CGED's tool count the same."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.word_scores import (
    detection_scores,
    diagnosis_scores,
    entity_scores,
    select_metrics,
    word_scores,
)

NAMES = ("entities", "error_detection", "error_diagnosis", "negation_scope")
METRICS = {name: load_metric(name) for name in NAMES}


def compute(name, predictions, references, **options):
    """Return the scores of sentences written as "B-x O", or of scopes written as "0 1"."""
    kind = int if name == "negation_scope" else str
    pair = [[[kind(label) for label in labels.split()] for labels in rows] for rows in (predictions, references)]
    return METRICS[name].compute(predictions=pair[0], references=pair[1], **options)


def prf(scores, prefix="", suffix=""):
    return [scores[f"{prefix}{name}{suffix}"] for name in ("precision", "recall", "f1")]


def test_an_entity_counts_as_a_whole():
    found = ["B-person I-person O B-place", "B-creative-work O O", "B-only"]
    result = compute("entities", found, ["B-person I-person I-person B-place", "B-creative-work O B-person", "O"])
    assert result["overall_accuracy"] == pytest.approx(5 / 8)
    assert result["person"] == {"precision": 0, "recall": 0, "f1": 0, "number": 2}
    assert result["only"] == {"precision": 0, "recall": 0, "f1": 0, "number": 0}
    assert result["place"] == result["creative-work"] == {"precision": 1, "recall": 1, "f1": 1, "number": 1}
    assert compute("entities", ["B-x", "I-x"], ["B-x", "I-x"])["x"]["number"] == 2  # it ends with its sentence


@pytest.mark.parametrize(
    "labels", ["I-x I-x O I-y I-x", "I-x E-x O E-y E-x", "B-x E-x O S-y S-x", "B-x L-x O U-y U-x"]
)
def test_all_schemes_have_the_same_entities(labels):
    result = compute("entities", [labels], [labels])
    assert (result["x"]["number"], result["y"]["number"], result["overall_f1"]) == (2, 1, 1)
    assert compute("entities", ["B-x M-x M-x E-x"], ["B-x I-x I-x E-x"])["overall_f1"] == 1


def test_the_three_levels_of_diagnosis():
    """The example of the shared task's tool, with the scores that the tool prints for it."""
    # one S too many, both elsewhere: the type is found, once; R is right; M is right, S is too long; another type
    found = ["B-S I-S B-S I-S O O B-R", "O O", "B-M O B-S I-S", "B-M I-M"]
    scores = compute("error_diagnosis", found, ["O O O O B-S I-S B-R", "O O", "B-M O B-S O", "B-W I-W"])
    assert prf(scores, "detection_") == [1, 1, 1]
    assert prf(scores, "identification_") == pytest.approx([4 / 5, 4 / 5, 4 / 5])
    assert prf(scores, "position_") == pytest.approx([2 / 6, 2 / 5, 4 / 11])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_nothing_to_divide_by(name):
    nothing = {"error_detection": "c c", "negation_scope": "0 0"}.get(name, "O O")
    for labels in (nothing, ""):
        scores = compute(name, [labels], [labels])
        scores.pop("overall_accuracy", None)
        exact = scores.pop("scope_exact_match", 1)
        assert (exact, set(scores.values())) == (1, {0})


@pytest.mark.parametrize(
    ("name", "predictions", "references", "word"),
    [
        *((name, ["0", "0"], ["0", "0 0"], "sentence 2: 1 predicted labels, but 2") for name in NAMES),
        ("negation_scope", ["0 2"], ["0 1"], "predictions: 2"),
        ("negation_scope", ["0 1"], ["0 2"], "references: 2"),
    ],
)
def test_refused_labels(name, predictions, references, word):
    with pytest.raises(ValueError, match=word):
        compute(name, predictions, references)


@pytest.mark.parametrize(
    ("names", "function"),
    [
        *((names, entity_scores) for names in ("O B-x-y S-x E-x", "U-x L-x O", "O B-R B-x", "B I E S")),
        *((names, diagnosis_scores) for names in ("O B-R I-R", "B-W O B-M B-S B-R")),
        ("i c", detection_scores),
        *((names, word_scores) for names in ("c i x", "O B-x X", "O person", "O")),
    ],
)
def test_labels_say_how_they_are_scored(names, function):
    score, reported = select_metrics(names.split())
    assert score is function
    expected = {entity_scores: ("f1", 4), diagnosis_scores: ("detection_f1", 11), detection_scores: ("f0_5", 5)}
    assert (reported[0], len(reported)) == expected.get(score, ("accuracy", 2))
    assert set(score([names.split()], [names.split()])) > set(reported)


def test_scores_of_each_label():
    pair = [["c", "i"], ["i", "c"]], [["c", "i"], ["c", "c"]]
    # F1 of c is 4/5, of i 2/3
    own = word_scores(*pair)
    assert [own["accuracy"], own["macro_f1"]] == [3 / 4, pytest.approx((4 / 5 + 2 / 3) / 2)]
    assert [*prf(own, "i_"), own["i_number"], own["c_number"]] == pytest.approx([1 / 2, 1, 2 / 3, 1, 3])
    assert compute("error_detection", ["bad good"], ["bad bad"], positive_label="bad")["recall"] == 0.5
    assert word_scores([[]], [[]]) == {"accuracy": 0, "macro_f1": 0}
    scores = entity_scores([["B-x", "I-x", "O"]], [["B-x", "O", "O"]])
    assert (scores["accuracy"], scores["f1"], scores["x_number"]) == (pytest.approx(2 / 3), 0, 1)


def spans(labels):
    """Return entities as (type, first, last); one ends where another type or a B- begins."""
    found, previous = [], "O"
    for place, label in enumerate(labels):
        if label != "O":
            if label[0] == "B" or previous[1:] != label[1:]:
                found.append([label[2:], place, place])
            found[-1][2] = place
        previous = label
    return {tuple(span) for span in found}


def ratios(predicted, true):
    hits = len(predicted & true)
    f1 = 2 * hits / (len(predicted) + len(true)) if hits else 0
    return [hits / len(predicted) if predicted else 0, hits / len(true) if true else 0, f1]


LABEL = st.sampled_from(["O", "O", *(f"{letter}-{kind}" for letter in "BI" for kind in "RMSW")])


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(LABEL, LABEL), max_size=6), min_size=1, max_size=5))
def test_all_metrics_by_a_plain_count(sentences):
    rows = [[[pair[own] for pair in sentence] for sentence in sentences] for own in (0, 1)]
    sets = {name: (set(), set()) for name in ("detection", "identification", "position", "words")}
    for own in (0, 1):
        for number, labels in enumerate(rows[own]):
            sets["words"][own].update((number, place) for place, label in enumerate(labels) if label != "O")
            for kind, first, last in spans(labels):
                sets["detection"][own].add(number)
                sets["identification"][own].add((number, kind))
                sets["position"][own].add((number, kind, first, last))
    scores = METRICS["error_diagnosis"].compute(predictions=rows[0], references=rows[1])
    for name in ("detection", "identification", "position"):
        assert prf(scores, f"{name}_") == pytest.approx(ratios(*sets[name]))
    correct = set(range(len(sentences))) - sets["detection"][1]
    assert scores["false_positive_rate"] == pytest.approx(len(sets["detection"][0] & correct) / max(len(correct), 1))
    entities = METRICS["entities"].compute(predictions=rows[0], references=rows[1])
    assert prf(entities, "overall_") == pytest.approx(ratios(*sets["position"]))
    marked = [[[int(label != "O") for label in labels] for labels in own] for own in rows]
    scores = METRICS["negation_scope"].compute(predictions=marked[0], references=marked[1])
    exact = sum(found == true for found, true in zip(*marked, strict=True)) / len(sentences)
    assert [*prf(scores), scores["scope_exact_match"]] == pytest.approx([*ratios(*sets["words"]), exact])
    wrong = [[["ci"[mark] for mark in labels] for labels in own] for own in marked]
    found = METRICS["error_detection"].compute(predictions=wrong[0], references=wrong[1])
    precision, recall, _ = ratios(*sets["words"])
    f0_5 = 1.25 * precision * recall / (0.25 * precision + recall) if recall else 0
    assert found == pytest.approx({"precision": precision, "recall": recall, "f0_5": f0_5})
