"""Written sentences, and the recipe that trains negation on several domains."""

import re

import pytest
from datasets import Dataset

from benchmarks.negation import read_traps
from hf_localattn.data import load_negation
from hf_localattn.data.negation import group_sentences
from hf_localattn.files import atomic_write
from hf_localattn.resources import FOLDER
from reproduction import negation
from reproduction.__main__ import main
from reproduction.negation import convert, held_out
from reproduction.written_negation import annotate, grams, read_marks, tidy, write_sentences
from tests.data.notation import columns, notation
from tests.qa_helpers import write_jsonl

SAMPLES = FOLDER / "samples" / "negation"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = write_jsonl(tmp_path_factory.mktemp("written") / "written.jsonl", write_sentences())
    return group_sentences(load_negation(path, all_sentences=True))


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("pt [denies] {chest pain}, but reports a ache.", ["Pt [denies] CHEST PAIN , but reports an ache ."]),
        ("she can[not] {walk}", ["She can [not] WALK"]),
        ("{it is} [neither] {old} [nor] {new}.", ["IT IS [neither] OLD [nor] NEW ."]),
        ("[1:no] {1:fever}, [2:no] {2:rash}", ["[No] FEVER , no rash", "No fever , [no] RASH"]),
        ("it is [1:un]{1:fair} and {2:use}[2:less]", ["It is [un]FAIR and useless", "It is unfair and USE[less]"]),
        ("not only old ,  but new", ["Not only old , but new"]),
    ],
)
def test_marks_become_rows(marked, expected):
    rows = load_negation(Dataset.from_list(list(annotate(*read_marks(tidy(marked))))), all_sentences=True)
    assert list(map(notation, rows)) == expected


def test_written_sentences_are_many_different_and_the_same_each_time(written):
    rows = [row for sentence in written for row in sentence]
    texts = [" ".join(sentence[0]["tokens"]) for sentence in written]
    assert len(texts) == len(set(texts)) > 2000
    assert len({row["document_id"] for row in rows}) == 5, "domains"
    assert 0.2 < sum(not any(sentence[0]["cue"]) for sentence in written) / len(written) < 0.5
    assert [row["tokens"] for row in write_sentences()] == [row["tokens"] for row in rows]
    assert not [text for text in texts if re.search(r"[<>{}|\[\]]", text)]
    for row in (row for row in rows if any(row["cue"])):
        assert any(row["scope"]), notation(row)
        both = any(cue and scope for cue, scope in zip(row["cue"], row["scope"], strict=True))
        assert row["cue_type"] == "affix" or not both, notation(row)
    tested = set().union(*(grams(trap.text) for trap in read_traps()))
    assert not [text for text in texts if not tested.isdisjoint(grams(text))], "sentences like those that test models"


@pytest.mark.parametrize(
    ("annotated", "converted"),
    [
        (["[neither] OLD nor new", "neither old [nor] NEW"], ["[neither] OLD [nor] NEW"]),
        (["he [does] [n't] LAUGH"], ["he DOES [n't] LAUGH"]),
        (["he [rather] [than] SHE", "she [not] HE"], ["he [rather] [than] SHE", "she [not] HE"]),
    ],
)
def test_cues_of_all_corpora_follow_one_convention(annotated, converted):
    rows = [{**columns(text), "sentence_id": str(number // 9)} for number, text in enumerate(annotated)]
    assert list(map(notation, convert(list(load_negation(Dataset.from_list(rows)))))) == converted


def test_documents_with_a_fifth_of_the_negations_are_held_out():
    rows = [{"document_id": name, "cue": [int(name != "d")]} for name in "aaaabbbbcd"]
    assert held_out(rows) == {"c", "d", "b"}
    assert held_out([row for row in rows if row["document_id"] in "ac"]) == {"c"}


def test_the_recipe_trains_scores_and_publishes(tmp_path, monkeypatch, capsys):
    sherlock = tmp_path / "sherlock"
    stories = (SAMPLES / "starsem.txt").read_text().replace("\t.\t", "\t!\t")  # the reviews have the same sentences
    for name in ("train.txt", "dev.txt"):
        atomic_write(sherlock / name, stories)
    short = {"max_steps": 1, "save_strategy": "no", "use_cpu": True}
    few = write_jsonl(tmp_path / "few.jsonl", write_sentences()[:40]).read_text()
    monkeypatch.setattr(negation, "write_file", lambda path: atomic_write(path, few))
    monkeypatch.setattr(negation, "TRAINING", {**negation.TRAINING, **short})
    monkeypatch.setattr(negation, "export_checkpoint", lambda *_, **__: None)
    words = ["--sherlock", str(sherlock), "--bioscope", str(SAMPLES / "bioscope.xml"), "--sfu", str(SAMPLES / "sfu")]
    words += ["--backbone", "tiny", "--models", "oa-emb", "--publish", "oa-emb", "-o", str(tmp_path / "out")]
    main(["negation", *words, "--seeds", "1"])
    report = (tmp_path / "out" / "report.md").read_text()
    assert report.strip() in capsys.readouterr().out
    assert [line.split(" | ")[:2] for line in report.splitlines()[2:]] == [
        ["| oa-emb", part] for part in ("sherlock", "bioscope", "sfu", "traps")
    ]
    card = (tmp_path / "out" / "oa-emb-1" / "README.md").read_text()
    assert "| sherlock |" in card
    assert "What it is not for" in card
