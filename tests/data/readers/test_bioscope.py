import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hf_localattn.data import load_negation

DOCTYPE = '<!DOCTYPE Annotation PUBLIC "-//BIOSCOPE//DTD  SCOPE ANNOTATION 1.0//EN" "BioScope.dtd">'
NESTED = (
    '<sentence id="S1">It <xcope id="X1"><cue type="speculation" ref="X1">may</cue> be, but <xcope id="X2"><cue'
    ' type="negation" ref="X2">neither</cue> old <cue type="negation" ref="X2">nor</cue> new</xcope></xcope>.'
    "</sentence>"
)
PLAIN = '<sentence id="S2">Nothing to see.</sentence>'


def corpus(*sentences, head=DOCTYPE, document="D1"):
    listed = "\n".join(sentences)
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n{head}\n<Annotation><DocumentSet><Document>'
        f"<DocID>{document}</DocID>\n<DocumentPart>\n{listed}\n</DocumentPart></Document></DocumentSet></Annotation>\n"
    )


def write(tmp_path, text):
    path = tmp_path / "a.xml"
    path.write_text(text, encoding="utf-8")
    return path


def load(tmp_path, *sentences, **options):
    return load_negation(write(tmp_path, corpus(*sentences)), **options).to_list()


def test_a_cue_in_pieces_inside_another_scope(tmp_path):
    tokens = ["It", "may", "be,", "but", "neither", "old", "nor", "new", "."]
    expected = {
        "id": "D1/S1/2",
        "document_id": "D1",
        "sentence_id": "D1/S1",
        "tokens": tokens,
        "cue": [0, 0, 0, 0, 1, 0, 1, 0, 0],
        "cue_type": "multi",
        "cue_kind": "negation",
        "cue_text": ["", "", "", "", "neither", "", "nor", "", ""],
        "scope": [0, 0, 0, 0, 0, 1, 0, 1, 0],
        "scope_text": ["", "", "", "", "", "old", "", "new", ""],
        "lemma": [],
        "pos": [],
        "parse": [],
    }
    assert load(tmp_path, NESTED, PLAIN) == [expected]
    (row,) = load(tmp_path, NESTED, PLAIN, cue_in_scope="corpus")
    assert row == {**expected, "scope": [0, 0, 0, 0, 1, 1, 1, 1, 0], "scope_text": ["", "", "", "", *tokens[4:8], ""]}
    (row,) = load(tmp_path, NESTED, cues="speculation")
    assert (row["id"], row["cue_type"], row["tokens"]) == ("D1/S1/1", "single", tokens)
    assert row["scope"] == [0, 0, 1, 1, 1, 1, 1, 1, 0]
    both = load(tmp_path, NESTED, cues="both")
    assert [(row["id"], row["cue_kind"]) for row in both] == [("D1/S1/1", "speculation"), ("D1/S1/2", "negation")]


def test_words_end_at_white_space_and_at_tags(tmp_path):
    (row,) = load(
        tmp_path,
        '<sentence id="S1">(<xcope id="X">un<cue type="negation" ref="X">not\n ed</cue> \u00a0<b>x</b>&lt;y</xcope>).'
        " n\x92t \x85</sentence>",
    )
    assert row["tokens"] == ["(", "un", "not", "ed", "x", "<y", ").", "n\u2019t", "\u2026"]
    assert row["cue"] == [0, 0, 1, 1, 0, 0, 0, 0, 0]


def test_a_scope_that_a_joined_cue_left_behind(tmp_path):
    joined = (
        '<sentence id="S1"><xcope id="X1"><xcope id="X2">It <cue type="negation" ref="X1">can</cue> <cue'
        ' type="negation" ref="X1">not</cue> be</xcope></xcope></sentence>'
    )
    (row,) = load(tmp_path, joined)
    assert (row["cue"], row["scope"]) == ([0, 1, 1, 0], [1, 0, 0, 1])
    with pytest.raises(ValueError, match="no cue refers to the scope X3"):
        load(tmp_path, joined.replace("</sentence>", '<xcope id="X3">at all</xcope></sentence>'))
    with pytest.raises(ValueError, match="no cue refers to the scope X2"):
        load(tmp_path, joined.replace('<xcope id="X2">', "").replace("be</xcope>", 'be <xcope id="X2">so</xcope>'))


def test_a_scope_without_its_cue(tmp_path, caplog):
    stray = '<sentence id="S3">\n<xcope id="X9">all gone</xcope></sentence>'
    with pytest.raises(
        ValueError, match=r"a\.xml, line 8, sentence S3: no cue refers to the scope X9: .* unmatched_scopes='skip'"
    ):
        load(tmp_path, NESTED, PLAIN, stray)
    assert load(tmp_path, NESTED, PLAIN, stray, unmatched_scopes="skip") == load(tmp_path, NESTED)
    assert "Scopes without a cue, left out: 1; the first one: " in caplog.text
    assert "scope X9" in caplog.text


def test_a_cue_without_a_scope(tmp_path):
    (row,) = load(tmp_path, '<sentence id="S1">Did it? <cue type="negation" ref="X1">No</cue>.</sentence>')
    assert (row["cue"], row["scope"]) == ([0, 0, 1, 0], [0, 0, 0, 0])


