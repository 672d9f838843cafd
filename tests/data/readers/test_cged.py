from xml.sax.saxutils import escape

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hf_localattn.data.words import load_sentences

DOCUMENT = """<DOC>
<TEXT id="a1">
我在家看看书。
</TEXT>
<CORRECTION>
我在家看书。
</CORRECTION>
<ERROR start_off="4" end_off="5" type="R"></ERROR>
<ERROR type="M" end_off="7" start_off="7" answer="了"/>
</DOC>
"""
CORRECT = "<DOC><TEXT id='b2'>你好</TEXT><CORRECTION>你好</CORRECTION></DOC>"
ROWS = [{"tokens": list("我在家看看书。"), "labels": ["O", "O", "O", "B-R", "I-R", "O", "B-M"]}]


def write(path, text):
    path.write_bytes(text.encode())
    return path


def load(tmp_path, text, **options):
    return load_sentences(write(tmp_path / "a.xml", text), **options).to_list()


def document(text, *errors, identifier="7"):
    listed = "".join(f'<ERROR start_off="{a}" end_off="{b}" type="{kind}"></ERROR>' for a, b, kind in errors)
    return f'<DOC><TEXT id="{identifier}">{text}</TEXT>{listed}</DOC>'


def labels(tmp_path, text, *errors):
    (row,) = load(tmp_path, document(text, *errors))
    return row["labels"]


def test_documents_one_after_the_other(tmp_path):
    rows = load(tmp_path, DOCUMENT + CORRECT)
    assert rows == [*ROWS, {"tokens": ["你", "好"], "labels": ["O", "O"]}]


@pytest.mark.parametrize(
    "text",
    [
        f"<ROOT>{DOCUMENT}</ROOT>",
        f"\ufeff<?xml version='1.0'\n encoding='UTF-8'?>\n<ROOT>{DOCUMENT}</ROOT>\n",
        DOCUMENT.replace("\n", "\r\n"),
        "".join(f"\t  {line}\n" for line in DOCUMENT.splitlines()),  # pretty-printed
        DOCUMENT.replace("看看", "看\n看"),
    ],
)
def test_other_layouts_say_the_same(tmp_path, text):
    assert load(tmp_path, text) == ROWS


def test_blanks_are_characters_and_count(tmp_path):
    (row,) = load(tmp_path, document("\n  我 不\u3000\n", (5, 5, "S")))
    assert row == {"tokens": list("  我 不\u3000"), "labels": ["O", "O", "O", "O", "B-S", "O"]}


def test_entities_and_control_characters_count_as_one(tmp_path):
    (row,) = load(tmp_path, document("&amp;&#x4f60;\x1d&lt;", (4, 4, "S")))
    assert row == {"tokens": ["&", "你", "\ufffd", "<"], "labels": ["O", "O", "O", "B-S"]}


def test_a_word_that_is_missing_at_the_end(tmp_path):
    assert labels(tmp_path, "你好", (3, 3, "M")) == ["O", "B-M"]
    with pytest.raises(ValueError, match="an ERROR from 3 to 3 is not in its TEXT of 2 characters"):
        labels(tmp_path, "你好", (3, 3, "S"))


def test_errors_side_by_side_are_two(tmp_path):
    assert labels(tmp_path, "一二三四", (1, 2, "S"), (3, 4, "S")) == ["B-S", "I-S", "B-S", "I-S"]


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([(2, 2, "M"), (2, 3, "S")], "O B-M B-S O"),
        ([(1, 4, "W"), (2, 2, "M")], "B-W I-W I-W I-W"),
        ([(2, 2, "M"), (1, 4, "W")], "B-W B-M B-W I-W"),
        ([(1, 2, "R"), (1, 2, "R")], "B-R I-R O O"),
    ],
)
def test_of_errors_that_overlap_the_first_keeps_its_characters(tmp_path, errors, expected):
    assert labels(tmp_path, "一二三四", *errors) == expected.split()


