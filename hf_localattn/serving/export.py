"""`hf-localattn export`: a checkpoint as an ONNX graph, with its tokenizer and a program that runs both."""

from __future__ import annotations

import io
import itertools
import json
import logging
import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.extras import require
from hf_localattn.families import Family, get_family, task_of_class
from hf_localattn.graphs import EXPORT_SETTINGS, GRAPH, Graph
from hf_localattn.hub.checkpoint import new_folder
from hf_localattn.installed.exported import OnnxModel
from hf_localattn.installed.policy import check_folder
from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.models.pipeline_question_answering import question_is_first
from hf_localattn.names import read_family_config
from hf_localattn.pretrained import load_checkpoint, missing_inputs

logger = logging.getLogger(__name__)

QUANTIZATIONS = ("int8", "int8-weights")
BLOCK = 64  # number of weights that share a scale
CHOICES = "multiple-choice"
ARGUMENTS = {"question-answering": "QUESTION CONTEXT", CHOICES: "PROMPT CHOICE CHOICE"}  # of `infer.py`
EXAMPLE = (2, 11)  # batch size and length of the example that is traced
CHECKS = ((1, 6), (3, 9))  # batch sizes and lengths at which the graph is compared with the model
TOLERANCE = 1e-3  # largest difference between the graph and the model, as a share of the largest output
PROGRAM = "infer.py"


