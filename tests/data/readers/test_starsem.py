import hypothesis.strategies as st
import pytest
from datasets import Dataset
from hypothesis import given, settings

from hf_localattn.data import load_negation
from hf_localattn.data.negation import describe_cues


def sentence(number, *lines, chapter="tale"):
    """Lines of `word cue scope event cue scope event ...`, or of words alone."""
    rows = []
    for place, line in enumerate(lines):
        word, *cells = line.split(" ")
        rows.append("\t".join([chapter, str(number), str(place), word, word, "X", "*", *(cells or ["***"])]))
    return "\n".join(rows) + "\n\n"


RARE = sentence(
    1,
    "Not Not _ _ _ Not _",
    "infrequent _ infrequent _ in frequent frequent",
    "visits _ visits visits _ visits _",
)
EMPTY = sentence(2, "No No _ _", "! _ _ _")
SPLIT = sentence(3, "neither neither _ _", "he _ he _", "nor nor _ _", "I _ I _")
PLAIN = sentence(0, "Well", ".")


def write(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    return path


def load(tmp_path, text, **options):
    return load_negation(write(tmp_path, text), **options).to_list()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_negations_of_every_type(tmp_path, end):
    rows = load(tmp_path, (PLAIN + RARE + EMPTY + SPLIT).replace("\n", end))
    assert rows[1] == {
        "id": "tale/1/2",
        "document_id": "tale",
        "sentence_id": "tale/1",
        "tokens": ["Not", "infrequent", "visits"],
        "cue": [0, 1, 0],
        "cue_type": "affix",
        "cue_kind": "negation",
        "cue_text": ["", "in", ""],
        "scope": [1, 1, 1],
        "scope_text": ["Not", "frequent", "visits"],
        "lemma": ["Not", "infrequent", "visits"],
        "pos": ["X", "X", "X"],
        "parse": ["*", "*", "*"],
    }
    assert [(row["id"], row["cue_type"], row["cue"], row["scope"]) for row in rows if row != rows[1]] == [
        ("tale/1/1", "single", [1, 0, 0], [0, 1, 1]),
        ("tale/2/1", "single", [1, 0], [0, 0]),
        ("tale/3/1", "multi", [1, 0, 1, 0], [0, 1, 0, 1]),
    ]


def test_the_characters_of_the_scope_are_those_of_the_file(tmp_path):
    text = sentence(1, "Dr. _ Dr _", "carelessly less care _", "unkind un unkind _", "no no _ _")
    (row,) = load(tmp_path, text)
    assert row["cue_text"] == ["", "less", "un", "no"]
    assert row["scope_text"] == ["Dr", "care", "unkind", ""]
    (row,) = load_negation(Dataset.from_list(load(tmp_path, text))).to_list()
    assert (row["cue_text"], row["scope_text"]) == (["", "less", "un", "no"], ["Dr", "care", "unkind", ""])


def test_sentences_without_a_cue_on_request(tmp_path):
    rows = load(tmp_path, PLAIN + RARE, all_sentences=True)
    assert [row["id"] for row in rows] == ["tale/0/0", "tale/1/1", "tale/1/2"]
    assert rows[1:] == load(tmp_path, PLAIN + RARE)
    none = {name: rows[0][name] for name in ("cue", "cue_type", "cue_kind", "cue_text", "scope", "scope_text")}
    assert none == {
        "cue": [0, 0],
        "cue_type": "none",
        "cue_kind": None,
        "cue_text": ["", ""],
        "scope": [0, 0],
        "scope_text": ["", ""],
    }
    assert rows[0]["pos"] == ["X", "X"]
    assert load(tmp_path, PLAIN, all_sentences=True) == rows[:1]
    assert describe_cues(Dataset.from_list(rows)) == "2 cues (1 affix, 1 single) in 2 sentences, 0 with an empty scope"


def test_words_that_are_cue_and_scope(tmp_path):
    text = sentence(1, "not not not _", "unkind un kind _", "no no _ _")
    assert load(tmp_path, text)[0]["scope"] == [0, 1, 0]
    assert load(tmp_path, text, cue_in_scope="corpus")[0]["scope"] == [1, 1, 0]
    assert load(tmp_path, text)[0]["cue_type"] == "multi"


def test_an_affix_whose_word_is_not_in_the_scope(tmp_path):
    (row,) = load(tmp_path, sentence(1, "careless less _ _", "man _ man _"))
    assert (row["cue_type"], row["scope"]) == ("affix", [0, 1])


def test_words_that_hold_other_blanks(tmp_path):
    (row,) = load(tmp_path, sentence(1, "a\u00a0b _ _ _", "not not _ _"))
    assert row["tokens"] == ["a\u00a0b", "not"]


def test_sentences_of_the_same_number(tmp_path):
    assert [row["sentence_id"] for row in load(tmp_path, EMPTY + EMPTY)] == ["tale/2", "tale/2~2"]


def test_a_scope_without_its_cue(tmp_path, caplog):
    stray = sentence(4, "he _ he _", "left _ left left")
    with pytest.raises(
        ValueError, match=r"a\.txt, line 4, sentence tale 4: negation 1 has no cue: .*unmatched_scopes='skip'"
    ):
        load(tmp_path, EMPTY + stray)
    assert load(tmp_path, EMPTY + stray, unmatched_scopes="skip") == load(tmp_path, EMPTY)
    assert "Scopes without a cue, left out: 1" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EMPTY.replace("*\t_\t_\t_", "*\t_\t_"), "line 2: 9 columns, but 10 in line 1, where the sentence begins"),
        (PLAIN.replace("\t***", ""), r"line 1: 7 columns; expected tabs between seven columns, then \*\*\* or three"),
        (sentence(1, "not not _ _ _"), "line 1: 11 columns; expected tabs"),
        (sentence(1, "not not"), r"line 1: the eighth and last column has 'not'; expected .*\*\*\*"),
        (PLAIN + EMPTY.replace("\t", " "), "line 4: 1 columns; expected tabs"),
        (
            PLAIN.strip() + "\n" + PLAIN.replace("\t0\t", "\t7\t"),
            "line 3: sentence tale 7 begins within tale 0; separate",
        ),
        (sentence(1, "kind un _ _"), "line 1: the cue 'un' is not a part of 'kind'"),
        (sentence(1, "not  _ _"), "line 1: the cue '' is not a part of 'not'"),
        (sentence(1, " not _ _"), "line 1: the word, in the fourth column, is empty"),
        (PLAIN, "has no cues of negation in 1 sentences; there are none"),
        ("\n \n", "is empty"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"a\.txt.*{message}"):
        load(tmp_path, text)


