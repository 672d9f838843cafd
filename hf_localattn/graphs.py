"""Graphs of exported folders, run by ONNX Runtime on the CPU. They need neither torch nor transformers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

from hf_localattn.errors import CheckpointError
from hf_localattn.extras import import_extra

GRAPH = "model.onnx"
"""File name of the graph in an exported folder."""

EXPORT_SETTINGS = "export.json"
"""File of settings in an exported folder. Folders of other exporters have no such file."""

_graphs: WeakSet[Graph] = WeakSet()
_of_parents: list[Any] = []
"""Sessions of parent processes. Their threads are not in this process, and to end them would wait forever."""


def _leave_sessions() -> None:
    """Keep the sessions of the parent in a forked process, also those of graphs that nobody holds any more."""
    for graph in _graphs:
        _of_parents.append(graph.session)
        graph.session = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_sessions)


class Graph:
    """The graph of an exported folder. It is copied and pickled as its folder, and a forked process opens it again.

    Args:
        folder: The exported folder.
        threads: Number of threads; 0 for one on each core.
        options (*optional*): `onnxruntime.SessionOptions` in place of `threads`. Copies have its number of threads.

    Raises:
        ImportError: onnxruntime is not installed.
        CheckpointError: The graph cannot be read, or refers to files of other folders.
    """

    def __init__(self, folder: str | os.PathLike[str], threads: int = 0, options: Any = None):
        self.folder = Path(folder)
        self.onnxruntime = import_extra("onnxruntime", "onnx", "An exported checkpoint")
        self.threads = threads if options is None else options.intra_op_num_threads
        self._open(options)
        _graphs.add(self)
        self.input_names = [node.name for node in self.session.get_inputs()]
        self.output_names = [node.name for node in self.session.get_outputs()]

    def _open(self, options: Any = None) -> None:
        if options is None:
            options = self.onnxruntime.SessionOptions()
            options.intra_op_num_threads = self.threads
        path = self.folder / GRAPH
        try:
            session = self.onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # it has types of errors of its own
            raise CheckpointError(f"{path} is no graph that runs ({error}): export the checkpoint again.") from error
        self.session: Any = session

    def __reduce__(self) -> tuple[type, tuple[Path, int]]:
        return type(self), (self.folder, self.threads)

    def run(self, names: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        """Return some outputs as arrays."""
        if self.session is None:
            self._open()
        outputs: list[Any] = self.session.run(list(names), dict(inputs))
        return outputs
