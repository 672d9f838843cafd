"""Tokenizers, models and questions small enough for tests, made without any file."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    BertConfig,
    BertForQuestionAnswering,
    BertTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'-"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["the", "cat", "##s", "sat", "on", "mat", "who", "where", "red", "##ing", "dog"]


def word_pieces(padding_side: str = "right", cls_last: bool = False) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer that knows every text in ALPHABET; `cls_last` puts [CLS] where XLNet has it."""
    pieces = [*SPECIAL, *WORDS, *ALPHABET, *(f"##{letter}" for letter in ALPHABET)]
    tokenizer = BertTokenizer({piece: i for i, piece in enumerate(pieces)}, mask_token=None).backend_tokenizer
    if cls_last:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A [SEP] [CLS]",
            pair="$A [SEP] $B:1 [SEP]:1 [CLS]:1",
            special_tokens=[(token, pieces.index(token)) for token in ("[CLS]", "[SEP]")],
        )
    options = {"padding_side": padding_side, "model_max_length": 64}
    special = {f"{token[1:-1].lower()}_token": token for token in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options, **special)


def uncased(padding_side: str = "right") -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer of some words, which drops accents and invisible characters as BERT's uncased ones do."""
    words = ["cafe", "\u0915\u0938", "coop", "mira", "\u2764"]
    tokenizer = BertTokenizer({piece: i for i, piece in enumerate([*SPECIAL, *words])}, mask_token=None)
    tokenizer.padding_side = padding_side
    tokenizer.model_max_length = 64
    return tokenizer


def sentence_pieces() -> PreTrainedTokenizerFast:
    """A tokenizer of characters with "▁" for a blank, which drops what SentencePiece's normalization drops."""
    letters = sorted({*"cafeopmiraMqwhtsz?", "\u0915", "\u0938", "\u0948", "\u0947", "\u0301", "\u2764", "\u2581"})
    pieces = [(piece, 0.0) for piece in ("<pad>", "<cls>", "<sep>", "<unk>")] + [(letter, -1.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    dropped = [normalizers.Replace(character, "") for character in ("\ufeff", "\u00ad", "\u200b", "\u200d", "\ufe0f")]
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), *dropped])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <sep> <cls>", pair="$A <sep> $B:1 <sep>:1 <cls>:2", special_tokens=[("<sep>", 2), ("<cls>", 1)]
    )
    special = {f"{name}_token": f"<{name}>" for name in ("pad", "cls", "sep", "unk")}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side="left", **special)


def byte_pieces() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer: a character outside ASCII becomes several tokens with equal offsets."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate(["<pad>", "<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def tiny_bert(tokenizer: PreTrainedTokenizerFast) -> BertForQuestionAnswering:
    """A random BERT of few dimensions in evaluation mode."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokenizer), **sizes, max_position_embeddings=64, initializer_range=0.5)
    return BertForQuestionAnswering(config).eval()


def _halves(prefix: str) -> dict[str, int]:
    sizes = {f"{prefix}{{}}_layers": 2, f"{prefix}{{}}_attention_heads": 2, "{}_ffn_dim": 32}
    return {name.format(half): size for name, size in sizes.items() for half in ("encoder", "decoder")}


GENERATORS = {
    "bart": {"d_model": 16, "forced_eos_token_id": None, **_halves("")},
    "prophetnet": {"hidden_size": 16, **_halves("num_")},
}
"""Fields of encoder-decoders of few dimensions, by their `model_type`."""


def tiny_writer(kind: str, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A random "bart" or "prophetnet" that begins at [CLS] and ends at [SEP]."""
    torch.manual_seed(0)
    cls, sep, pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    special = {"pad_token_id": pad, "bos_token_id": cls, "decoder_start_token_id": cls, "eos_token_id": sep}
    common = {"vocab_size": len(tokenizer), "max_position_embeddings": 64, "init_std": 0.2}
    return AutoModelForSeq2SeqLM.from_config(
        AutoConfig.for_model(kind, **common, **special, **GENERATORS[kind])
    ).eval()


def question(number: int = 0, **changes: object) -> dict:
    """A SQuAD row whose answer is "on the mat"."""
    row = {"id": f"q{number}", "title": "cats", "context": "the cats sat on the mat. the dog sat."}
    row |= {"question": "where sat the cat?", "answers": {"text": ["on the mat"], "answer_start": [13]}}
    return {**row, **changes}


def unanswerable(number: int = 0) -> dict:
    """A SQuAD row without an answer."""
    return question(number, question="who red?", answers={"text": [], "answer_start": []})


def write_jsonl(path: Path, rows: list[dict]) -> Path:
    """Write one row a line and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
