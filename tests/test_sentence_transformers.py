"""sentence-transformers on top of every family: its collation, its declared width, training and reloading."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer

from hf_localattn.hub import init_checkpoint
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_parser

library = pytest.importorskip("sentence_transformers", reason="not among the packages of the tests")

TEXTS = [
    "The baker is Mira.",
    "I do [CUE] not know the small dog.",
    "A longer sentence about a cat, a dog and a town.",
]
FIELDS = {"sam-roberta": {"tam_max_length": 32}}


@pytest.fixture(params=FAMILIES)
def folder(request, tmp_path):
    init_checkpoint(request.param, "tiny", tmp_path / request.param, **FIELDS.get(request.param, {}))
    return tmp_path / request.param


def settings(folder):
    return {"parser": str(tiny_parser())} if folder.name == "sla-bert" else {}


def test_bi_encoders(folder, tmp_path):
    parsing = {"processor_kwargs": settings(folder)} if settings(folder) else {}
    encoder = library.SentenceTransformer(str(folder), device="cpu", **parsing)
    transformer, pooling = encoder[0], encoder[1]
    width = transformer.get_embedding_dimension()
    dense = library.sentence_transformer.modules.Dense(width, 8)
    encoder = library.SentenceTransformer(modules=[transformer, pooling, dense], device="cpu")
    inputs = AutoTokenizer.from_pretrained(folder, **settings(folder))(TEXTS, padding=True, return_tensors="pt")
    states = AutoModel.from_pretrained(folder)(**inputs).last_hidden_state
    collated = encoder.preprocess(TEXTS)
    assert set(inputs) <= set(collated)
    assert states.shape[-1] == width
    torch.testing.assert_close(transformer(collated)["token_embeddings"], states)
    loss = library.sentence_transformer.losses.MultipleNegativesRankingLoss(encoder)
    arguments = library.SentenceTransformerTrainingArguments(
        str(tmp_path / "out"), max_steps=2, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True
    )
    rows = Dataset.from_dict({"anchor": TEXTS, "positive": TEXTS[::-1]})
    library.SentenceTransformerTrainer(encoder, arguments, train_dataset=rows, loss=loss).train()
    encoder.save(str(tmp_path / "saved"))
    again = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu", **parsing)
    assert abs(again.encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-6


def test_cross_encoders(folder):
    parsing = {"processor_kwargs": settings(folder)} if settings(folder) else {}
    encoder = library.CrossEncoder(str(folder), num_labels=1, device="cpu", **parsing)
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    tokenizer = AutoTokenizer.from_pretrained(folder, **settings(folder))
    inputs = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = encoder.model(**inputs).logits[:, 0].sigmoid()
    torch.testing.assert_close(torch.tensor(encoder.predict(pairs)), expected)


def test_without_a_parser(tmp_path):
    init_checkpoint("sla-bert", "tiny", tmp_path / "sla")
    encoder = library.SentenceTransformer(
        str(tmp_path / "sla"),
        device="cpu",
        config_kwargs={"local_attention": "window"},
        processor_kwargs={"parser": None},
    )
    assert encoder.encode(TEXTS).shape == (3, 64)
