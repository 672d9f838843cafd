import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hf_localattn.metrics import load_metric

METRIC = load_metric("error_detection")


def compute(predictions, references, **options):
    predictions, references = ([labels.split() for labels in rows] for rows in (predictions, references))
    return METRIC.compute(predictions=predictions, references=references, **options)


def test_words_of_all_sentences_count_together():
    # found 3, of which 2 are right; there are 4
    scores = compute(["i c i c", "i c"], ["i i i c", "c i"])
    assert (scores["precision"], scores["recall"]) == (2 / 3, 2 / 4)
    assert scores["f0_5"] == pytest.approx(1.25 * (2 / 3) * (2 / 4) / (0.25 * (2 / 3) + 2 / 4))


def test_another_label_for_errors():
    pair = ["bad good"], ["bad bad"]
    assert compute(*pair, positive_label="bad") == {"f0_5": pytest.approx(5 / 6), "precision": 1, "recall": 0.5}
    assert compute(*pair) == {"f0_5": 0, "precision": 0, "recall": 0}


@pytest.mark.parametrize("pair", [("c", "c"), ("i", "c"), ("c", "i"), ("", "")])
def test_nothing_to_divide_by(pair):
    assert compute(*([labels] for labels in pair)) == {"f0_5": 0, "precision": 0, "recall": 0}


def test_ragged_labels():
    with pytest.raises(ValueError, match="sentence 2: 1 predicted labels, but 2 true ones"):
        compute(["c", "i"], ["c", "i c"])


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(st.sampled_from("ci"), st.sampled_from("ci")), max_size=5), min_size=1, max_size=4))
def test_a_plain_count(sentences):
    hits = alarms = misses = 0
    for sentence in sentences:
        for predicted, true in sentence:
            hits += predicted == true == "i"
            alarms += predicted == "i" and true == "c"
            misses += predicted == "c" and true == "i"
    # F = (1 + b²) hits / ((1 + b²) hits + b² misses + alarms)
    weighted = 1.25 * hits + 0.25 * misses + alarms
    expected = {
        "precision": hits / (hits + alarms) if hits + alarms else 0,
        "recall": hits / (hits + misses) if hits + misses else 0,
        "f0_5": 1.25 * hits / weighted if weighted else 0,
    }
    predictions, references = ([[pair[own] for pair in sentence] for sentence in sentences] for own in (0, 1))
    assert METRIC.compute(predictions=predictions, references=references) == pytest.approx(expected)
