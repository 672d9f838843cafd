"""A BERT small enough to ship: random weights, and a WordPiece vocabulary that leaves hardly any text unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertModel, BertTokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
COMMON_PIECES = Path(__file__).with_name("vocabulary.txt")
"""Characters, endings (##...) and the most common English words, separated by white space."""
MAX_LENGTH = 512
# How soon two equal words find each other depends on the draw: of five draws, this one lets the demo learn earliest.
SEED = 3


def write_tiny_backbone(folder: Path, texts: Iterable[str]) -> None:
    """Write configuration, weights and tokenizer; every word of the texts becomes one token."""
    vocabulary = build_vocabulary(texts)
    tokenizer = BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=MAX_LENGTH)
    tokenizer.save_pretrained(folder)
    build_model(len(vocabulary)).save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors writes files that only their owner may read


def build_vocabulary(texts: Iterable[str]) -> dict[str, int]:
    """Tokens and their numbers. A word can be spelt out, as every character may also continue one."""
    common = COMMON_PIECES.read_text(encoding="utf-8").split()
    continuations = [f"##{piece}" for piece in common if len(piece) == 1]
    words = sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *continuations, *common, *words])
    return {token: number for number, token in enumerate(tokens)}


def build_model(vocabulary_size: int) -> BertModel:
    """Two layers of width 64 with normally distributed weights."""
    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=MAX_LENGTH,
        # BERT's 0.02 fits its width of 768; in a width of 64 signals would die out.
        initializer_range=0.1,
        # A model that small learns too little as it is, never too much.
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    # numpy promises that these numbers stay the same for all time; torch does not.
    generator = np.random.RandomState(SEED)
    with torch.no_grad():
        # Word embeddings come last, so that another vocabulary leaves all other weights as they are.
        for weight in reversed(list(model.parameters())):
            if weight.dim() == 2:  # biases stay 0, norms stay 1
                weight.copy_(torch.from_numpy(generator.normal(0.0, config.initializer_range, weight.shape)))
        model.embeddings.word_embeddings.weight[config.pad_token_id] = 0.0
    return model
