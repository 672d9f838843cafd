import warnings

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hf_localattn.metrics import load_metric

METRIC = load_metric("negation_scope")


def compute(predictions, references):
    predictions, references = ([list(map(int, row)) for row in rows] for rows in (predictions, references))
    return METRIC.compute(predictions=predictions, references=references)


def test_words_of_all_rows_count_together():
    # 4 words predicted, 3 of them right; 6 are there; the last row alone is right as a whole
    scores = compute(["1100", "01", "010"], ["1011", "11", "010"])
    assert scores == {
        "precision": pytest.approx(3 / 4),
        "recall": pytest.approx(3 / 6),
        "f1": pytest.approx(2 * 3 / (4 + 6)),
        "scope_exact_match": pytest.approx(1 / 3),
    }


@pytest.mark.parametrize(
    ("predicted", "true", "exact"), [("00", "00", 1), ("01", "00", 0), ("00", "01", 0), ("01", "10", 0), ("", "", 1)]
)
def test_nothing_to_divide_by(predicted, true, exact):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compute([predicted], [true]) == {"f1": 0, "precision": 0, "recall": 0, "scope_exact_match": exact}


def test_an_empty_scope_that_is_found_empty_is_exact():
    assert compute(["00", "10"], ["00", "10"]) == dict.fromkeys(("f1", "precision", "recall", "scope_exact_match"), 1)


def test_ragged_rows():
    with pytest.raises(ValueError, match="sentence 2: 1 predicted labels, but 2 true ones"):
        compute(["0", "1"], ["0", "10"])


@pytest.mark.parametrize("name", ["predictions", "references"])
def test_what_is_neither_0_nor_1(name):
    rows = {"predictions": [[0, 1]], "references": [[0, 1]], name: [[0, 2]]}
    with pytest.raises(ValueError, match=f"{name}: 2 is neither 0 nor 1"):
        METRIC.compute(**rows)


BITS = st.integers(0, 1)


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(BITS, BITS), max_size=5), min_size=1, max_size=4))
def test_a_plain_count(rows):
    pairs = [pair for row in rows for pair in row]
    hits, found, there = pairs.count((1, 1)), sum(p for p, _ in pairs), sum(t for _, t in pairs)
    expected = {
        "precision": hits / found if found else 0,
        "recall": hits / there if there else 0,
        "f1": 2 * hits / (found + there) if found + there else 0,
        "scope_exact_match": sum(all(p == t for p, t in row) for row in rows) / len(rows),
    }
    predictions, references = ([[pair[own] for pair in row] for row in rows] for own in (0, 1))
    assert METRIC.compute(predictions=predictions, references=references) == pytest.approx(expected)
