"""Negation as a product: cues and scopes in texts, notes and files, without PyTorch and transformers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hf_localattn.negation.decisions import Decision, decide

if TYPE_CHECKING:
    from hf_localattn.negation.texts import Finder

__all__ = ["Decision", "decide", "finder"]


def finder(
    model: str | os.PathLike[str] | None = None, *, device: str = "cpu", threads: int | None = None, **settings: Any
) -> Finder:
    """Return a finder of cues and scopes.

    The package's own model and exported folders run by ONNX Runtime, without PyTorch and transformers; checkpoints
    need both.

    Args:
        model (*optional*): Folder or Hub id of a checkpoint that finds cues, or a folder that `hf-localattn export`
            has written. Defaults to the package's own English model.
        device (*optional*, defaults to "cpu"): Device of a checkpoint, such as "cuda:0".
        threads (*optional*): Threads of ONNX Runtime; 0 for one on each core. Defaults to OMP_NUM_THREADS, else 0.
        **settings: How texts are read, such as `convention="notes"`: the arguments of
            `hf_localattn.models.negation_reading.Reading`.

    Raises:
        ValueError: A setting has an unknown value, PyTorch has no such device, or the checkpoint is for another task.
        TypeError: A setting is unknown.
        OSError: The checkpoint cannot be loaded.
        ImportError: Neither onnxruntime nor torch is installed.

    Example:
        >>> from hf_localattn.negation import finder
        >>> find = finder(convention="notes")
        >>> [span["text"] for span in find("No fever, chills, or cough.")[0]["scope"]]
        ['fever, chills, or cough']
    """
    from hf_localattn.models.negation_reading import Reading
    from hf_localattn.negation.texts import Finder, load_labeler  # numpy would slow down `--help`

    reading = Reading.of(**settings)  # before the model is loaded
    return Finder(load_labeler(model, device=device, threads=threads), reading, english=model is None)
