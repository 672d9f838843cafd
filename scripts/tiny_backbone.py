"""A tiny BERT and a tiny BART with random weights and a vocabulary for nearly all English text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    BertTokenizer,
    PreTrainedModel,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
COMMON_PIECES = Path(__file__).with_name("vocabulary.txt")
"""File with characters, suffixes (##...) and the most common English words, separated by white space."""
# The seed affects how soon the model learns to match equal words. This seed is the fastest of five in the demo.
SEED = 3


def write_tiny_backbones(output: Path, texts: Iterable[str]) -> None:
    """Write configuration, weights and tokenizer of both models. Each word of the texts becomes one token."""
    vocabulary = build_vocabulary(texts)
    for name, model in (("tiny-bert", build_encoder(vocabulary)), ("tiny-bart", build_encoder_decoder(vocabulary))):
        length = model.config.max_position_embeddings
        # BART has no segments.
        segments = [] if model.config.is_encoder_decoder else ["token_type_ids"]
        tokenizer = BertTokenizer(
            vocab=vocabulary,
            do_lower_case=True,
            model_max_length=length,
            model_input_names=["input_ids", *segments, "attention_mask"],
        )
        tokenizer.save_pretrained(output / name)
        model.save_pretrained(output / name)
        for path in (output / name).iterdir():
            path.chmod(0o644)  # safetensors writes files that only their owner can read


def build_vocabulary(texts: Iterable[str]) -> dict[str, int]:
    """Return the ids of tokens. Each character has two tokens ("a", "##a"), so unknown words can be spelled."""
    common = COMMON_PIECES.read_text(encoding="utf-8").split()
    continuations = [f"##{piece}" for piece in common if len(piece) == 1]
    words = sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *continuations, *common, *words])
    return {token: number for number, token in enumerate(tokens)}


def build_encoder(vocabulary: dict[str, int]) -> BertModel:
    """Build a BERT with two layers of width 64."""
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=512,
        # BERT's 0.02 is for a width of 768; in a width of 64 signals would vanish.
        initializer_range=0.1,
        # A model this small does not overfit.
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertModel(config, add_pooling_layer=False)
    draw_weights(model, config.initializer_range)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[config.pad_token_id] = 0.0
    return model


def build_encoder_decoder(vocabulary: dict[str, int]) -> BartForConditionalGeneration:
    """Build a BART with two encoder layers and one decoder layer of width 64. It reads [CLS] text [SEP]."""
    config = BartConfig(
        vocab_size=len(vocabulary),
        d_model=64,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=256,
        init_std=0.1,
        dropout=0.0,
        pad_token_id=vocabulary["[PAD]"],
        bos_token_id=vocabulary["[CLS]"],
        eos_token_id=vocabulary["[SEP]"],
        decoder_start_token_id=vocabulary["[CLS]"],
        forced_eos_token_id=vocabulary["[SEP]"],
    )
    model = BartForConditionalGeneration(config)
    draw_weights(model, config.init_std)
    return model


def draw_weights(model: PreTrainedModel, deviation: float) -> None:
    """Initialize weights from a normal distribution with a fixed seed."""
    # numpy guarantees the same numbers in all versions; torch does not.
    generator = np.random.RandomState(SEED)
    with torch.no_grad():
        # Word embeddings come last, so that all other weights do not depend on the vocabulary.
        for weight in reversed(list(model.parameters())):
            if weight.dim() == 2:  # biases stay 0, norms stay 1
                weight.copy_(torch.from_numpy(generator.normal(0.0, deviation, weight.shape)))
