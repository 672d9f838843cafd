"""Rows from .json files and data sets, what tells the formats apart, and the samples in them."""

from pathlib import Path

import pytest
from datasets import Dataset

from hf_localattn.data import Source
from hf_localattn.data.negation import NEGATION_FEATURES, describe_cues, load_negation
from tests.qa_helpers import write_jsonl

SAMPLES = Path(__file__).parents[3] / "hf_localattn" / "resources" / "samples" / "negation"
ROW = {"tokens": ["I", "never", "did"], "cue": [0, 1, 0], "scope": [1, 1, 1]}


def load(tmp_path, *rows, **options):
    return load_negation(write_jsonl(tmp_path / "a.jsonl", list(rows)), **options).to_list()


def test_rows_are_completed(tmp_path):
    rows = load(
        tmp_path, ROW, {**ROW, "cue": [0, 1, 1]}, {**ROW, "tokens": ["You", "never", "did"], "cue_type": "affix"}
    )
    assert rows[0] == {
        "id": "1",
        "document_id": "a.jsonl",
        "sentence_id": "a.jsonl/1",
        "tokens": ["I", "never", "did"],
        "cue": [0, 1, 0],
        "cue_type": "single",
        "cue_kind": "negation",
        "cue_text": ["", "never", ""],
        "scope": [1, 0, 1],
        "scope_text": ["I", "", "did"],
        "lemma": [],
        "pos": [],
        "parse": [],
    }
    assert [row["cue_type"] for row in rows] == ["single", "multi", "affix"]
    assert [row["scope"] for row in rows[1:]] == [[1, 0, 0], [1, 1, 1]]
    assert [row["sentence_id"] for row in rows] == ["a.jsonl/1", "a.jsonl/1", "a.jsonl/2"]
    assert load(tmp_path, ROW, cue_in_scope="corpus")[0]["scope"] == [1, 1, 1]


def test_what_is_given_is_kept(tmp_path):
    given = {
        **{"id": "x", "document_id": 7, "sentence_id": "s", "tokens": ["I", "unable", "Mr."], "cue": [0, 1, 0]},
        **{"cue_type": "affix", "cue_kind": "speculation", "cue_text": ["", "un", ""]},
        **{"scope": [1, 1, 1], "scope_text": ["I", "able", "Mr"]},
        **{name: ["X", "Y", "Z"] for name in ("lemma", "pos", "parse")},
    }
    first, second = load(tmp_path, given, given)
    assert first == {**given, "document_id": "7"}
    assert second["id"] == "x~2"


def test_affixes(tmp_path):
    row = {"tokens": ["neither", "I", "unable"], "cue": [1, 0, 1], "scope": [1, 1, 1]}
    (whole,) = load(tmp_path, {**row, "cue_type": "affix"})
    assert (whole["cue_text"], whole["scope_text"]) == (["neither", "", "unable"], ["neither", "I", "unable"])
    (part,) = load(tmp_path, {**row, "cue_text": ["neither", "", "un"]})
    assert (part["cue_type"], part["scope"], part["scope_text"]) == ("multi", [0, 1, 1], ["", "I", "able"])


def test_rows_without_a_cue_on_request(tmp_path):
    bare = {**ROW, "cue": [0, 0, 0], "scope": [0, 0, 0]}
    rows = load(tmp_path, ROW, bare, all_sentences=True, cues="speculation")
    assert [(row["cue_type"], row["cue_kind"]) for row in rows] == [("single", "speculation"), ("none", None)]
    assert rows[1]["scope"] == [0, 0, 0]
    assert load_negation(Dataset.from_list(rows), all_sentences=True).to_list() == rows
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2 \(id 2\): no word is a cue"):
        load(tmp_path, ROW, rows[1])


def test_rows_to_predict_on_need_no_scope(tmp_path):
    bare = {name: ROW[name] for name in ("tokens", "cue")}
    rows = load(tmp_path, bare, {**bare, "scope": None}, {**bare, "scope": []}, require_scopes=False)
    assert [row["scope"] for row in rows] == [[], [], []]
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: has no 'scope'; give a list with 0 or 1"):
        load(tmp_path, ROW, bare)
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: has no scope, but other rows have"):
        load(tmp_path, ROW, bare, require_scopes=False)


