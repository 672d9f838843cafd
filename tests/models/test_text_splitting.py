"""Splitting of raw text into sentences and words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_localattn.models.pipeline_negation import split_sentences, split_words


def texts_of(offsets, text):
    return [text[start:end] for start, end in offsets]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He left. She stayed.", ["He left.", "She stayed."]),
        ("Dr. Moran saw Mr. Holmes. No one else came.", ["Dr. Moran saw Mr. Holmes.", "No one else came."]),
        ("Was it you? No. It was J. Smith.", ["Was it you?", "No.", "It was J. Smith."]),
        ("He took no. 5 of No. 7 there. Then he left.", ["He took no. 5 of No. 7 there.", "Then he left."]),
        ('"Not I!" he said. "You?"', ['"Not I!" he said.', '"You?"']),
        ("Heading\n\nno fever, e.g. none", ["Heading", "no fever, e.g. none"]),
        ("The rate was 3.5 in the U.S. army.", ["The rate was 3.5 in the U.S. army."]),
        ("他不来。她来。", ["他不来。", "她来。"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_sentences(text, sentences):
    assert texts_of(split_sentences(text), text) == sentences


def test_lines_end_sentences_if_it_is_asked_for():
    text = "Fever: no\nCough: yes\n"
    assert texts_of(split_sentences(text), text) == ["Fever: no\nCough: yes"]
    assert texts_of(split_sentences(text, lines=True), text) == ["Fever: no", "Cough: yes"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("She didn't go.", "She did n't go ."),
        ("He won\u2019t; I cannot, can't!", "He wo n\u2019t ; I can not , ca n't !"),
        ("Mrs. Hudson's well-known no. 5", "Mrs. Hudson 's well-known no. 5"),
        ("3.5mg at 2.5x", "3.5mg at 2.5x"),
        ("at 3.5 mg, 1,000 times -- or ...", "at 3.5 mg , 1,000 times -- or ..."),
        ("two o'clock (e.g. now)", "two o'clock ( e.g. now )"),
        (
            "Ne\u0301e, cafe\u0301. \u0939\u093f\u0928\u094d\u0926\u0940!",
            "Ne\u0301e , cafe\u0301 . \u0939\u093f\u0928\u094d\u0926\u0940 !",
        ),
        ("I'll say they've gone", "I 'll say they 've gone"),
    ],
)
def test_words(text, words):
    assert texts_of(split_words(text), text) == words.split(" ")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("marks", [".", "?!", '."', "\n", "1.", "a."])
def test_long_runs_of_marks_take_linear_time(marks):
    assert split_sentences(marks * 50_000 + " End.") is not None


@given(st.text())
def test_words_and_sentences_cover_all_but_white_space(text):
    for offsets in (split_words(text), split_sentences(text), split_sentences(text, lines=True)):
        end = 0
        for start, stop in offsets:
            assert start < stop
            assert not text[end:start].strip()
            end = stop
        assert not text[end:].strip()
