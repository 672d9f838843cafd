"""What ships in the wheel: tiny backbones that read any European text, and a fair question-answering set."""

from collections import Counter

import pytest
import spacy
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_localattn.data import load_squad
from hf_localattn.resources import reading_comprehension, tiny_backbone, tiny_parser
from hf_localattn.resources.english import is_english
from tests.tiny_parser import SENTENCES


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(tiny_backbone())


def test_the_parser_knows_its_sentences():
    parse = spacy.load(tiny_parser())
    for words, heads in SENTENCES:
        assert [token.head.i for token in parse(words)] == heads


def test_the_backbones_share_a_vocabulary_and_what_they_say_depends_on_what_they_read(tokenizer):
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_backbone(generates=True))
    own, config = AutoTokenizer.from_pretrained(tiny_backbone(generates=True)), model.config
    assert own.get_vocab() == tokenizer.get_vocab()
    assert (config.decoder_start_token_id, config.eos_token_id) == (own.cls_token_id, own.sep_token_id)
    first = torch.tensor([[own.cls_token_id]])
    one, other = (model(**own(text, return_tensors="pt"), decoder_input_ids=first) for text in ("Mira", "Who?"))
    assert (one.logits - other.logits).abs().max() > 0.1


@pytest.mark.parametrize(
    "text",
    [
        "Who is the sailmaker? Ada, who never hurries.",
        "Élégant, naïve Überstraße — “quoted” for 3.14€ (isn't it?)",
        "Łódź, Århus, Þingvellir; Ωmega, Привет",
        "".join(map(chr, range(33, 127))),
    ],
)
def test_any_european_text_is_encoded_without_unknown_tokens(tokenizer, text):
    assert tokenizer.unk_token_id not in tokenizer(text).input_ids


def test_the_questions_are_fair(tokenizer):
    """Names have roles equally often, no sentence is in both halves, and each word is one token."""
    halves = [load_squad(path) for path in reading_comprehension().values()]
    one, other = ({part.rstrip(".") for text in half["context"] for part in text.split(". ")} for half in halves)
    assert not one & other
    for half in halves:
        counts = Counter((row["id"].split("-")[-1], *row["answers"]["text"]) for row in half)
        roles, names = map(set, zip(*counts, strict=True))
        assert (len(counts), len({*counts.values()})) == (len(roles) * len(names), 1)
        for row in half:
            assert row["context"].split().count(row["answers"]["text"][0]) <= 1
            assert row["id"].split("-")[-1] in row["question"]
            assert not [word for word in tokenizer.tokenize(row["context"] + row["question"]) if word[:2] == "##"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Fever: Y[ ] N[x]. Cough: Y[x] N[ ]. Rash: Y[ ]", True), ("Er hat kein Fieber und keine Kopfschmerzen", False)],
)
def test_texts_of_another_language(text, expected):
    assert is_english(text) == expected
