"""The English model of negation that comes with the package.

Its weights are 8-bit integers with a scale for each row, in one file. PyTorch reads them as 32-bit floats, and the
ONNX graph beside the file refers to them. `python -m reproduction negation` makes the folder.
"""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer, PreTrainedTokenizerBase

from hf_localattn.installed.exported import OnnxModel
from hf_localattn.resources import NEGATION

WEIGHTS = "weights.safetensors"
SCALE = ".scale"
"""Suffix of the names of scales."""


def negation_model(*, onnx: bool = False, session_options: Any = None) -> tuple[Any, PreTrainedTokenizerBase]:
    """Load the model of negation and its tokenizer, without a network.

    Args:
        onnx (*optional*, defaults to False): If True, ONNX Runtime computes the model, with products of 8-bit
            integers. Then it is faster and cannot be trained.
        session_options (*optional*): `onnxruntime.SessionOptions`, such as the number of threads.

    Returns:
        The model in evaluation mode, on the CPU, and the tokenizer. `save_pretrained` of both writes a checkpoint,
        from which a training can start.

    Raises:
        ImportError: `onnx` is True, and onnxruntime is not installed.

    Example:
        >>> from transformers import pipeline
        >>> from hf_localattn.bundled import negation_model
        >>> model, tokenizer = negation_model()
        >>> finder = pipeline("negation", model=model, tokenizer=tokenizer)
        >>> [span["text"] for span in finder("No fever, chills, or cough.")[0]["scope"]]
        ['fever, chills, or cough']
    """
    tokenizer = AutoTokenizer.from_pretrained(NEGATION)
    if onnx:
        graph = OnnxModel.from_pretrained(NEGATION, session_options=session_options)
        graph.reads_rows_alone = True
        return graph, tokenizer
    model = AutoModelForTokenClassification.from_config(AutoConfig.from_pretrained(NEGATION))
    model.load_state_dict(join_scales(load_file(NEGATION / WEIGHTS)))
    return model.eval(), tokenizer


def split_scales(weights: dict[str, torch.Tensor], bits: dict[str, int]) -> dict[str, torch.Tensor]:
    """Return weights with those named in `bits` as integers of that many bits (at most 8), and their scales.

    A scale is the largest absolute value of a row, as a share of the largest integer.
    """
    split = {}
    for name, weight in weights.items():
        split[name] = weight.contiguous()
        if name in bits:
            largest = 2 ** (bits[name] - 1) - 1
            scale = weight.abs().amax(dim=1).clamp(min=1e-12) / largest
            split[name] = (weight / scale[:, None]).round().to(torch.int8)
            split[name + SCALE] = scale
    return split


def join_scales(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of `split_scales` as 32-bit floats."""
    joined = {}
    for name, weight in weights.items():
        if name + SCALE in weights:
            joined[name] = weight.float() * weights[name + SCALE][:, None]
        elif not name.endswith(SCALE):
            joined[name] = weight
    return joined
