"""The folder of the model that the package ships: 8-bit weights in one file, and a graph that refers to this file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoModelForTokenClassification, AutoTokenizer, PreTrainedTokenizerFast

from hf_localattn.bundled import SCALE, WEIGHTS, join_scales, split_scales
from hf_localattn.graphs import EXPORT_SETTINGS, GRAPH
from hf_localattn.models.negation_conventions import CONVENTIONS
from hf_localattn.serving.export import export_checkpoint

LINEAR_BITS = 7
"""Processors without VNNI add products of full 8-bit integers in 16 bits, which overflow."""

EMBEDDING_BITS = 8

CARD = Path(__file__).with_name("shipped_model.md")
"""Text of the model card, with places for scores."""

NOTICE = """\
The weights in this folder are derived from all-MiniLM-L6-v2
(https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2), which is under the Apache License 2.0. They were
changed: the vocabulary was cut, and the model was trained on

- the training data of the *SEM 2012 Shared Task (Morante and Blanco 2012): stories by Arthur Conan Doyle, which are
  in the public domain, with annotations of negation;
- the full papers of the BioScope corpus (Vincze et al. 2008), which is under the Creative Commons Attribution 2.0
  license (https://creativecommons.org/licenses/by/2.0/);
- sentences written for hf_localattn (`sample:negation/written.yaml`).

No text of these corpora is in this folder.
"""


def write_shipped_model(checkpoint: Path, folder: Path) -> None:
    """Write the folder, except for its card, from a checkpoint of OA without local layers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "NOTICE").write_text(NOTICE, encoding="utf-8")
    model = AutoModelForTokenClassification.from_pretrained(checkpoint, dtype=torch.float32)
    tables = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    bits = {
        name: EMBEDDING_BITS if id(weight) in tables else LINEAR_BITS
        for name, weight in model.named_parameters()
        if weight.dim() == 2
    }
    weights = split_scales(model.state_dict(), bits)
    save_file(weights, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)
    _write_tokenizer(checkpoint, folder)
    model.load_state_dict(join_scales(weights))
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch, "checkpoint")
        exported = Path(scratch, "exported")
        model.save_pretrained(whole)
        AutoTokenizer.from_pretrained(checkpoint).save_pretrained(whole)
        export_checkpoint(whole, exported)
        for name in ("config.json", EXPORT_SETTINGS):
            content = json.loads((exported / name).read_text(encoding="utf-8"))
            content.pop("custom_pipelines", None)
            if name == EXPORT_SETTINGS:
                content["trust_remote_code"] = False
            (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        graph = onnx.load(exported / GRAPH)
    refer_to_weights(graph, folder / WEIGHTS)
    (folder / GRAPH).write_bytes(graph.SerializeToString(deterministic=True))
    onnx.checker.check_model(folder / GRAPH)


def write_shipped_card(scores: Mapping[str, Any], folder: Path) -> None:
    """Write the model card of the folder, with scores of the sets and of the sentences that mislead rules."""
    rows = []
    for name, values in scores.items():
        if name != "traps":
            cells = [f"{100 * values[score]:.1f}" for score in ("cue_f1", "f1", "end_to_end_f1")]
            rows.append(f"| {name} | {' | '.join(cells)} |")
    accuracies = {convention: result["all"]["accuracy"] for convention, result in scores["traps"].items()}
    low, high = accuracies[CONVENTIONS[0]]["interval"]
    text = CARD.read_text(encoding="utf-8").format(
        rows="\n".join(rows),
        low=low,
        high=high,
        **{convention: accuracy["value"] for convention, accuracy in accuracies.items()},
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _write_tokenizer(checkpoint: Path, folder: Path) -> None:
    """Write the tokenizer without the inputs of local layers, which the model does not have."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    names = ("unk_token", "cls_token", "sep_token", "pad_token", "mask_token")
    plain = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer.backend_tokenizer.to_str()),
        model_max_length=tokenizer.model_max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        extra_special_tokens=tokenizer.extra_special_tokens,
        **{name: getattr(tokenizer, name) for name in names},
    )
    plain.save_pretrained(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def refer_to_weights(graph: onnx.ModelProto, path: Path) -> None:
    """Replace the weights of an exported graph by references to their integers and scales in a file.

    A product with a weight becomes one of 8-bit integers. A row of a table of embeddings is multiplied with its scale.
    """
    nodes = list(graph.graph.node)
    constants = {constant.name: constant for constant in graph.graph.initializer}
    users = {name: node for node in nodes for name in node.input}
    external = dict(_external_tensors(path))
    with safe_open(path, "numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (a file is no mapping)
    replaced: dict[str, str] = {}
    for name, array in arrays.items():
        if name + SCALE not in arrays:
            if name in constants:
                replaced[name] = name
            continue
        weight = array.astype(np.float32) * arrays[name + SCALE][:, None]
        matches = [
            constant.name
            for constant in constants.values()
            if constant.name not in replaced and _is_weight(constant, name, weight)
        ]
        if len(matches) != 1:
            raise ValueError(f"{path}: {len(matches)} constants of the graph equal {name}; there must be one.")
        replaced[matches[0]] = name
        user = users[matches[0]]
        new = _rows(user, name) if user.op_type == "Gather" else _product(user, name)
        position = nodes.index(user)
        nodes[position : position + 1] = new
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    kept = [constant for constant in constants.values() if constant.name not in replaced]
    del graph.graph.initializer[:]
    graph.graph.initializer.extend(kept)
    needed = {name for node in nodes for name in node.input}
    graph.graph.initializer.extend(tensor for name, tensor in external.items() if name in needed)
    del graph.graph.value_info[:]
    del graph.graph.metadata_props[:]
    for node in graph.graph.node:  # where in the source files of torch and transformers each comes from
        del node.metadata_props[:]


def _is_weight(constant: TensorProto, name: str, weight: np.ndarray) -> bool:
    """Return True for a constant with the name of a weight, or with its transposed values."""
    if constant.name == name:
        return True
    if list(constant.dims) != list(weight.T.shape):
        return False
    return np.array_equal(numpy_helper.to_array(constant).T, weight)


def _rows(node: onnx.NodeProto, name: str) -> list[onnx.NodeProto]:
    """Return the nodes that take rows of a table of integers and multiply them with their scales."""
    ids = node.input[1]
    output = node.output[0]
    return [
        helper.make_node("Gather", [name, ids], [f"{output}.integers"]),
        helper.make_node("Cast", [f"{output}.integers"], [f"{output}.floats"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [name + SCALE, ids], [f"{output}.scales"]),
        helper.make_node("Constant", [], [f"{output}.axis"], value_ints=[-1]),
        helper.make_node("Unsqueeze", [f"{output}.scales", f"{output}.axis"], [f"{output}.column"]),
        helper.make_node("Mul", [f"{output}.floats", f"{output}.column"], [output]),
    ]


def _product(node: onnx.NodeProto, name: str) -> list[onnx.NodeProto]:
    """Return the nodes that multiply with a weight as 8-bit integers. ONNX Runtime joins them."""
    features = node.input[0]
    output = node.output[0]
    integers = [f"{output}.{part}" for part in ("integers", "scale", "zero")]
    return [
        helper.make_node("DynamicQuantizeLinear", [features], integers),
        helper.make_node("Transpose", [name], [f"{output}.weight"], perm=[1, 0]),
        helper.make_node("MatMulInteger", [integers[0], f"{output}.weight", integers[2]], [f"{output}.sums"]),
        helper.make_node("Cast", [f"{output}.sums"], [f"{output}.floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [integers[1], name + SCALE], [f"{output}.scales"]),
        helper.make_node("Mul", [f"{output}.floats", f"{output}.scales"], [output]),
    ]


def _external_tensors(path: Path) -> Iterator[tuple[str, TensorProto]]:
    """Yield a reference to each tensor of a file of safetensors, by its name."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    types = {"F32": TensorProto.FLOAT, "I8": TensorProto.INT8}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        tensor = TensorProto(name=name, dims=entry["shape"], data_type=types[entry["dtype"]])
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": path.name, "offset": 8 + length + start, "length": end - start}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        yield name, tensor
