"""What ships in the wheel: the tiny backbone and the sample texts, and that the script makes them as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import spacy
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from hf_localattn.data import load_squad
from hf_localattn.resources import reading_comprehension, tiny_backbone, tiny_parser
from scripts.tiny_parser import SENTENCES

BACKBONES = (tiny_backbone(), tiny_backbone(generates=True))
SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "make_resources.py"


@pytest.fixture(scope="module")
def halves():
    return {name: load_squad(path) for name, path in reading_comprehension().items()}


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(tiny_backbone())


def sentences(half):
    return {sentence.rstrip(".") for context in half["context"] for sentence in context.split(". ")}


def role_and_name(row):
    return row["id"].split("-")[-1], row["answers"]["text"][0]


@pytest.mark.slow(reason="makes and trains all of them; for whoever changes the script")
def test_script_makes_exactly_these_files(tmp_path):
    """Texts byte for byte, weights and vocabulary as loaded: how libraries write them may change."""
    subprocess.run([sys.executable, str(SCRIPT), "--output", str(tmp_path)], check=True, capture_output=True)
    for name, path in reading_comprehension().items():
        assert (tmp_path / "samples" / "reading" / f"{name}.json").read_bytes() == path.read_bytes()
    for shipped in BACKBONES:
        check_same_backbone(tmp_path / shipped.name, shipped)
    parses = [
        [[token.head.i for token in parse(words)] for words, _ in SENTENCES["en"]]
        for parse in (spacy.load(tmp_path / "tiny-parser"), spacy.load(tiny_parser()))
    ]
    assert parses[0] == parses[1] == [heads for _, heads in SENTENCES["en"]]


def check_same_backbone(made, shipped):
    assert sorted(path.name for path in made.iterdir()) == sorted(path.name for path in shipped.iterdir())
    torch.testing.assert_close(
        load_file(made / "model.safetensors"), load_file(shipped / "model.safetensors"), rtol=0, atol=0
    )
    vocabularies = [
        json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        for folder in (made, shipped)
    ]
    assert vocabularies[0] == vocabularies[1]


def test_resources_are_small():
    assert all((folder / "model.safetensors").stat().st_size < 1_000_000 for folder in BACKBONES)
    assert sum(path.stat().st_size for path in reading_comprehension().values()) < 500_000


def test_backbone_is_published_without_private_paths():
    for folder in BACKBONES:
        assert "_name_or_path" not in json.loads((folder / "config.json").read_text(encoding="utf-8"))


def test_backbone_and_tokenizer_fit_each_other(tokenizer):
    model = AutoModel.from_pretrained(tiny_backbone(), add_pooling_layer=False)
    assert tokenizer.is_fast
    assert len(tokenizer) == model.config.vocab_size
    assert tokenizer.model_max_length == model.config.max_position_embeddings
    states = model(**tokenizer("Who is the baker?", "The baker is Mira.", return_tensors="pt")).last_hidden_state
    assert states.isfinite().all()
    assert states.std() > 0.5, "the tokens differ from each other"


def test_encoder_decoder_and_tokenizer_fit_each_other(tokenizer):
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_backbone(generates=True))
    own = AutoTokenizer.from_pretrained(tiny_backbone(generates=True))
    assert own.get_vocab() == tokenizer.get_vocab()
    assert own.model_max_length == model.config.max_position_embeddings
    assert model.config.eos_token_id == own.sep_token_id == own("Mira")["input_ids"][-1]
    assert model.config.decoder_start_token_id == own.cls_token_id
    first = torch.tensor([[own.cls_token_id]])
    one, other = (model(**own(text, return_tensors="pt"), decoder_input_ids=first) for text in ("Mira", "Who?"))
    assert (one.logits - other.logits).abs().max() > 0.1, "what it says depends on what it reads"


@pytest.mark.parametrize(
    "text",
    [
        "Who is the sailmaker? Ada, who never hurries.",
        "Élégant, naïve Überstraße — “quoted” for 3.14€ (isn't it?)",
        "Łódź, Århus, Þingvellir; Ωmega, Привет",
        "".join(map(chr, range(33, 127))),
        "x = {a[i] ** 2 for i in range(10)} # 100%",
    ],
)
def test_any_european_text_is_encoded_without_unknown_tokens(tokenizer, text):
    assert tokenizer.unk_token_id not in tokenizer(text).input_ids


def test_every_word_of_the_samples_is_one_token(tokenizer, halves):
    for half in halves.values():
        words = {word for row in half for word in tokenizer.tokenize(row["context"] + " " + row["question"])}
        assert not [word for word in words if word.startswith("##")]


def test_spans_are_right_and_ids_unique(halves):
    """`load_squad` has checked every span; here, that the answer is one of the names and occurs once."""
    for half in halves.values():
        for row in half:
            assert row["context"].split().count(row["answers"]["text"][0]) <= 1
            assert len(row["answers"]["text"]) == 1
            assert role_and_name(row)[0] in row["question"]


def test_no_sentence_is_in_both_halves(halves):
    assert not sentences(halves["train"]) & sentences(halves["validation"])


def test_all_names_fill_all_roles_equally_often(halves):
    counts = {name: Counter(map(role_and_name, half)) for name, half in halves.items()}
    assert set(counts["train"]) == set(counts["validation"])
    roles, names = ({pair[place] for pair in counts["train"]} for place in (0, 1))
    for count in counts.values():
        assert len(count) == len(roles) * len(names)
        assert len(set(count.values())) == 1