def test_data_sets(tmp_path):
    rows = load_negation(Source("hub", Dataset.from_list([ROW])))
    assert rows.features == NEGATION_FEATURES
    assert rows[0]["document_id"] == "hub"
    assert load_negation(rows).to_list() == rows.to_list()
    with pytest.raises(ValueError, match=r"hub: has no column 'cue', 'scope' \(it has tokens\)"):
        load_negation(Source("hub", Dataset.from_list([{"tokens": ROW["tokens"]}])))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "line 1: expected an object with tokens, cue, scope; found a list of 1"),
        ({**ROW, "tokens": "I never did"}, "line 1: the field 'tokens' must be a list of texts; found 'I never did'"),
        ({**ROW, "tokens": []}, "line 1: the field 'tokens' is empty; .* --skip_empty"),
        ({**ROW, "tokens": ["I", " ", "x"]}, "line 1: a token must be a text that is not blank; found ' '"),
        (
            {**ROW, "cue": [0, 1]},
            "line 1: 'cue' must be a list with 0 or 1 for each of its 3 words; found a list of 2",
        ),
        ({**ROW, "scope": [0, 1]}, "line 1: 'scope' must be a list with 0 or 1 for each of its 3 words"),
        ({**ROW, "cue": [0, 2, 0]}, "line 1: 'cue' must have 0 or 1 for each word; found 2"),
        ({**ROW, "scope": ["I", "O", "O"]}, "line 1: 'scope' must have 0 or 1 for each word; found 'I'"),
        ({**ROW, "cue": [0, 0, 0]}, "line 1: no word is a cue; 'cue' needs a 1 for each cue word"),
        ({**ROW, "cue_kind": "doubt"}, "line 1: 'cue_kind' must be negation, speculation, or left out; found 'doubt'"),
        ({**ROW, "pos": ["X"]}, "line 1: 'pos' must be a list with a text for each of its 3 words; found a list of 1"),
        ({**ROW, "cue_text": ["", "nay", ""]}, "line 1: 'cue_text' must be a part of 'never'; found 'nay'"),
        ({**ROW, "cue_text": ["", "", ""]}, "line 1: 'cue_text' must be a part of 'never'; found ''"),
        (
            {**ROW, "cue_type": "prefix"},
            "line 1: 'cue_type' must be affix, single, multi, or left out; found 'prefix'",
        ),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, row, message):
    with pytest.raises(ValueError, match=rf"a\.jsonl, {message}"):
        load(tmp_path, row)


def test_no_rows(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(ValueError, match=r"a\.json: holds no rows"):
        load_negation(tmp_path / "a.json")


def test_an_unknown_root(tmp_path):
    (tmp_path / "a.txt").write_text("<!-- <Annotation> -->\n<html/>")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: the root element is 'html'; it must be"):
        load_negation(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("name", "cues", "expected"),
    [
        ("bioscope.xml", "negation", "27 cues (23 single, 4 multi) in 24 sentences, 2 with an empty scope"),
        ("bioscope.xml", "speculation", "9 cues (9 single) in 8 sentences, 0 with an empty scope"),
        ("sfu", "negation", "29 cues (27 single, 2 multi) in 24 sentences, 2 with an empty scope"),
        ("sfu/garden.xml", "speculation", "3 cues (3 single) in 3 sentences, 0 with an empty scope"),
        ("bioscope.xml", "both", "36 cues (32 single, 4 multi) in 29 sentences, 2 with an empty scope"),
        ("starsem.txt", "negation", "32 cues (5 affix, 23 single, 4 multi) in 28 sentences, 2 with an empty scope"),
    ],
)
def test_the_samples(name, cues, expected):
    assert describe_cues(load_negation(SAMPLES / name, cues)) == expected


def test_the_samples_tell_the_same_scopes():
    """BioScope's scopes have no gaps, and its words end at white space; where that matters not, the corpora agree."""

    def texts(name):
        rows = load_negation(SAMPLES / name)
        return {
            tuple(
                "".join(word for word, mark in zip(row["tokens"], row[column], strict=True) if mark)
                for column in ("cue", "scope")
            )
            for row in rows
            if row["cue_type"] == "single"
        }

    sem, sfu, bio = texts("starsem.txt"), texts("sfu"), texts("bioscope.xml")
    assert sem <= sfu
    assert {cue for cue, _ in sfu - sem} == {"Neither", "nor"}
    assert {scope for _, scope in bio - sem} == {"Thelibrarian,apatientman,didraisehisvoice"}
