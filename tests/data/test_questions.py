"""Question answering: windows of passages, answers from logits, and files of answers."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.data import questions
from hf_localattn.data.answers import extract_answers, format_answers
from tests.qa_helpers import ALPHABET, byte_pieces, question, sentence_pieces, unanswerable, uncased, word_pieces

RIGHT = word_pieces()
LEFT = word_pieces("left", cls_last=True)
TOKENIZERS = pytest.mark.parametrize("tokenizer", [RIGHT, LEFT], ids=["right", "left"])


def batch(*rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def by_row(columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


contexts = st.lists(st.text(ALPHABET, min_size=1, max_size=6), min_size=1, max_size=40).map(" ".join)


@TOKENIZERS
@settings(max_examples=60)
@given(context=contexts, data=st.data())
def test_windows_cover_the_context_and_have_the_answer_where_they_hold_it(tokenizer, context, data):
    start = data.draw(st.integers(0, len(context) - 1).filter(lambda i: context[i] != " "))
    end = data.draw(st.integers(start + 1, min(len(context), start + 12)).filter(lambda i: context[i - 1] != " "))
    rows = batch(question(context=context, answers={"text": [context[start:end]], "answer_start": [start]}))
    train = questions.train_features(rows, tokenizer, 40, 13)
    windows = questions.evaluation_features(rows, tokenizer, 40, 13)
    assert train["input_ids"] == windows["input_ids"]
    joined, found = [], 0
    for ids, first, last, offsets, cls in zip(
        *(train[name] for name in ("input_ids", *questions.POSITIONS)),
        *(windows[name] for name in ("offset_mapping", "no_answer_position")),
        strict=True,
    ):
        inside = [offset for offset in offsets if offset is not None]
        assert len(ids) <= 40
        assert (ids[cls], cls) == (tokenizer.cls_token_id, len(ids) - 1 if tokenizer is LEFT else 0)
        assert not joined or joined[-13:] == inside[:13]
        joined += inside[13:] if joined else inside
        if (first, last) == (cls, cls):
            assert start < inside[0][0] or end > inside[-1][1]
            continue
        found += 1
        assert offsets[first][0] <= start < offsets[first][1]
        assert offsets[last][0] < end <= offsets[last][1]
    assert found  # 12 characters are at most 12 tokens, fewer than neighbors overlap by
    assert joined == tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]


def encoded(tokenizer=RIGHT, answer="on the mat", start=13, **changes):
    rows = batch(question(answers={"text": [answer], "answer_start": [start]}, **changes))
    return questions.train_features(rows, tokenizer, 48, 8)


def test_the_tokens_of_an_answer():
    cls = questions.train_features(batch(unanswerable()), LEFT, 48, 8)
    assert [cls[name][0] for name in questions.POSITIONS] == [len(cls["input_ids"][0]) - 1] * 2
    assert encoded(answer=" on the mat", start=12)["start_positions"] == encoded()["start_positions"]
    train = encoded(byte_pieces(), "é€", 2, context="a é€ b", question="?")  # all bytes of a character belong to it
    assert train["end_positions"][0] - train["start_positions"][0] + 1 == len("é€".encode())


MARKED = "\ufeffcafe\u0301 \u0915\u0948\u0938\u0947 co\u00adop \u200bMira\u200d \u2764\ufe0f"
"""A byte-order mark, an accent, Hindi (two vowel signs), a soft hyphen, zero-width marks, a variation selector."""

DROPPED = [  # an answer, its place, and the tokens that uncased tokenizers have for it
    ("\ufeffcafe\u0301", 0, ["cafe"]),
    ("\u0301 \u0915\u0948\u0938\u0947", 5, ["cafe", "\u0915\u0938"]),
    ("\u0938\u0947", 9, ["\u0915\u0938"]),
    ("co\u00adop", 12, ["coop"]),
    ("op", 15, ["coop"]),
    ("\u00adop \u200b", 14, ["coop"]),
    ("\u200bMira\u200d", 18, ["mira"]),
    (" \u200bMira\u200d ", 17, ["mira"]),
    ("\u2764\ufe0f", 25, ["\u2764"]),
]


@pytest.mark.parametrize("tokenizer", [uncased(), uncased("left")], ids=["right", "left"])
@pytest.mark.parametrize(("answer", "start", "tokens"), DROPPED, ids=[ascii(row[0]) for row in DROPPED])
def test_an_answer_is_clipped_to_the_characters_that_have_tokens(tokenizer, answer, start, tokens):
    assert MARKED.startswith(answer, start)
    train = encoded(tokenizer, answer, start, context=MARKED)
    first, last = (train[name][0] for name in questions.POSITIONS)
    assert tokenizer.convert_ids_to_tokens(train["input_ids"][0][first : last + 1]) == tokens


@pytest.mark.parametrize("tokenizer", [uncased(), byte_pieces(), sentence_pieces()], ids=["bert", "bytes", "pieces"])
@pytest.mark.parametrize("word", ["cafe\u0301", "\u0915\u0948\u0938\u0947", "Mira", "\u2764\ufe0f"])
def test_an_extracted_answer_has_the_marks_that_follow(tokenizer, word):
    start = MARKED.index(word)
    rows = batch(question(context=MARKED, answers={"text": [word], "answer_start": [start]}))
    train = questions.train_features(rows, tokenizer, 80, 8)
    first, last = ((train[name][0], 9) for name in questions.POSITIONS)
    size = len(train["input_ids"][0])
    (window,) = by_row(questions.evaluation_features(rows, tokenizer, 80, 8))
    found = answers([window | {"example_id": "q"}], [logits(first, size=size)], [logits(last, size=size)], MARKED)
    assert (found.best.text, found.best.start) == (word, start)


def test_a_question_whose_answer_has_no_token_is_left_out(caplog):
    rows = [question(0), question(1, context="a \u200b b", answers={"text": ["\u200b"], "answer_start": [2]})]
    train = questions.train_features(batch(*rows, unanswerable(2)), RIGHT, 48, 8)
    assert train["start_positions"] == [encoded()["start_positions"][0], 0]
    assert len(train["input_ids"]) == 2
    assert "1 questions are left out" in caplog.text
    assert "q1" in caplog.text


def test_a_long_question_is_cut_and_settings_have_to_fit(caplog):
    spaced, plain = (encoded(question=text)["input_ids"] for text in (" " * 300 + "who sat?", "who sat?"))
    assert spaced == plain
    assert not caplog.records
    windows = questions.evaluation_features(batch(question(question="who " * 50)), RIGHT, max_length=40, doc_stride=8)
    assert windows["input_ids"][0].count(RIGHT.convert_tokens_to_ids("who")) == 40 - 3 - 8 - 14
    assert "A question of 50 tokens is cut to 15" in caplog.text
    assert [questions.check_window_settings(RIGHT, 40, stride) for stride in (0, 35)] == [37 - 16, 1]
    for stride in (36, -1):
        with pytest.raises(ValueError, match=rf"doc_stride {stride} .* 0 to 35 "):
            questions.check_window_settings(RIGHT, 40, stride)


@TOKENIZERS
@pytest.mark.parametrize("max_length", [None, 60])
def test_a_batch_is_padded_and_positions_move_with_the_padding(tokenizer, max_length):
    rows = [question(), question(context="red " + question()["context"])]
    rows[1]["answers"] = {"text": ["on the mat"], "answer_start": [17]}
    train = questions.train_features(batch(*rows), tokenizer, 64, 8)
    tensors = questions.QuestionAnsweringCollator(tokenizer, max_length)(by_row(train))
    assert tensors["input_ids"].shape == (2, max_length or max(map(len, train["input_ids"])))
    for ids, start, end in zip(*(tensors[name] for name in ("input_ids", *questions.POSITIONS)), strict=True):
        assert tokenizer.convert_ids_to_tokens(ids[start : end + 1]) == ["on", "the", "mat"]


CONTEXT = "ab cd ef gh ij"
WORDS = [(0, 2), (3, 5), (6, 8), (9, 11), (12, 14)]


def window(first=0, last=5):
    """[CLS] question [SEP] words first..last [SEP]."""
    return {"example_id": "q", "offset_mapping": [None] * 3 + WORDS[first:last] + [None], "no_answer_position": 0}


def logits(*values, size=9):
    row = np.full(size, -10.0)
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


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), n_best_size=st.integers(1, 8), max_answer_length=st.integers(1, 6))
def test_equals_the_double_loop(seed, n_best_size, max_answer_length):
    windows = [window(0, 3), window(2, 5)]
    starts, ends = np.random.default_rng(seed).normal(size=(2, 2, 9))
    expected = naive(windows, starts, ends, n_best_size, max_answer_length)
    sizes = {"n_best_size": n_best_size, "max_answer_length": max_answer_length}
    found = answers(windows, starts, ends, **sizes)
    if not expected:  # all best starts are after the best ends
        assert found.best.text == ""
        return
    assert [(c.start, c.end) for c in found.n_best] == [span for span, _ in expected]
    np.testing.assert_allclose([c.score for c in found.n_best], [score for _, score in expected])
    assert all(CONTEXT[c.start : c.end] == c.text for c in found.n_best)
    scores = np.exp([c.score for c in found.n_best])
    np.testing.assert_allclose([c.probability for c in found.n_best], scores / scores.sum())
    assert (found.best, found.null_odds) == (found.n_best[0], None)
    either = answers(windows, starts, ends, no_answer_threshold=0.0, **sizes)
    assert either.null_odds == pytest.approx(min(starts[:, 0] + ends[:, 0]) - expected[0][1])
    assert either.best.text == ("" if either.null_odds > 0 else found.best.text)
    assert {"", found.best.text} <= {candidate.text for candidate in either.n_best}
    assert len(either.n_best) <= n_best_size + 1


@pytest.mark.parametrize(("threshold", "text"), [(0.0, ""), (0.99, ""), (1.0, "cd"), (5.0, "cd"), (-9, "")])
def test_no_answer_wins_by_more_than_the_threshold(threshold, text):
    # the first window is sure that there is no answer, the second is not: the smaller score counts
    windows = [window(0, 3), window(1, 5)]
    starts = [logits((0, 9)), logits((0, 3), (3, 2))]
    ends = [logits((0, 9)), logits((0, 2), (3, 2))]
    found = answers(windows, starts, ends, no_answer_threshold=threshold)
    assert (found.best.text, found.best_span.text, found.null_odds) == (text, "cd", 1.0)


def test_pads_and_spaces_are_not_answers():
    assert answers([window()], [np.concatenate([logits((4, 3)), [99.0, 99.0]])]).best.text == "cd"
    feature = {"example_id": "q", "offset_mapping": [None, (0, 2), (2, 5), (5, 6)], "no_answer_position": 0}
    found = answers([feature], [np.array([0.0, 1.0, 3.0, 4.0])], max_answer_length=1)
    assert [(c.text, c.start, c.end) for c in found.n_best] == [("cd", 3, 5), ("ab", 0, 2)]  # never the bare space
    feature = {"example_id": "q", "offset_mapping": [None, None], "no_answer_position": 0}
    for threshold, odds in ((None, None), (0.0, 2.0)):
        found = answers([feature], [[1, 2]], context="\u200b", no_answer_threshold=threshold)
        assert (found.best.text, found.best_span, found.null_odds) == ("", None, odds)
    rows, nan = [logits()], [logits((4, np.nan))]
    for starts, ends in ((rows, nan), (nan, rows)):
        with pytest.raises(ValueError, match="question 'q' are NaN"):
            answers([window()], starts, ends)


def test_files_hold_the_answers():
    found = {"q": answers([window()], [logits((4, 3))], context=CONTEXT.replace("c", "ç"), no_answer_threshold=0.0)}
    files = format_answers(found)
    assert list(format_answers(found, "eval")) == [f"eval_{name}" for name in files]
    assert '"q": "çd"' in files["predictions.json"]
    best = json.loads(files["nbest_predictions.json"])["q"][0]
    assert (best["text"], best["start"], best["end"], best["start_logit"]) == ("çd", 3, 5, 3.0)
