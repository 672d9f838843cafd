import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hf_localattn.metrics import load_metric

METRIC = load_metric("error_diagnosis")
LEVELS = ("detection", "identification", "position")


def compute(predictions, references):
    predictions, references = ([labels.split() for labels in rows] for rows in (predictions, references))
    return METRIC.compute(predictions=predictions, references=references)


def level(scores, name):
    return [scores[f"{name}_{kind}"] for kind in ("precision", "recall", "f1")]


def test_the_three_levels():
    """The example of the shared task's tool, with the scores that the tool prints for it."""
    scores = compute(
        [
            "B-S I-S B-S I-S O O B-R",  # one S too many, both elsewhere: the type is found, once; R is right
            "O O",
            "B-M O B-S I-S",  # M is right, S is too long
            "B-M I-M",  # the right place, another type
        ],
        ["O O O O B-S I-S B-R", "O O", "B-M O B-S O", "B-W I-W"],
    )
    assert level(scores, "detection") == [1, 1, 1]
    assert level(scores, "identification") == pytest.approx([4 / 5, 4 / 5, 4 / 5])
    assert level(scores, "position") == pytest.approx([2 / 6, 2 / 5, 4 / 11])
    assert scores["false_positive_rate"] == 0


def test_false_alarms():
    scores = compute(["B-R", "O", "O", "B-S", "O"], ["O", "O", "O", "B-R", "B-M"])
    assert scores["false_positive_rate"] == 1 / 3
    assert level(scores, "detection") == [1 / 2, 1 / 2, 1 / 2]
    assert level(scores, "identification") == level(scores, "position") == [0, 0, 0]


def test_an_error_may_begin_without_b():
    assert level(compute(["O I-W I-W"], ["O B-W I-W"]), "position") == [1, 1, 1]


@pytest.mark.parametrize("labels", ["O O", ""])
def test_nothing_to_find_and_nothing_found(labels):
    assert set(compute([labels], [labels]).values()) == {0}


def test_ragged_labels():
    with pytest.raises(ValueError, match="sentence 1: 2 predicted labels, but 1 true ones"):
        compute(["O O"], ["O"])


def spans(labels):
    """Errors as (type, first, last); one ends where another type or a B- begins."""
    found, previous = [], "O"
    for place, label in enumerate(labels):
        if label != "O":
            if label[0] == "B" or previous[1:] != label[1:]:
                found.append([label[2:], place, place])
            found[-1][2] = place
        previous = label
    return {tuple(span) for span in found}


def ratios(predicted, true):
    """Precision, recall and F1 of two sets."""
    hits = len(predicted & true)
    return [
        hits / len(predicted) if predicted else 0,
        hits / len(true) if true else 0,
        2 * hits / (len(predicted) + len(true)) if hits else 0,
    ]


LABEL = st.sampled_from(["O", "O", *(f"{letter}-{kind}" for letter in "BI" for kind in "RMSW")])


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(LABEL, LABEL), max_size=6), min_size=1, max_size=5))
def test_a_plain_count(sentences):
    predictions, references = ([[pair[own] for pair in sentence] for sentence in sentences] for own in (0, 1))
    sets = {name: (set(), set()) for name in LEVELS}
    for own, rows in enumerate((predictions, references)):
        for number, labels in enumerate(rows):
            for kind, first, last in spans(labels):
                sets["detection"][own].add(number)
                sets["identification"][own].add((number, kind))
                sets["position"][own].add((number, kind, first, last))
    suspected, wrong = sets["detection"]
    correct = set(range(len(sentences))) - wrong

    scores = METRIC.compute(predictions=predictions, references=references)
    for name in LEVELS:
        assert level(scores, name) == pytest.approx(ratios(*sets[name]))
    expected = len(suspected & correct) / len(correct) if correct else 0
    assert scores["false_positive_rate"] == pytest.approx(expected)
