"""Measures that need no training: sizes and inference times of models, and lengths of texts."""

from __future__ import annotations

import statistics
import timeit

import torch

from hf_localattn.registry import family_of
from hf_localattn.studies.study import Study
from hf_localattn.training.models import load_model_and_tokenizer

BATCH_SIZES = (1, 8, 32)
REPEATS = 5


def profile(study: Study) -> dict[str, float]:
    """Return the number of parameters of a token classification model, and its inference time for each batch size.

    Each text consists of `max_seq_length` random tokens with one query token. The time is the minimum of several runs.
    """
    device, length = study.training_args.device, study.data_args.max_seq_length
    model, _ = load_model_and_tokenizer("token-classification", study.model_args, study.training_args, num_labels=2)
    model.eval().to(device)
    family = family_of(model.config)
    metrics = {"parameters": float(sum(parameter.numel() for parameter in model.parameters()))}
    length = min(length, getattr(model.config, "max_position_embeddings", None) or length)
    for size in BATCH_SIZES:
        inputs = {"input_ids": torch.randint(5, model.config.vocab_size, (size, length), device=device)}
        if family is not None and family.query is not None and family.query in model.config.required_inputs:
            inputs[family.query] = torch.zeros_like(inputs["input_ids"])
            inputs[family.query][:, length // 2] = 1

        @torch.no_grad()
        def forward(inputs: dict[str, torch.Tensor] = inputs) -> None:
            model(**inputs)
            if torch.cuda.is_available():
                torch.cuda.synchronize()

        metrics[f"inference_seconds_batch_{size}"] = min(timeit.repeat(forward, number=1, repeat=REPEATS))
    return metrics


def text_statistics(study: Study) -> dict[str, float]:
    """Return the number of texts of each split, and their maximum, mean and minimum length in tokens.

    Special tokens are not counted. Texts are truncated to `max_seq_length` tokens.
    """
    prepared = study.prepare()
    special = prepared.trainer.processing_class.num_special_tokens_to_add()
    metrics: dict[str, float] = {}
    for split, features in prepared.features.items():
        lengths = [len(ids) - special for ids in features["input_ids"]]
        own = {"rows": len(lengths), "max": max(lengths), "mean": statistics.fmean(lengths), "min": min(lengths)}
        metrics |= {f"{split}_{name}": float(value) for name, value in own.items()}
    return metrics


MEASURES = {"profile": ("ner", profile), "statistics": ("glue", text_statistics)}
"""Measures by name in a table, each with the script whose options it has."""
