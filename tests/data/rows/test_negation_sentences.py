"""Sentences with all their negations, and their columns."""

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hf_localattn.data.negation import load_negation, scope_characters
from hf_localattn.data.negation_sentences import (
    NegatedSentence,
    format_starsem,
    make_negation,
    rebuild_sentences,
    with_scopes,
)

SAMPLES = Path(__file__).parents[3] / "hf_localattn" / "resources" / "samples" / "negation"
TEXT = """\
tale\t1\t0\tNot\tnot\tRB\t(S*\tNot\t_\t_\t_\tNot\t_
tale\t1\t1\tDr.\tDr.\tNNP\t*\t_\tDr\t_\t_\t_\t_
tale\t1\t2\tbreathlessness\tb\tNN\t*)\t_\tbreathlessness\t_\tless\tbreath\t_

tale\t2\t0\tWell\twell\tUH\t*\t***
tale\t2\t1\t.\t.\t.\t*\t***

"""


def load(tmp_path, text, **options):
    (tmp_path / "a.txt").write_bytes(text.encode())
    return load_negation(tmp_path / "a.txt", **options)


def test_a_file_is_written_as_it_was_read(tmp_path):
    assert format_starsem(rebuild_sentences(load(tmp_path, TEXT, all_sentences=True))) == TEXT
    assert format_starsem(rebuild_sentences(load(tmp_path, TEXT))) == TEXT[: TEXT.index("tale\t2")]


def test_the_sample_is_written_as_it_was_read():
    text = (SAMPLES / "starsem.txt").read_text(encoding="utf-8")
    written = format_starsem(rebuild_sentences(load_negation(SAMPLES / "starsem.txt", all_sentences=True)))
    assert written.split("\n\n") == [own.strip("\n") for own in text.split("\n\n") if own.strip()] + [""]


def test_other_scopes(tmp_path):
    first, second = with_scopes(load(tmp_path, TEXT), [[0, 1, 0], [1, 1, 1]])
    assert (first["scope"], first["scope_text"]) == ([0, 1, 0], ["", "Dr.", ""])
    assert (second["scope"], second["scope_text"]) == ([1, 1, 1], ["Not", "Dr.", "breath"])
    (sentence,) = rebuild_sentences([first, second])
    assert [own["cue_text"] for own in sentence.negations] == [["Not", "", ""], ["", "", "less"]]


def test_predicted_cues():
    tokens = ["no", "unhappy", "man", "breathlessly"]
    negation = make_negation(tokens, {1}, [0, 1, 1, 0], affix=True)
    assert negation == {"cue_text": ["", "un", "", ""], "scope_text": ["", "happy", "man", ""]}
    negation = make_negation(tokens, [0, 1], [0, 0, 1, 0])
    assert negation == {"cue_text": ["no", "unhappy", "", ""], "scope_text": ["", "", "man", ""]}


def test_rows_of_other_corpora():
    sentences = rebuild_sentences(load_negation(SAMPLES / "bioscope.xml", all_sentences=True))
    rows = load_negation(SAMPLES / "bioscope.xml")
    assert sum(len(own.negations) for own in sentences) == len(rows)
    assert any(not own.negations for own in sentences)
    assert format_starsem(sentences).split("\n")[0].split("\t")[4:7] == ["_", "_", "_"]


TOKENS = st.lists(st.sampled_from(["a", "unable", "n't", ".", "\x85", "x\ty", "b c"]), min_size=1, max_size=4)


@st.composite
def sentences(draw):
    tokens = draw(TOKENS)
    cells = [st.sampled_from(["", token, token[:1]]) for token in tokens]
    texts = st.tuples(*cells).map(list)
    negations = draw(st.lists(st.tuples(texts.filter(any), texts), max_size=3))
    return tokens, [{"cue_text": cue, "scope_text": scope} for cue, scope in negations]


@settings(max_examples=40, deadline=None)
@given(st.lists(sentences(), min_size=1, max_size=3))
def test_what_is_written_is_read(tmp_path_factory, drawn):
    path = tmp_path_factory.getbasetemp() / "columns.txt"
    written = [
        NegatedSentence("c", f"c/{number}", tokens, [], ["X"] * len(tokens), [], negations)
        for number, (tokens, negations) in enumerate(drawn)
    ]
    path.write_bytes(format_starsem(written).encode())
    read = rebuild_sentences(load_negation(path, cue_in_scope="corpus", all_sentences=True))
    assert [own.tokens for own in read] == [[word.replace("\t", " ") for word in own.tokens] for own in written]
    for own, sentence in zip(read, written, strict=True):
        expected = [
            {name: [text.replace("\t", " ") for text in texts] for name, texts in negation.items()}
            for negation in sentence.negations
        ]
        assert own.negations == expected
        assert own.sentence_id == sentence.sentence_id


def test_lists_of_different_lengths_are_no_sentence():
    with pytest.raises(ValueError, match="shorter"):
        scope_characters(["not", "a", "word"], ["not", "", ""], [0, 1])
