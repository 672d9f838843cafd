import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.data.answers import extract_answers, write_answers

CONTEXT = "ab cd ef gh ij"
WORDS = [(0, 2), (3, 5), (6, 8), (9, 11), (12, 14)]


def window(first=0, last=5):
    """[CLS] question [SEP] words first..last [SEP]."""
    return {"example_id": "q", "offset_mapping": [None] * 3 + WORDS[first:last] + [None], "cls_position": 0}


def logits(*values):
    row = np.full(9, -10.0)
    for position, value in values:
        row[position] = value
    return row


def answers(windows, starts, ends=None, context=CONTEXT, **given):
    ends = starts if ends is None else ends
    return extract_answers({"q": context}, windows, starts, ends, **given)["q"]


def naive(windows, starts, ends, n_best_size, max_answer_length):
    """The published double loop."""
    best = {}
    for feature, start_row, end_row in zip(windows, starts, ends, strict=True):
        offsets = feature["offset_mapping"]
        context = [i for i, offset in enumerate(offsets) if offset is not None]
        for start in sorted(context, key=lambda i: -start_row[i])[:n_best_size]:
            for end in sorted(context, key=lambda i: -end_row[i])[:n_best_size]:
                if start <= end < start + max_answer_length:
                    span = (offsets[start][0], offsets[end][1])
                    best[span] = max(best.get(span, -np.inf), start_row[start] + end_row[end])
    return sorted(best.items(), key=lambda item: -item[1])[:n_best_size]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_best_size=st.integers(1, 8), max_answer_length=st.integers(1, 6))
def test_equals_the_double_loop(seed, n_best_size, max_answer_length):
    windows = [window(0, 3), window(2, 5)]
    starts, ends = np.random.default_rng(seed).normal(size=(2, 2, 9))
    expected = naive(windows, starts, ends, n_best_size, max_answer_length)
    found = answers(windows, starts, ends, n_best_size=n_best_size, max_answer_length=max_answer_length)
    if not expected:  # nothing among the best pairs: the best of all pairs instead
        expected = naive(windows, starts, ends, 9, max_answer_length)[:n_best_size]
    assert [(c.start, c.end) for c in found.n_best] == [span for span, _ in expected]
    np.testing.assert_allclose([c.score for c in found.n_best], [score for _, score in expected])
    assert all(CONTEXT[c.start : c.end] == c.text for c in found.n_best)
    scores = np.exp([c.score for c in found.n_best])
    np.testing.assert_allclose([c.probability for c in found.n_best], scores / scores.sum())
    assert (found.best, found.null_odds) == (found.n_best[0], None)


@pytest.mark.parametrize(("threshold", "text"), [(0.0, ""), (0.99, ""), (1.0, "cd"), (5.0, "cd"), (-9, "")])
def test_no_answer_wins_by_more_than_the_threshold(threshold, text):
    # the first window is sure that there is no answer, the second is not: the smaller score counts
    windows = [window(0, 3), window(1, 5)]
    starts = [logits((0, 9)), logits((0, 3), (3, 2))]
    ends = [logits((0, 9)), logits((0, 2), (3, 2))]
    found = answers(windows, starts, ends, null_threshold=threshold)
    assert (found.best.text, found.best_span.text, found.null_odds) == (text, "cd", 1.0)


@pytest.mark.parametrize("n_best_size", [1, 2, 3])
@pytest.mark.parametrize("null", [-50, 50])
def test_no_answer_and_the_best_span_are_always_listed(n_best_size, null):
    starts = [logits((0, null), (3, 2), (4, 1), (5, 0))]
    found = answers([window()], starts, n_best_size=n_best_size, null_threshold=0.0)
    assert (found.best.text, found.best_span.text) == ("" if null > 0 else "ab", "ab")
    assert {"", "ab"} <= {candidate.text for candidate in found.n_best}
    assert found.null_odds == 2 * null - 4


def test_pads_and_spaces_are_not_answers():
    assert answers([window()], [np.concatenate([logits((4, 3)), [99.0, 99.0]])]).best.text == "cd"
    feature = {"example_id": "q", "offset_mapping": [None, (0, 2), (2, 5), (5, 6)], "cls_position": 0}
    found = answers([feature], [np.array([0.0, 1.0, 3.0, 4.0])], max_answer_length=1)
    assert [(c.text, c.start, c.end) for c in found.n_best] == [("cd", 3, 5), ("ab", 0, 2)]  # never the bare space


@pytest.mark.parametrize(("threshold", "odds"), [(None, None), (0.0, 2.0)])
def test_a_context_without_tokens_gives_no_answer(threshold, odds):
    feature = {"example_id": "q", "offset_mapping": [None, None], "cls_position": 0}
    found = answers([feature], [[1, 2]], context="\u200b", null_threshold=threshold)
    assert (found.best.text, found.best_span, found.null_odds) == ("", None, odds)


def test_input_that_does_not_fit():
    rows = [logits()]
    with pytest.raises(ValueError, match="1 windows, but 2 rows of start and 1 of end"):
        answers([window()], rows * 2, rows)
    with pytest.raises(ValueError, match="1 questions have no window, the first is 'p'"):
        extract_answers({"q": CONTEXT, "p": CONTEXT}, [window()], rows, rows)
    for starts, ends in ((rows, [logits((4, np.nan))]), ([logits((4, np.nan))], rows)):
        with pytest.raises(ValueError, match="question 'q' are NaN"):
            answers([window()], starts, ends)


def test_files_hold_the_answers(tmp_path):
    found = {"q": answers([window()], [logits((4, 3))], n_best_size=2, null_threshold=0.0)}
    write_answers(found, tmp_path, "eval")
    write_answers(found, tmp_path)
    assert len(list(tmp_path.iterdir())) == 6  # and nothing temporary
    assert json.loads((tmp_path / "eval_predictions.json").read_text()) == {"q": "cd"}
    assert json.loads((tmp_path / "null_odds.json").read_text()) == {"q": -26.0}
    best = json.loads((tmp_path / "nbest_predictions.json").read_text())["q"][0]
    assert (best["text"], best["start"], best["end"], best["start_logit"]) == ("cd", 3, 5, 3.0)
