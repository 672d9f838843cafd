"""The recipe of the model of negation: its data, its encoder, and the folder that the package ships."""

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
import torch
import transformers
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer

from benchmarks.negation import read_traps
from hf_localattn.bundled import negation_model
from hf_localattn.data import load_negation
from hf_localattn.data.written_negation import write_sentences
from hf_localattn.files import atomic_write
from hf_localattn.names import find_files
from hf_localattn.resources import FOLDER, NEGATION, tiny_backbone
from tests.data.notation import columns, notation

pytest.importorskip("onnx", reason="the model that the package ships has a graph")

from reproduction import negation
from reproduction.__main__ import main
from reproduction.negation import convert, held_out, without_near, word_sequences
from reproduction.shipped_model import write_shipped_model
from reproduction.small_encoder import choose_pieces, cut_vocabulary

SAMPLES = FOLDER / "samples" / "negation"
PAGE = Path(__file__).parents[2] / "docs" / "negation.md"


def test_no_written_sentence_of_the_training_is_near_one_that_tests_models():
    texts = [trap.text for trap in read_traps()]
    rows = [{"tokens": sentence.tokens} for sentence in write_sentences(Path(find_files(negation.WRITTEN)))]
    kept = without_near(rows, texts)
    assert 0.95 * len(rows) < len(kept) < len(rows)
    tested = set().union(*map(word_sequences, texts))
    assert not [row for row in kept if not tested.isdisjoint(word_sequences(" ".join(row["tokens"])))]


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


def test_speculation_keeps_its_words():
    row = {**columns("[not] [clear] WHY"), "cue_kind": "speculation", "sentence_id": "1"}
    assert list(map(notation, convert(list(load_negation(Dataset.from_list([row])))))) == ["[not] [clear] WHY"]


RELEASES = "transformers 5.24.0, torch 2.13.0"
RECORD = re.findall(r"^\| `([\w.]+)` \| `([0-9a-f]{16})` \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def digests(folder):
    return {name: sha256((folder / name).read_bytes()).hexdigest()[:16] for name, _ in RECORD}


def test_the_folder_of_the_package_is_the_recorded_one():
    assert digests(NEGATION) == dict(RECORD)
    assert {path.name for path in NEGATION.iterdir()} == {*dict(RECORD), "README.md", "NOTICE"}


@pytest.mark.slow(reason="exports a graph, 25 s")
def test_the_last_step_of_the_recipe_writes_the_recorded_bytes(tmp_path):
    releases = f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}"
    if releases != RELEASES:
        pytest.skip(f"the record is that of {RELEASES}")
    for part in negation_model():
        part.save_pretrained(tmp_path / "checkpoint")
    write_shipped_model(tmp_path / "checkpoint", tmp_path / "folder")
    assert digests(tmp_path / "folder") == dict(RECORD)


def test_documents_with_a_fifth_of_the_negations_are_held_out():
    rows = [{"document_id": name, "cue": [int(name != "d")]} for name in "aaaabbbbcd"]
    assert held_out(rows) == {"c", "d", "b"}
    assert held_out([row for row in rows if row["document_id"] in "ac"]) == {"c"}


def test_a_cut_vocabulary_splits_every_word_and_keeps_those_of_the_texts(tmp_path):
    whole = AutoTokenizer.from_pretrained(tiny_backbone())
    text = "Mira is not the baker."
    size = len(choose_pieces(whole, [], 0)) + 20
    cut_vocabulary(str(tiny_backbone()), [text], tmp_path / "encoder", size)
    cut = AutoTokenizer.from_pretrained(tmp_path / "encoder")
    assert len(cut) < len(whole)
    assert cut.tokenize(text) == whole.tokenize(text)
    assert "".join(cut.tokenize("unquestioningly")).replace("##", "") == "unquestioningly"
    states = [
        AutoModel.from_pretrained(folder).eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state
        for folder, tokenizer in ((tmp_path / "encoder", cut), (tiny_backbone(), whole))
    ]
    torch.testing.assert_close(*states)


def test_the_recipe_trains_scores_and_publishes(tmp_path, monkeypatch, capsys):
    sherlock = tmp_path / "sherlock"
    stories = (SAMPLES / "starsem.txt").read_text().replace("\t.\t", "\t!\t")  # the reviews have the same sentences
    for name in ("train.txt", "dev.txt"):
        atomic_write(sherlock / name, stories)
    patterns = tmp_path / "few.yaml"
    patterns.write_text("words: {sign: [fever, rash, gout]}\npatterns: {notes: ['[No] {<sign>}.', 'Has <sign>.']}")
    published = []
    monkeypatch.setattr(negation, "WRITTEN", str(patterns))
    monkeypatch.setattr(negation, "TRAINING", {**negation.TRAINING, "max_steps": 1, "save_strategy": "no"})
    monkeypatch.setattr(negation, "read_traps", lambda: read_traps()[:4])
    tests = ("stories", "papers, by convention", "papers, speculation", "reviews")
    monkeypatch.setattr(negation, "TESTS", {name: negation.TESTS[name] for name in tests})
    monkeypatch.setattr(negation, "write_shipped_model", lambda checkpoint, folder: published.append(checkpoint))
    monkeypatch.setattr(negation, "write_shipped_card", lambda scores, folder: published.append(set(scores)))
    monkeypatch.setattr(negation.Recipe, "shipped", lambda recipe: recipe.folder / "encoder-1")  # is tested already
    words = ["--sherlock", str(sherlock), "--bioscope", str(SAMPLES / "bioscope.xml"), "--sfu", str(SAMPLES / "sfu")]
    main(["negation", *words, "--backbone", "tiny", "--publish", "-o", str(tmp_path / "out")])
    report = (tmp_path / "out" / "report.md").read_text()
    assert report.strip() in capsys.readouterr().out
    names = [*tests, *(f"traps, {convention}" for convention in negation.TRAP_CONVENTIONS)]
    rows = [line.split(" | ")[:2] for line in report.splitlines()[2:]]
    assert rows == [[model, name] for model in ("| encoder", "| negation-en") for name in names]
    assert published == [tmp_path / "out" / "encoder-1", {*tests, "traps"}]
    config = json.loads((tmp_path / "out" / "encoder" / "config.json").read_text())
    assert config["vocab_size"] < len(AutoTokenizer.from_pretrained(tiny_backbone()))


@pytest.mark.parametrize("words", [["--train-on-reviews"], ["--train-on-reviews", "--sfu", "sfu", "--publish"]])
def test_reviews_are_in_no_published_model(words, capsys):
    with pytest.raises(SystemExit):
        main(["negation", "--sherlock", "a", "--bioscope", "b", *words])
    assert "reviews" in capsys.readouterr().err