def test_without_errors_there_are_no_labels(tmp_path):
    assert load(tmp_path, CORRECT, require_labels=False) == [{"tokens": ["你", "好"], "labels": []}]
    with pytest.raises(ValueError, match=r"a\.xml: has no labels: there is not one ERROR in 1 texts"):
        load(tmp_path, CORRECT)


def test_the_ending_says_the_format(tmp_path):
    assert load_sentences(write(tmp_path / "a.xml", DOCUMENT)).to_list() == ROWS
    bare = load_sentences(write(tmp_path / "b.xml", CORRECT), require_labels=False)
    assert bare["labels"][:] == [[]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DOCUMENT + "<DOC>\n<TEXT>你 & 我</TEXT></DOC>", r"line 12: malformed XML"),
        (DOCUMENT.replace("</DOC>", ""), r"line 11: malformed XML"),
        (DOCUMENT.replace('"4" ', '"4"'), r"line 8: malformed XML"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]>\n" + CORRECT, r"line 1: the DOCTYPE"),
        (DOCUMENT.replace("我在", "&b;"), r"line 3: malformed XML"),
        ("<a/>", r"holds no DOC; expected CGED's DOC"),
        (
            "<DOC><SENTENCE id='1'>你</SENTENCE><MISTAKE/></DOC>",
            "the format of 2014 and 2015; only the format of 2016",
        ),
        ("<ESSAY title='t'><TEXT/></ESSAY>", "the format of 2014 and 2015"),
        ("<DOC><CORRECTION/></DOC>", r"DOC 1: has 0 TEXT elements; expected one"),
        (CORRECT.replace("</TEXT>", "</TEXT><TEXT/>"), r"DOC 1: has 2 TEXT"),
        (CORRECT + document("\n \n", identifier="c3"), r"DOC 2 \(id c3\): its TEXT is empty"),
        (document("你好", (0, 1, "S")), r"DOC 1 \(id 7\): an ERROR from 0 to 1 is not in its TEXT of 2 characters"),
        (document("你好", (2, 1, "S")), "an ERROR from 2 to 1"),
        (document("你好", (1, 3, "S")), "an ERROR from 1 to 3"),
        (document("你好", (4, 4, "M")), "an ERROR from 4 to 4"),
        (document("你好", (1, 1, "D")), r"\(id 7\): the type of an ERROR must be R, M, S or W; found 'D'"),
        (document("你好", ("x", 1, "S")), "the start_off of an ERROR must be a character position; found 'x'"),
        ("<DOC><TEXT>你</TEXT><ERROR start_off='1' type='R'/></DOC>", "DOC 1: the end_off of an ERROR .* found ''"),
        (" ", "is empty"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"a\.xml.*{message}"):
        load(tmp_path, text)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"b\.xml: no such file"):
        load_sentences(tmp_path / "b.xml")


@st.composite
def annotated_texts(draw):
    text = draw(st.text("我们好。ab <&𠀀", min_size=1, max_size=8).filter(str.strip))
    places = st.integers(1, len(text))
    errors = draw(st.lists(st.tuples(places, places, st.sampled_from("RMSW")), max_size=4))
    return text, [(min(a, b), max(a, b), kind) for a, b, kind in errors]


@settings(max_examples=50)
@given(st.lists(annotated_texts(), min_size=1, max_size=3))
def test_each_character_has_the_type_of_the_first_error_that_covers_it(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "drawn.xml"
    write(path, "\n".join(document(escape(text), *errors) for text, errors in texts))
    rows = load_sentences(path, require_labels=False)
    labeled = any(errors for _, errors in texts)
    for (text, errors), row in zip(texts, rows, strict=True):
        assert "".join(row["tokens"]) == text
        covering = [
            next((number for number, (first, last, _) in enumerate(errors) if first <= place <= last), None)
            for place in range(1, len(text) + 1)
        ]
        expected = []
        for place, number in enumerate(covering):
            if number is None:
                expected.append("O")
            else:
                goes_on = place and covering[place - 1] == number
                expected.append(("I-" if goes_on else "B-") + errors[number][2])
        assert row["labels"] == (expected if labeled else [])
