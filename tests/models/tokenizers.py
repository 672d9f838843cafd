"""Tokenizers of three kinds to put the families' tokenizers on, and what rows of encoded texts have."""

import json
from functools import cache

import torch
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer
from transformers import AutoTokenizer, RobertaTokenizer, XLNetTokenizer

from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.parsers import tiny_parser
from tests.tiny_parser import SENTENCES

TEXT = [
    *(" ".join(words.split()) for words, _ in SENTENCES["en"]),
    *("I do not know.", "Neither a saint nor a sinner, it is infrequent", "Nobody knows why it never rains here .")
    * 3,
]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
FAMILIES_WITH_TOKENIZERS = [name for name, family in FAMILIES.items() if family.tokenizer is not None]


@cache
def roberta_of(**options):
    """A byte-level tokenizer."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(TEXT, vocab_size=320, special_tokens=SPECIAL, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    return RobertaTokenizer(model["vocab"], merges, model_max_length=64, **options)


def _unigram():
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    trained = SentencePieceUnigramTokenizer()
    trained.train_from_iterator(TEXT, vocab_size=90, special_tokens=special, unk_token="<unk>", show_progress=False)
    pieces = json.loads(trained.to_str())["model"]["vocab"]
    return XLNetTokenizer([tuple(piece) for piece in pieces], model_max_length=64)


KINDS = {
    "wordpiece": lambda: AutoTokenizer.from_pretrained(tiny_backbone()),
    # Adds a space before texts and words, as stock scripts set it for words that are split.
    "bytes": lambda: roberta_of(add_prefix_space=True),
    "unigram": _unigram,  # pads on the left
}
backbone_of = cache(lambda kind: KINDS[kind]())


def settings_of(name, **settings):
    """Settings of a family's tokenizer in tests."""
    parser = {"parser": tiny_parser()} if "parser" in FAMILIES[name].tokenizer.SETTINGS else {}
    return {**parser, **settings}


def wrap(name, backbone, **settings):
    """Return a family's tokenizer on a backbone's, or on one of `KINDS`."""
    backbone = backbone_of(backbone) if isinstance(backbone, str) else backbone
    return FAMILIES[name].tokenizer.from_backbone(backbone, **settings_of(name, **settings))


def rows(encoded, key="input_ids"):
    """The rows of a column as lists, also those of a single text or of tensors."""
    values = encoded[key].tolist() if torch.is_tensor(encoded[key]) else encoded[key]
    return values if values and isinstance(values[0], list) else [values]