def test_there_is_no_speculation(tmp_path):
    with pytest.raises(ValueError, match=r"a\.txt: has no cues of speculation"):
        load_negation(write(tmp_path, EMPTY), "speculation")
    assert load_negation(write(tmp_path, EMPTY), "both").to_list() == load(tmp_path, EMPTY)


@st.composite
def annotated(draw):
    tokens = draw(st.lists(st.sampled_from(["a", "unable", "n't", ".", "***", "\x85"]), min_size=1, max_size=5))
    flags = st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens))
    return tokens, draw(st.lists(st.tuples(flags.filter(any), flags), min_size=1, max_size=3))


@settings(max_examples=40, deadline=None)
@given(st.lists(annotated(), min_size=1, max_size=3))
def test_what_is_written_is_read(tmp_path_factory, sentences):
    path = tmp_path_factory.getbasetemp() / "drawn.txt"
    expected, text = [], ""
    for number, (tokens, negations) in enumerate(sentences):
        cells = [
            [value for cue, scope in negations for value in (word if cue[i] else "_", word if scope[i] else "_", "_")]
            for i, word in enumerate(tokens)
        ]
        text += sentence(number, *(" ".join([word, *own]) for word, own in zip(tokens, cells, strict=True)))
        for cue, scope in negations:
            kept = [int(inside and not own) for inside, own in zip(scope, cue, strict=True)]
            expected.append((tokens, [int(own) for own in cue], kept))
    path.write_bytes(text.encode())
    assert [(row["tokens"], row["cue"], row["scope"]) for row in load_negation(path)] == expected
