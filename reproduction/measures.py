"""Measures that need no training: sizes and inference times of models, and lengths of texts."""

from __future__ import annotations

import statistics
import timeit
from typing import Any

import torch

from hf_localattn.families import family_of
from hf_localattn.studies.script_command import ScriptCommand
from hf_localattn.training.models import load_model_and_tokenizer
from hf_localattn.training.prepare import prepare

BATCH_SIZES = (1, 8, 32)
REPEATS = 5


def size(command: ScriptCommand) -> dict[str, float]:
    """Return the number of parameters of a token classification model."""
    model, _ = _model_of(command)
    return {"parameters": float(model.num_parameters())}


def profile(command: ScriptCommand) -> dict[str, float]:
    """Return the number of parameters of a token classification model, and its inference time for each batch size.

    Each text consists of `max_seq_length` random tokens with one query token. The time is the minimum of several runs.
    """
    args = command.training_args
    model, _ = _model_of(command)
    model.eval().to(args.device)
    family = family_of(model.config)
    query = None if family is None else family.query
    metrics = {"parameters": float(model.num_parameters())}
    length = command.data_args.max_seq_length
    length = min(length, getattr(model.config, "max_position_embeddings", None) or length)
    for size in BATCH_SIZES:
        ids = torch.randint(5, model.config.vocab_size, (size, length), device=args.device)
        inputs = {"input_ids": ids}
        if query is not None and query in model.config.required_inputs:
            inputs[query] = torch.zeros_like(ids)
            inputs[query][:, length // 2] = 1

        @torch.no_grad()
        def forward(inputs: dict[str, torch.Tensor] = inputs) -> None:
            model(**inputs)
            if torch.cuda.is_available():
                torch.cuda.synchronize()

        metrics[f"inference_seconds_batch_{size}"] = min(timeit.repeat(forward, number=1, repeat=REPEATS))
    return metrics


def _model_of(command: ScriptCommand) -> Any:
    """Return a token classification model with two labels, and its tokenizer."""
    return load_model_and_tokenizer("token-classification", command.model_args, command.training_args, num_labels=2)


def text_statistics(command: ScriptCommand) -> dict[str, float]:
    """Return the number of texts of each split, and their maximum, mean and minimum length in tokens.

    Special tokens are not counted. Texts are truncated to `max_seq_length` tokens.
    """
    evaluation = prepare(command.task, command.model_args, command.data_args, command.training_args).evaluation
    special = evaluation.encoding.tokenizer.num_special_tokens_to_add()
    metrics: dict[str, float] = {}
    for name, split in evaluation.splits.items():
        lengths = [len(ids) - special for ids in split.features["input_ids"]]
        metrics[f"{name}_rows"] = float(len(lengths))
        metrics[f"{name}_max"] = float(max(lengths))
        metrics[f"{name}_mean"] = statistics.fmean(lengths)
        metrics[f"{name}_min"] = float(min(lengths))
    return metrics


MEASURES = {"size": ("ner", size), "profile": ("ner", profile), "statistics": ("glue", text_statistics)}
"""Measures by name in a table, each with the script whose options it has."""

UNREAD = ("size", "profile")
"""Measures that read no data."""
