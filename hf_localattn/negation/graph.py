"""Labels of words by an exported graph: ONNX Runtime, tokenizers and numpy, without PyTorch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from hf_localattn.graphs import GRAPH, Graph
from hf_localattn.models.cue_markers import CUE_MARKER, mark_cues
from hf_localattn.models.negation_labels import NO_WORD, UNSEEN, WordLabeler, WordLabels, word_indices
from hf_localattn.parsing import read_json
from hf_localattn.resources import NEGATION

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs that a graph may have here. Those of local layers need the tokenizer of the family, and so transformers."""

FILES = (GRAPH, "export.json", "tokenizer.json")


class OtherInputsError(ValueError):
    """A graph needs other inputs than the words of sentences."""


def is_graph_folder(folder: str | os.PathLike[str]) -> bool:
    """Return True for a folder that `hf-localattn export` has written."""
    return all(Path(folder, name).is_file() for name in FILES)


class GraphLabeler(WordLabeler):
    """The graph of a folder that `hf-localattn export` has written, with its tokenizer.

    It is pickled and copied as its folder. A forked process opens the graph again.

    Args:
        folder: The exported folder.
        threads: Number of threads; 0 for one on each core. Defaults to OMP_NUM_THREADS, else 0.

    Raises:
        FileNotFoundError: The folder has no graph.
        ValueError: The graph is for another task, or `threads` is no number of threads.
        CheckpointError: The folder sets what a stranger's may not.
        OtherInputsError: The graph needs other inputs than words.
        ImportError: onnxruntime is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str], threads: int | None = None):
        self.folder = Path(folder)
        if not is_graph_folder(folder):
            raise FileNotFoundError(
                f"{str(folder)!r} has no {', '.join(FILES)}: write the folder with"
                " `hf-localattn export CHECKPOINT FOLDER`."
            )
        if self.folder != NEGATION:  # a stranger's; the check parses the tokenizer, too
            from hf_localattn.installed.policy import check_folder

            check_folder(folder, weights=False)
        count = (os.environ.get("OMP_NUM_THREADS") or "0") if threads is None else str(threads)
        if not count.isdecimal():
            raise ValueError(f"`threads` or OMP_NUM_THREADS is {count!r}; give a whole number from 0.")
        self.threads = int(count)
        settings = read_json(self.folder / "export.json")
        self.tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        limit = settings.get("max_length")
        self.tokenizer.no_truncation()
        super().__init__(settings.get("labels") or [], limit, self.tokenizer.num_special_tokens_to_add(False))
        if limit is not None:
            self.tokenizer.enable_truncation(limit)
        self.graph = Graph(self.folder, self.threads)
        self._check_inputs()

    def _check_inputs(self) -> None:
        tokenizer = read_json(self.folder / "tokenizer_config.json")
        others = [name for name in self.graph.input_names if name not in INPUTS]
        if tokenizer.get("cue_marker", "keep") != "keep":
            others.append("markers of another kind")
        listed = self.tokenizer.encode(["baker", "baker"], is_pretokenized=True, add_special_tokens=False).tokens
        if listed != self.tokenizer.encode("baker baker", add_special_tokens=False).tokens:
            others.append("words with the mark of their beginning")
        if self.tokenizer.token_to_id(CUE_MARKER) is None:
            others.append(f"a tokenizer with {CUE_MARKER}")
        if others:
            raise OtherInputsError(
                f'The graph in {str(self.folder)!r} needs {", ".join(others)}: use `pipeline("negation")` of'
                " transformers with the folder of the checkpoint."
            )

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (str(self.folder), self.threads)

    def token_counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of tokens of each word of a sentence."""
        counts = [0] * len(words)
        for index, word in enumerate(words):  # one by one, because a long list would be cut
            counts[index] = len(self.tokenizer.encode([word], is_pretokenized=True, add_special_tokens=False))
        return counts

    def label(
        self,
        names: Sequence[str],
        sentences: Sequence[Sequence[str]],
        cues: Sequence[Sequence[int]],
        cue_types: Sequence[str | None],
    ) -> list[WordLabels]:
        """Return the most probable one of some labels for each word, as `WordLabeler` describes it."""
        columns = [self.label_ids[name] for name in names]
        known: dict[tuple[str, ...], WordLabels] = {}
        labeled = []
        for words, cue in zip(sentences, cues, strict=True):
            marked = tuple(mark_cues(words, cue))
            if marked not in known:
                known[marked] = self._label(marked, len(words), cue, columns, names)
            labeled.append(known[marked])
        return labeled

    def _label(
        self, marked: Sequence[str], length: int, cue: Sequence[int], columns: Sequence[int], names: Sequence[str]
    ) -> WordLabels:
        """Return the labels of a sentence.

        It is read alone: products of 8-bit integers depend on the range of all numbers of a pass, so that another
        sentence beside it could change its labels.
        """
        if not length:
            return WordLabels([], [])
        encoding = self.tokenizer.encode(list(marked), is_pretokenized=True)
        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        inputs = {name: np.array([values[name]], dtype=np.int64) for name in self.graph.input_names}
        logits = self.graph.run(["logits"], inputs)[0][0][:, columns]
        return _word_labels(logits, word_indices(encoding.word_ids, cue), length, names)


def _word_labels(logits: np.ndarray, words: Sequence[int], length: int, names: Sequence[str]) -> WordLabels:
    """Return the best label of each word by the mean logits of its tokens, which are (tokens, labels)."""
    indices = np.asarray(words)
    tokens = indices != NO_WORD
    sums = np.zeros((length, logits.shape[-1]))
    np.add.at(sums, indices[tokens], logits[tokens])
    counts = np.bincount(indices[tokens], minlength=length)
    means = sums / np.maximum(counts, 1)[:, None]
    exponents = np.exp(means - means.max(axis=-1, keepdims=True))
    probabilities = exponents / exponents.sum(axis=-1, keepdims=True)
    best = probabilities.argmax(axis=-1)
    labels = [names[label] if count else UNSEEN for label, count in zip(best, counts, strict=True)]
    return WordLabels(labels, probabilities.max(axis=-1).tolist())
