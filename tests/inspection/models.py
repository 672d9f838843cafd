"""Tiny models of the families, with a tokenizer that knows every text in small letters."""

from functools import cache

import torch
from transformers import BertConfig, BertModel

from hf_localattn.registry import FAMILIES
from tests.models.tiny import tiny_model
from tests.qa_helpers import word_pieces

TEXT = "the cats sat on the red mat."


@cache
def loaded(name, task="headless", padding_side="right", cls_last=False, backbone=None, **fields):
    """A model that keeps its attention, in evaluation mode, and its tokenizer. Shared: leave both as they are."""
    tokenizer = word_pieces(padding_side, cls_last)
    if name == "stock":
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=3,
            num_attention_heads=2,
            intermediate_size=16,
            initializer_range=0.5,
            max_position_embeddings=40,
        )
        return BertModel._from_config(config, attn_implementation="eager").eval(), tokenizer
    model = tiny_model(name, task, backbone, **fields)
    tokenizer = FAMILIES[name].adapt_tokenizer(tokenizer, model)
    model.resize_token_embeddings(len(tokenizer))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform
            parameter.mul_(4)
    return model.eval(), tokenizer


def output_of(model, tokenizer, *texts, **settings):
    """What the model itself says of one text, or of one pair."""
    with torch.no_grad():
        return model.base_model(**tokenizer(*texts, return_tensors="pt", **settings), output_attentions=True)
