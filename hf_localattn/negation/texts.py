"""Cues and scopes in texts, by the model of the package or a checkpoint."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from hf_localattn.models.negation_finder import NegationFinder
from hf_localattn.models.negation_labels import WordLabeler
from hf_localattn.models.negation_reading import Reading, check_texts
from hf_localattn.negation.graph import GraphLabeler, OtherInputsError, is_graph_folder
from hf_localattn.resources import NEGATION
from hf_localattn.resources.english import OTHER_LANGUAGE, is_english

logger = logging.getLogger(__name__)

BATCH = 128
"""Texts whose sentences are read together."""


class Finder:
    """Finds cues and scopes in texts. `hf_localattn.negation.finder` makes it.

    It can be copied and pickled, and used in forked processes.

    Args:
        labeler: From words to labels.
        reading: How texts are read.
        english: If True, a text in another language gets a warning, once.
    """

    def __init__(self, labeler: WordLabeler, reading: Reading, *, english: bool = False):
        self.finder = NegationFinder(labeler)
        self.reading = reading
        self.is_english_only = english

    def __call__(self, texts: Any) -> Any:
        """Return the cues of a text, or a list with those of each text.

        Args:
            texts: A text, or texts: a list, a column of a table, or any iterable.

        Returns:
            For each text a list of dicts, as the pipeline "negation" returns (docs/negation.md).

        Raises:
            ValueError: A text is missing, such as None, or is too long. The message names its row.
        """
        if isinstance(texts, str):
            return self.read([texts], ["The text"])[0]
        return list(self.pipe(texts))

    def pipe(self, texts: Iterable[str], batch_size: int = BATCH) -> Iterator[list[dict[str, Any]]]:
        """Yield the cues of each text; the sentences of `batch_size` texts are read together."""
        check_texts(texts)
        if batch_size < 1:
            raise ValueError(f"`batch_size` is {batch_size!r}; give a whole number from 1.")
        items = getattr(texts, "items", None)  # of a pandas.Series: index and value
        rows = iter(items() if callable(items) else enumerate(texts))
        while batch := list(islice(rows, batch_size)):
            yield from self.read([text for _, text in batch], [f"Row {name!r}" for name, _ in batch])

    def read(self, texts: list[Any], names: list[str], sentences: Any = None) -> list[list[dict[str, Any]]]:
        """Return the cues of each text. `names` are those in error messages, `sentences` those of a caller."""
        for text, name in zip(texts, names, strict=True):
            self.reading.check_text(text, name)
            if self.is_english_only and not is_english(text):
                logger.warning(OTHER_LANGUAGE)
                self.is_english_only = False  # one warning is enough
        return self.finder(texts, self.reading, sentences)


def load_labeler(
    model: str | os.PathLike[str] | None = None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    revision: str | None = None,
) -> WordLabeler:
    """Return a function from words to labels: a graph of ONNX Runtime where possible, else a model of PyTorch.

    Args:
        model (*optional*): As in `hf_localattn.negation.finder`.
        device: Device of a model of PyTorch.
        threads (*optional*): Threads of a graph.
        revision (*optional*): Branch, tag or commit on the Hub.
    """
    folder = NEGATION if model is None else Path(model)
    has_graph = is_graph_folder(folder) and (model is not None or find_spec("onnxruntime") is not None)
    if has_graph and model is not None and device != "cpu":
        raise ValueError(f"`device` is {device!r}, but an exported graph runs on the CPU: leave it out.")
    if device == "cpu" and has_graph:
        try:
            return GraphLabeler(folder, threads)
        except OtherInputsError:
            return _load_model(folder, device, revision, exported=True)
    return _load_model(model, device, revision)


def _load_model(model: Any, device: str, revision: str | None, *, exported: bool = False) -> WordLabeler:
    """Return a model of PyTorch, which takes seconds to import."""
    if model is not None:
        from hf_localattn.names import check_checkpoint

        check_checkpoint(str(model))
    import torch

    try:
        torch.zeros(1, device=device).tolist()  # not on the device "meta"
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"PyTorch has no device {device!r} here: give 'cpu'.") from error
    from hf_localattn.models.negation_model import ModelLabeler

    if model is None:
        from hf_localattn.bundled import negation_model

        loaded, tokenizer = negation_model()
    elif exported:
        from hf_localattn.installed.exported import OnnxModel
        from hf_localattn.pretrained import load_tokenizer

        loaded, tokenizer = OnnxModel.from_pretrained(model), load_tokenizer(str(model))
    else:
        from hf_localattn.pretrained import load_checkpoint

        loaded, tokenizer = load_checkpoint(model, task="token-classification", hub={"revision": revision})
    return ModelLabeler(loaded.to(device).eval(), tokenizer)