def export_checkpoint(
    checkpoint: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    quantize: str | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Write a folder with the ONNX graph of a checkpoint, its tokenizer, and `infer.py`, which needs no torch model.

    The graph takes any batch size and length. Its outputs are compared with the model's at two other batch sizes and
    lengths, with padding on either side, before the folder is written.

    Args:
        checkpoint: Folder of a saved model of a family.
        output_dir: Folder to write. It must be empty or not exist.
        quantize (*optional*): "int8" for products of 8-bit integers, with a scale for each output feature of a weight.
            "int8-weights" for 8-bit weights, of which each `BLOCK` has a scale, in products of 32-bit floats. Defaults
            to 32-bit floats. A log message says by how much it changes the outputs for random tokens.
        settings (*optional*): Settings of the tokenizer.

    Returns:
        The folder.

    Raises:
        FileExistsError: The output folder is not empty.
        FileNotFoundError: There is no checkpoint.
        ImportError: onnx, onnxscript or onnxruntime is not installed.
        ValueError: `quantize` is unknown, the output folder is a file, the model cannot be exported, or the graph's
            outputs differ.
    """
    if quantize is not None and quantize not in QUANTIZATIONS:
        raise ValueError(f"`quantize` is {quantize!r}; choose one of {', '.join(map(repr, QUANTIZATIONS))}.")
    require("onnx", "An ONNX graph")
    model, tokenizer, family = _load(checkpoint, settings)
    with (
        new_folder(output_dir) as folder,
        tempfile.TemporaryDirectory() as scratch,
        tqdm(bar_format="{desc} ({elapsed})") as progress,
    ):
        progress.set_description_str("Tracing the model")
        _write_program(model, tokenizer, family, folder)
        path = Path(folder if quantize is None else scratch, GRAPH)
        _write_graph(model, family, path)
        progress.set_description_str("Comparing the graph with the model")
        if not (difference := _largest_difference(model, family, path)) <= TOLERANCE:  # NaN, too
            raise ValueError(
                f"The outputs of the graph differ from the model's by {difference:.2g} of the largest output. Set"
                " `attn_implementation='eager'` in config.json, or use another backbone."
            )
        if quantize is not None:
            progress.set_description_str("Quantizing the graph")
            quantize_graph(path, folder / GRAPH, quantize)
            difference = _largest_difference(model, family, folder / GRAPH)
            logger.info("After `%s`, outputs differ by up to %.2g of the largest.", quantize, difference)
        progress.set_description_str("Exported")
    return Path(output_dir)


def _load(
    checkpoint: str | os.PathLike[str], settings: Mapping[str, Any]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, Family]:
    """Load the model with the head that the checkpoint was saved with, its tokenizer, and its family."""
    content = read_family_config(checkpoint)
    check_folder(checkpoint)
    family = get_family(content["model_type"])
    architecture = next(iter(content.get("architectures") or ()), "")
    if task_of_class(architecture) == "text2text-generation":
        raise ValueError(f"{architecture} generates text step by step, which is no single graph.")
    model, tokenizer = load_checkpoint(checkpoint, settings=settings)
    if missing := missing_inputs(tokenizer, model.config):
        raise ValueError(f"The tokenizer does not return {missing}: set its `parser`, with `--config parser=NAME`.")
    tokenizer.model_max_length = longest_input(model, tokenizer) or tokenizer.model_max_length
    return model, tokenizer, family


def _inputs(model: PreTrainedModel, family: Family, batch: int, length: int, *, left: bool = False) -> dict[str, Any]:
    """Return random inputs in which every row but the first has padding, on the left or on the right."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(batch, length, dtype=torch.long)
    pads = slice(0, 2) if left else slice(length - 2, length)
    mask[1 if batch > 1 else 0 :, pads] = 0
    ids = torch.randint(model.config.vocab_size, (batch, length), generator=generator)
    inputs = {"input_ids": ids.masked_fill(mask == 0, model.config.pad_token_id or 0), "attention_mask": mask}
    for name, value in family.sample_inputs(mask).items():
        if name in model.config.required_inputs:
            inputs[name] = value
    has_segments = getattr(model.config.backbone_config, "type_vocab_size", 2) > 1
    if has_segments and model.base_model.takes_token_type_ids:
        is_second = torch.arange(length) >= length // 2
        inputs["token_type_ids"] = is_second.long().expand(batch, length) * mask
    if task_of_class(type(model).__name__) == CHOICES:  # rows with the same number of choices
        return {name: value.repeat_interleave(2, 0).view(batch, 2, length) for name, value in inputs.items()}
    return inputs


def _write_graph(model: PreTrainedModel, family: Family, path: Path) -> None:
    """Trace a model and write its graph."""
    import onnx
    from onnxscript import ir
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    example = _inputs(model, family, *EXAMPLE)
    any_size = torch.export.Dim.DYNAMIC
    shapes = {name: dict.fromkeys(range(value.dim()), any_size) for name, value in example.items()}
    try:
        with _quiet_libraries():
            exported = OnnxExporter().export(model, example, OnnxConfig(dynamic_shapes=shapes))
    except Exception as error:  # torch and onnxscript raise anything
        raise ValueError(
            f"{type(model).__name__} cannot be exported with any batch size and length on the backbone"
            f" {model.config.backbone_config.model_type!r}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        ) from error
    proto = ir.to_proto(exported.program)
    # Sizes of the example are left there, which ONNX's shape inference refuses, and with it the quantization.
    del proto.graph.value_info[:]
    for function in proto.functions:
        del function.value_info[:]
    is_large = sum(parameter.numel() for parameter in model.parameters()) > 2**28
    onnx.save_model(proto, str(path), save_as_external_data=is_large, location=f"{GRAPH}.data")


def quantize_graph(whole: Path, path: Path, quantize: str) -> None:
    """Write a graph anew, with its weights as 8-bit integers, as `export_checkpoint` describes."""
    with _quiet_libraries():
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        # Seven bits: processors without VNNI add products of full 8-bit integers in 16 bits, which overflow.
        settings = {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True}
        if quantize == "int8":
            quantize_dynamic(whole, path, **settings)
            return
        quantizer = MatMulNBitsQuantizer(onnx.load(whole), bits=8, block_size=BLOCK, is_symmetric=True)
        quantizer.process()
        settings |= {"op_types_to_quantize": ["Gather"], "reduce_range": False}  # the embeddings
        quantize_dynamic(quantizer.model.model, path, **settings)


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Drop what torch and onnxruntime print, warn and log, and a configuration of the root logger."""
    handlers = [*logging.root.handlers]
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.root.handlers[:] = handlers
        logging.disable(level)


@torch.no_grad()
def _largest_difference(model: PreTrainedModel, family: Family, path: Path) -> float:
    """Return the largest difference between a graph and its model at real tokens, as a share of the largest output."""
    graph = OnnxModel(Graph(path.parent), model.config)
    differences = []
    for (batch, length), left in itertools.product(CHECKS, (False, True)):
        inputs = _inputs(model, family, batch, length, left=left)
        expected = model(**inputs)
        for name, value in graph.run(inputs).items():
            wanted = expected.get(name)
            if wanted is None or not wanted.is_floating_point():
                continue
            if wanted.shape != value.shape:  # a size of the example is fixed
                return math.inf
            if wanted.shape[:2] == (batch, length):
                real = inputs["attention_mask"].bool()
                wanted = wanted[real]
                value = value[real]
            differences.append((wanted - value).abs().max() / wanted.abs().max().clamp(min=1e-6))
    return float(torch.stack(differences).max())  # NaN if one is


def _write_program(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, family: Family, folder: Path) -> None:
    """Write tokenizer and configuration, and `infer.py` with the settings that it reads in `export.json`."""
    task = task_of_class(type(model).__name__)
    tokenizer.save_pretrained(folder)
    config = model.config.to_dict()
    for name in ("_name_or_path", "auto_map"):  # folder and code of the checkpoint
        config.pop(name, None)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    settings = {
        "model_type": family.name,
        "task": task,
        "labels": [model.config.id2label[label] for label in range(model.config.num_labels)],
        "problem_type": model.config.problem_type,
        "max_length": longest_input(model, tokenizer),
        "mask_token": tokenizer.mask_token,
        "question_is_first": question_is_first(tokenizer),
        "has_segments": "token_type_ids" in tokenizer.model_input_names,
        "no_answer_tokens": [tokenizer.cls_token_id, tokenizer.bos_token_id],
        # The family's tokenizer is code in this folder.
        "trust_remote_code": family.tokenizer is not None,
    }
    if family.tokenizer is None and (folder / "tokenizer.json").is_file():
        settings["padding"] = {
            "pad_id": tokenizer.pad_token_id,
            "pad_token": tokenizer.pad_token,
            "pad_type_id": tokenizer.pad_token_type_id,
            "direction": tokenizer.padding_side,
        }
    (folder / EXPORT_SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    program = files("hf_localattn.serving").joinpath("templates", PROGRAM).read_text(encoding="utf-8")
    (folder / PROGRAM).write_text(program, encoding="utf-8")
