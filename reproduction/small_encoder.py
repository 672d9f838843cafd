"""A BERT encoder whose vocabulary is cut to the pieces that English needs, for the model that the package ships."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertModel, PreTrainedTokenizerBase

from hf_localattn.files import atomic_directory

VOCABULARY = 19_500
"""Number of pieces that are kept, of 30,522. With their weights as 8-bit integers the model has 19 MB."""

_ENGLISH = re.compile(r"(?:##)?(?:[a-z]+|\d{1,2}|[ -~])")
_NEEDED = re.compile(
    r"\[(?:PAD|UNK|CLS|SEP|MASK)\]|##[a-z]+|(?:##)?(?:\d{1,2}|[ -~\u00a1-\u00ff\u2010-\u2026\u03b1-\u03c9])"
)
"""Special pieces, and the pieces that split every word and number: continuations, digits, single characters."""


def choose_pieces(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str], size: int = VOCABULARY) -> list[str]:
    """Return the pieces to keep, in the order of the vocabulary.

    Kept are the pieces of the texts, those that split any other English word, and then the most frequent English
    words: the vocabulary of BERT is sorted by frequency.
    """
    vocabulary = tokenizer.get_vocab()
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    kept = {piece for piece in ordered if _NEEDED.fullmatch(piece)}
    for text in texts:
        kept.update(tokenizer.tokenize(text))
    for piece in ordered:
        if len(kept) >= size:
            break
        if _ENGLISH.fullmatch(piece):
            kept.add(piece)
    return [piece for piece in ordered if piece in kept]


def cut_vocabulary(backbone: str, texts: Iterable[str], folder: Path, size: int = VOCABULARY) -> None:
    """Write a BERT encoder with fewer pieces and without its pooling layer, and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    vocabulary = tokenizer.get_vocab()
    pieces = choose_pieces(tokenizer, texts, size)
    model = BertModel.from_pretrained(backbone, add_pooling_layer=False, dtype=torch.float32)
    rows = torch.tensor([vocabulary[piece] for piece in pieces])
    weight = model.get_input_embeddings().weight.detach()[rows]
    pad = pieces.index(tokenizer.pad_token)
    model.set_input_embeddings(torch.nn.Embedding.from_pretrained(weight, freeze=False, padding_idx=pad))
    model.config.vocab_size = len(pieces)
    model.config.pad_token_id = pad
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    numbers = {piece: index for index, piece in enumerate(pieces)}
    content["model"]["vocab"] = numbers
    content |= {"truncation": None, "padding": None}
    for token in content["added_tokens"]:
        token["id"] = numbers[token["content"]]
    for token in content["post_processor"]["special_tokens"].values():
        token["ids"] = [numbers[name] for name in token["tokens"]]
    with atomic_directory(folder) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        Path(unfinished, "tokenizer.json").write_text(text, encoding="utf-8")
