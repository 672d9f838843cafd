"""Random encoder-decoders of few dimensions for the tokenizer of tests/qa_helpers.py."""

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProphetNetConfig,
    ProphetNetForConditionalGeneration,
)


def tiny_writer(kind: str, tokenizer: PreTrainedTokenizerBase, **fields: object) -> PreTrainedModel:
    """A "bart" or "prophetnet" that begins at [CLS] and ends at [SEP]."""
    torch.manual_seed(0)
    config_class, model_class, sizes = {
        "bart": (
            BartConfig,
            BartForConditionalGeneration,
            {
                "d_model": 16,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "encoder_attention_heads": 2,
                "decoder_attention_heads": 2,
                "encoder_ffn_dim": 32,
                "decoder_ffn_dim": 32,
                "forced_eos_token_id": None,
            },
        ),
        "prophetnet": (
            ProphetNetConfig,
            ProphetNetForConditionalGeneration,
            {
                "hidden_size": 16,
                "num_encoder_layers": 1,
                "num_decoder_layers": 1,
                "num_encoder_attention_heads": 2,
                "num_decoder_attention_heads": 2,
                "encoder_ffn_dim": 32,
                "decoder_ffn_dim": 32,
            },
        ),
    }[kind]
    special = {
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "decoder_start_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }
    common = {"vocab_size": len(tokenizer), "max_position_embeddings": 64, "init_std": 0.2}
    return model_class(config_class(**{**common, **sizes, **special, **fields})).eval()