def test_names_are_unique(tmp_path):
    rows = load(tmp_path, NESTED, NESTED.replace("neither", "not"))
    assert [row["sentence_id"] for row in rows] == ["D1/S1", "D1/S1~2"]
    nameless = corpus(NESTED).replace("<DocID>D1</DocID>", "")
    assert load_negation(write(tmp_path, nameless))["document_id"] == ["document 1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (corpus(NESTED, "<sentence id='S2'><xcope></sentence>"), "line 6: malformed XML"),
        (corpus(NESTED).replace("Annotation>\n", ">"), "line 6: malformed XML"),
        (corpus("<sentence id='S1'>a &nbsp; b</sentence>"), "line 5: malformed XML: Entity 'nbsp'"),
        (corpus(NESTED, head='<!DOCTYPE a [<!ENTITY b "c">]>'), "line 2: the DOCTYPE"),
        (corpus(NESTED, head='<!DOCTYPE a [<!ENTITY b SYSTEM "b.txt">]>'), "line 2: the DOCTYPE"),
        (corpus(NESTED, head='<!DOCTYPE a SYSTEM "a>" [<!ATTLIST sentence b CDATA "c">]>'), "line 2: the DOCTYPE"),
        ("<DOCUMENT/>", "holds no sentences"),
        (corpus(), "holds no sentences"),
        (corpus(PLAIN), "has no cues of negation in 1 sentences; there are none of any kind"),
        (corpus(NESTED.replace("negation", "speculation")), "no cues of negation in 1 sentences; there are 2 of spec"),
        (corpus("<sentence>a</sentence>"), "line 5: 'sentence' needs a value of 'id'"),
        (corpus(NESTED.replace(' id="X1"', "")), "line 5: 'xcope' needs a value of 'id'"),
        (corpus(NESTED.replace(' ref="X1"', "")), "line 5: 'cue' needs a value of 'ref'"),
        (
            corpus(NESTED.replace('"negation"', '"doubt"')),
            "type of a cue must be negation or speculation; found 'doubt'",
        ),
        (corpus(NESTED.replace(">neither<", "> <").replace(">nor<", "><")), "line 5: a cue has no words"),
        (" ", "is empty"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"a\.xml.*{message}"):
        load_negation(write(tmp_path, text))


def test_what_is_not_text_and_what_is_not_there(tmp_path):
    path = tmp_path / "a.xml"
    path.write_bytes(b"<Annotation>\xff</Annotation>")
    with pytest.raises(ValueError, match=r"a\.xml: is not UTF-8 text"):
        load_negation(path)
    with pytest.raises(FileNotFoundError, match=r"b\.xml: no such file"):
        load_negation(tmp_path / "b.xml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cues": "doubt"}, "cues must be negation or speculation or both; got 'doubt'"),
        ({"cue_in_scope": "yes"}, "cue_in_scope must be never or corpus; got 'yes'"),
        ({"unmatched_scopes": "keep"}, "unmatched_scopes must be error or skip; got 'keep'"),
    ],
)
def test_unknown_options_before_any_file_is_opened(options, message):
    with pytest.raises(ValueError, match=message):
        load_negation("nowhere.xml", **options)


@st.composite
def nested_scopes(draw, depth=3):
    """Generate lists of words and of scopes (kind, places, content); cue words go into `content` at `places`."""
    nodes = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            content = draw(nested_scopes(depth=depth - 1))
            places = draw(st.lists(st.integers(0, len(content)), min_size=1, max_size=2, unique=True))
            nodes.append((draw(st.sampled_from(["negation", "speculation"])), sorted(places), content))
        else:
            nodes.append(draw(st.sampled_from(["a", "bc", "d.", "é", "<&"])))
    return nodes


def render(nodes, words, found):
    """Return the XML of nodes, and add their words to `words` and their cues and scopes to `found`."""
    parts = []
    for node in nodes:
        if isinstance(node, str):
            words.append(node)
            parts.append(node.replace("&", "&amp;").replace("<", "&lt;"))
            continue
        kind, places, content = node
        name, cue, first = f"X{len(found)}", set(), len(words)
        entry = {"kind": kind}
        found.append(entry)
        inner = []
        for place in range(len(content) + 1):
            if place in places:
                cue.add(len(words))
                words.append("not")
                inner.append(f'<cue type="{kind}" ref="{name}">not</cue>')
            inner.append(render(content[place : place + 1], words, found))
        entry.update(cue=cue, scope=set(range(first, len(words))))
        parts.append(f'<xcope id="{name}">{" ".join(inner)}</xcope>')
    return " ".join(parts)


@settings(max_examples=40, deadline=None)
@given(nested_scopes(), st.sampled_from(["negation", "speculation"]), st.sampled_from(["never", "corpus"]))
def test_what_is_written_is_read(tmp_path_factory, nodes, kind, cue_in_scope):
    words, found = [], []
    text = corpus(f'<sentence id="S1">{render(nodes, words, found)}</sentence>')
    path = tmp_path_factory.getbasetemp() / "drawn.xml"
    path.write_text(text, encoding="utf-8")
    expected = {
        (frozenset(entry["cue"]), frozenset(entry["scope"] - (entry["cue"] if cue_in_scope == "never" else set())))
        for entry in found
        if entry["kind"] == kind
    }
    if not expected:
        with pytest.raises(ValueError, match=f"has no cues of {kind}"):
            load_negation(path, kind, cue_in_scope)
        return
    rows = load_negation(path, kind, cue_in_scope).to_list()
    assert all(row["tokens"] == words for row in rows)
    places = [
        tuple(frozenset(i for i, value in enumerate(row[name]) if value) for name in ("cue", "scope")) for row in rows
    ]
    assert len(places) == len(expected)
    assert set(places) == expected
