"""SLA: a training step relative to the backbone, and tokenization with parsing relative to parsing alone."""

from __future__ import annotations

import json
import os
import random
from functools import partial

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from benchmarks.registry import Scale, Step, case, train_step
from hf_localattn import SlaBertConfig, SlaBertForSequenceClassification, SlaBertTokenizer
from hf_localattn.models import sla_parser
from hf_localattn.resources import reading_comprehension, tiny_backbone

TOKENS = 1024


def sentences(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Generate texts of 20-word sentences. A fifth of the words has two tokens. Heads are up to three words before."""
    rng = random.Random(0)
    rows = []
    for _ in range(batch):
        words: list[int] = [0]
        while len(words) < length - 2:
            words.extend([words[-1] + 1] * (2 if rng.random() < 0.2 else 1))
        words = words[: length - 2]
        first = {word: words.index(word) + 1 for word in set(words)}
        heads = {
            word: word if word % 20 == 0 else rng.randint(max(word - word % 20, word - 3), word - 1) for word in first
        }
        rows.append(([-1, *words, -1], [-1, *(first[heads[word]] for word in words), -1]))
    word_index, dep_heads = (torch.tensor([row[kind] for row in rows]) for kind in range(2))
    return {"word_index": word_index, "dep_heads": dep_heads}


def training_step(length: int, device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    kinds = ("syntax", "window", "sgnet", "lisa") if length == 128 else ("syntax", "window")
    batch = scale.limit(TOKENS // length)
    length = scale.limit(length)
    inputs = scale.padded_batch(batch, length, slice(length * 3 // 4, None))
    inputs["labels"] = torch.zeros(batch, dtype=torch.long)
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    structure = {name: tensor.to(device) for name, tensor in sentences(batch, length).items()}

    backbone = BertConfig(**scale.encoder)
    stock = BertForSequenceClassification(backbone)
    steps = {"backbone": partial(train_step, stock.train().to(device), inputs)}
    for kind in kinds:
        model = SlaBertForSequenceClassification(SlaBertConfig(backbone_config=backbone, local_attention=kind))
        steps[kind] = partial(train_step, model.train().to(device), inputs | structure)
    return steps


for length in (128, 512):
    case(
        f"sla-step-{length}",
        f"SLA on BERT-base, text classification, training step of {TOKENS} tokens at length {length}; peer: the "
        "bare backbone",
        time_targets={"syntax": 1.15, "window": 1.15},
        memory_targets={"syntax": 1.0, "window": 1.0} if length == 512 else None,
    )(partial(training_step, length))


@case(
    "sla-tokenizer",
    "SlaBertTokenizer with parsing and an empty cache; peer: `nlp.pipe` of the same spaCy pipeline",
    time_targets={"tokenizer": 1 / 0.85},
)
def tokenizing(device: torch.device, scale: Scale) -> dict[str, Step]:
    """Return the steps. The environment variable PARSER names the pipeline."""
    parser = os.environ.get("PARSER", "en_core_web_sm")
    articles = json.loads(reading_comprehension()["train"].read_text())["data"]
    contexts = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    texts = list(dict.fromkeys(contexts))[: scale.limit(1000)]
    pipeline = sla_parser.load_pipeline(parser)
    tokenizer = SlaBertTokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()), parser=parser)

    def parse() -> None:
        for _ in pipeline.pipe(texts):
            pass

    def tokenize() -> None:
        sla_parser._cache.clear()
        tokenizer(texts, truncation=True, max_length=128)

    return {"nlp.pipe": parse, "tokenizer": tokenize}
