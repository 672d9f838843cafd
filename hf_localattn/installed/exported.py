"""Folders of `hf-localattn export` as models, which ONNX Runtime runs."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.utils import ModelOutput

from hf_localattn import models
from hf_localattn.errors import CheckpointError
from hf_localattn.graphs import EXPORT_SETTINGS, GRAPH, Graph
from hf_localattn.installed.configurations import load_config
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.modeling_local_attention import LocalAttentionPreTrainedModel


def is_exported(folder: str | os.PathLike[str]) -> bool:
    """Return True for a folder that `hf-localattn export` has written."""
    return all(Path(folder, name).is_file() for name in (GRAPH, EXPORT_SETTINGS))


def class_of(config: PreTrainedConfig) -> type[LocalAttentionPreTrainedModel] | None:
    """Return the class of a family that a configuration names as that of its model, or None."""
    if not isinstance(config, LocalAttentionConfig):
        return None
    module = import_module(f"{models.__name__}.{config.entry_module}")
    named = getattr(module, next(iter(config.architectures or ()), ""), None)
    return named if isinstance(named, type) and issubclass(named, LocalAttentionPreTrainedModel) else None


class OnnxModel(nn.Module):
    """A checkpoint that `hf-localattn export` has written, run by ONNX Runtime on the CPU.

    It takes the inputs of the exported model, and returns its outputs by name. Pipelines and the functions of this
    package take it in place of the model. It cannot be trained.

    Args:
        graph: The graph.
        config: Configuration of the exported model.
    """

    device = torch.device("cpu")
    dtype = torch.float32
    input_modalities = "text"
    reads_rows_alone = False
    """True if other rows of a batch change the results, as with products of 8-bit integers."""

    def __init__(self, graph: Graph, config: PreTrainedConfig):
        super().__init__()
        self.graph = graph
        self.config = config

    def __reduce__(self) -> Any:
        return _load_copy, (self.graph, self.config, self.reads_rows_alone)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, session_options: Any = None) -> OnnxModel:
        """Load an exported folder.

        Args:
            folder: Folder that `hf-localattn export` has written.
            session_options (*optional*): `onnxruntime.SessionOptions`, such as the number of threads. Defaults to
                those of ONNX Runtime.

        Raises:
            FileNotFoundError: The folder has no graph.
            CheckpointError: The folder sets what a stranger's may not.
            ImportError: onnxruntime is not installed.
        """
        if not is_exported(folder):
            raise FileNotFoundError(
                f"{str(folder)!r} has no {GRAPH} and {EXPORT_SETTINGS}: write the folder with `hf-localattn export"
                " CHECKPOINT FOLDER`."
            )
        config = load_config(folder)
        if class_of(config) is None:
            raise CheckpointError(
                f"{Path(folder, 'config.json')}: `architectures` is {config.architectures}, no class of the package:"
                " export the checkpoint again."
            )
        return cls.from_graph(Graph(folder, options=session_options), config)

    @classmethod
    def from_graph(cls, graph: Graph, config: PreTrainedConfig) -> OnnxModel:
        """Return a model of a class with the name and the arguments of the exported one."""
        exported: Any = class_of(config)

        # Pipelines look at the name of the class and at the arguments of `forward`.
        @functools.wraps(exported.forward)
        def forward(self: OnnxModel, *_: Any, **inputs: Any) -> ModelOutput:
            return self.run(inputs)

        return type(exported.__name__, (cls,), {"forward": forward})(graph, config)

    def run(self, inputs: Mapping[str, Any]) -> ModelOutput:
        """Return the outputs of the graph as tensors.

        Args:
            inputs: Integer tensors by name. Names that are not inputs of the graph are ignored.

        Raises:
            ValueError: An input of the graph is missing.
        """
        if missing := [name for name in self.graph.input_names if inputs.get(name) is None]:
            raise ValueError(
                f"The graph needs {', '.join(missing)}, which was not given: pass all outputs of the tokenizer in the"
                " exported folder, by name."
            )
        arrays = {name: inputs[name].to("cpu", torch.int64).numpy() for name in self.graph.input_names}
        values = map(torch.from_numpy, self.graph.run(self.graph.output_names, arrays))
        return ModelOutput(zip(self.graph.output_names, values, strict=True))

    def can_generate(self) -> bool:
        """Return False: no exported model generates text."""
        return False

    def save_pretrained(self, save_directory: str | os.PathLike[str], **_: Any) -> None:
        """Raise `ValueError`: a graph has no weights to save."""
        raise ValueError(f"An exported model cannot be saved: copy its folder, {str(self.graph.folder)!r}.")


def _load_copy(graph: Graph, config: PreTrainedConfig, reads_rows_alone: bool) -> OnnxModel:
    model = OnnxModel.from_graph(graph, config)
    model.reads_rows_alone = reads_rows_alone
    return model.eval()
