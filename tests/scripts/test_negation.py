"""Negation: what is not seen, official files, folds, families, and models of scopes and of cues."""

import json

import pytest
from transformers import AutoTokenizer

from hf_localattn.data import load_negation
from hf_localattn.families import FAMILIES
from hf_localattn.metrics import load_metric
from hf_localattn.models.negation_labels import CUE_LABELS, SCOPE_LABELS
from hf_localattn.names import SAMPLES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import TINY_FIELDS
from tests.scripts.conftest import json_lines
from tests.tiny_parser import tiny_parser

STARSEM, BIOSCOPE = (str(SAMPLES / "negation" / name) for name in ("starsem.txt", "bioscope.xml"))
OA = {"family": "oa-xlnet", "backbone": "tiny", "task_name": "negation"}
PLAIN = {"backbone": "tiny", "task_name": "negation"}
DETECT = {"detect_cues": True, "max_seq_length": 128}


@pytest.mark.parametrize("cue_marker", ["keep", "drop", "typed"])
def test_padding_on_the_left_shifts_no_word(cue_marker, run, tmp_path):
    """The same fresh model, with and without padding; [CLS] is last, words have many tokens."""
    options = {**OA, "backbone": "left", "max_seq_length": 64, "local_config": [f"cue_marker={cue_marker}"]}
    found = []
    for size in (1, 8):
        run("ner", None, "predict", str(size), test_file="negated.jsonl", per_device_eval_batch_size=size, **options)
        found.append([row["predicted_scope"] for row in json_lines(tmp_path / str(size) / "predictions.jsonl")])
    assert found[0] == found[1]
    assert {0, 1} == {word for row in found[0] for word in row}


def test_what_the_model_does_not_see_is_scored(run, tmp_path):
    """24 tokens hold 21 words with a marker: 9 of 30 words are behind them, and the cue of the last row."""
    metrics = run("ner", "long.jsonl", test_file="long.jsonl", max_seq_length=24, **{**OA, "max_steps": 1})
    rows = json_lines(tmp_path / "out" / "predictions.jsonl")
    assert [len(row["predicted_scope"]) for row in rows] == [6, 6, 30, 30]
    assert not any(rows[2]["predicted_scope"][21:])
    assert not any(rows[3]["predicted_scope"])
    true, found = (sum(sum(row[name]) for row in rows) for name in ("scope", "predicted_scope"))
    hits = sum(a & b for row in rows for a, b in zip(row["scope"], row["predicted_scope"], strict=True))
    assert metrics["predict_recall"] == hits / true
    assert metrics["predict_f1"] == pytest.approx(2 * hits / (true + found))
    assert (metrics["train_samples"], metrics["predict_samples"]) == (3, 4)


def test_the_columns_of_starsem_hold_the_predictions(run, tmp_path):
    metrics, out = run("ner", STARSEM, test_file=STARSEM, **OA), tmp_path / "out"
    gold, found = (load_negation(out / f"starsem_{name}.txt", "negation", "corpus") for name in ("gold", "predicted"))
    assert load_negation(out / "starsem_gold.txt").to_list() == load_negation(STARSEM).to_list()
    assert found["scope"][:] == [row["predicted_scope"] for row in json_lines(out / "predictions.jsonl")]
    found, gold = ([[{key: row[key] for key in ("cue_text", "scope_text")}] for row in rows] for rows in (found, gold))
    pos = load_negation(STARSEM)["pos"][:]
    scores = load_metric("starsem").compute(predictions=found, references=gold, pos=pos)
    assert metrics["predict_instance_f1"] == scores["instance_f1"]
    assert metrics["predict_starsem_cues_f1"] == 1


def test_only_training_adds_the_marker_to_a_tokenizer(run, refused, tmp_path):
    """Every family learns scopes with a marker of its own; a finished model without one cannot know the cue."""
    run("ner", "negated.jsonl", "train", "trained", **PLAIN)
    assert "[CUE]" in AutoTokenizer.from_pretrained(tmp_path / "trained").get_added_vocab()
    other = {"model": str(tmp_path / "trained"), "tokenizer_name": str(tiny_backbone()), "test_file": "negated.jsonl"}
    refused("[CUE]", "ner", None, "predict", task_name="negation", **other)


def test_folds_keep_the_cues_of_a_sentence_together(run, tmp_path):
    options = {**OA, "train_file": BIOSCOPE, "max_steps": 1, "num_folds": 2}
    assert all("predict_f1" in run("ner", None, fold=fold, **options) for fold in (1, 2))
    folders = [tmp_path / "out" / f"fold-{fold}" for fold in (1, 2)]
    tested = [{" ".join(row["tokens"]) for row in json_lines(folder / "predictions.jsonl")} for folder in folders]
    assert all(tested)
    assert not tested[0] & tested[1]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_runs_and_its_tokenizer_learns_the_marker(family, run, tmp_path):
    parser = {"parser": tiny_parser()} if family == "sla-bert" else {}
    options = {**DETECT, **PLAIN, "cues": "both", "max_train_samples": 8, "max_eval_samples": 8, "max_steps": 1}
    fields = TINY_FIELDS[family] | parser
    options |= {"family": family, "local_config": [f"{name}={value}" for name, value in fields.items()]}
    run("ner", BIOSCOPE, "train eval", **options)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", **parser)
    assert tokenizer.tokenize("a [CUE] b")[1] == "[CUE]"
    names = json.loads((tmp_path / "out" / "config.json").read_text())["id2label"].values()
    assert list(names) == [*SCOPE_LABELS, *CUE_LABELS]


@pytest.mark.parametrize(("limit", "expected"), [(3, 3 + 2), (4, 3 + 2), (5, 4 + 4), (7, 6 + 5)])
def test_a_limit_takes_whole_sentences(limit, expected, run):
    """The fourth sentence has two cues; each sentence has a row that asks for them."""
    metrics = run("ner", "detected.jsonl", "train", **PLAIN, **DETECT, max_train_samples=limit)
    assert metrics["train_samples"] == expected


def test_models_of_scopes_and_of_cues(run, refused, tmp_path):
    run("ner", STARSEM, "train", "scopes", **OA)
    test = {"task_name": "negation", "test_file": STARSEM}
    refused("negation:affix", "ner", None, "predict", detect_cues=True, model=str(tmp_path / "scopes"), **test)
    run("ner", STARSEM, "train", "both", **OA, **DETECT)
    metrics = run("ner", None, "predict", model=str(tmp_path / "both"), **test)
    assert "predict_f1" in metrics
    assert "predict_cue_f1" not in metrics
