"""Labels of words by a token classifier of PyTorch."""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from .cue_markers import CUE_MARKER, mark_cues
from .forward_inputs import accepted_inputs, longest_input, without_pads
from .negation_labels import NO_WORD, UNSEEN, WordLabeler, WordLabels, batches_of_like_lengths, word_indices
from .word_beginnings import check_word_beginnings

TOKENS_ON_CPU = 256
"""Largest number of tokens of a forward pass, with padding: more do not fit into the cache of a core."""

TOKENS_ON_GPU = 8192
"""The same on other devices."""


class ModelLabeler(WordLabeler):
    """A token classification model with its tokenizer.

    Args:
        model: A token classification model.
        tokenizer: The fast tokenizer of the model, with cue markers.
        max_length (int, *optional*): Maximum number of tokens of an input. By default the model's limit.

    Raises:
        ValueError: The model or the tokenizer is for another task.
    """

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None):
        limit = longest_input(model, tokenizer) if max_length is None else max_length
        names = [name for _, name in sorted(model.config.id2label.items())]
        super().__init__(names, limit, tokenizer.num_special_tokens_to_add())
        if not getattr(tokenizer, "is_fast", False) or not knows_cues(tokenizer):
            raise ValueError(f"{type(tokenizer).__name__} is no fast tokenizer with cue markers: load the model's.")
        check_word_beginnings(tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        self.process = os.getpid()

    def token_counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of tokens of each word of a sentence."""
        encoded = self.tokenizer(list(words), is_split_into_words=True, add_special_tokens=False, verbose=False)
        counts = Counter(encoded.word_ids())
        return [counts[word] for word in range(len(words))]

    def label(
        self,
        names: Sequence[str],
        sentences: Sequence[Sequence[str]],
        cues: Sequence[Sequence[int]],
        cue_types: Sequence[str | None],
    ) -> list[WordLabels]:
        """Return the most probable one of some labels for each word, as `WordLabeler` describes it."""
        labeled = [WordLabels([], [])] * len(sentences)
        filled = [row for row, words in enumerate(sentences) if words]
        if not filled:
            return labeled
        truncation: dict[str, Any] = {} if self.limit is None else {"truncation": True, "max_length": self.limit}
        encoded, words_of_tokens = encode_marked(
            self.tokenizer,
            [sentences[row] for row in filled],
            [cues[row] for row in filled],
            [cue_types[row] for row in filled],
            **truncation,
        )
        if self.process != os.getpid():  # a forked process has none of the threads, and would wait for them
            torch.set_num_threads(1)
            self.process = os.getpid()
        columns = [self.label_ids[name] for name in names]
        most = TOKENS_ON_CPU if self.model.device.type == "cpu" else TOKENS_ON_GPU
        if getattr(self.model, "reads_rows_alone", False):
            most = 1
        for batch in batches_of_like_lengths(list(map(len, words_of_tokens)), most):
            inputs = {name: [values[index] for index in batch] for name, values in encoded.items()}
            tensors = self.tokenizer.pad(inputs, return_tensors="pt", verbose=False).to(self.model.device)
            with torch.inference_mode():
                output = self.model(**accepted_inputs(self.model, tensors), return_dict=True)
            tokens = []
            indices: list[int] = []
            starts = [0]
            for index, logits in zip(batch, output.logits.float().cpu(), strict=True):
                tokens.append(without_pads(logits, len(words_of_tokens[index]), self.tokenizer)[:, columns])
                indices += [NO_WORD if word == NO_WORD else starts[-1] + word for word in words_of_tokens[index]]
                starts.append(starts[-1] + len(sentences[filled[index]]))
            means, seen = word_logits(torch.cat(tokens), indices, starts[-1])
            probabilities, best = means.softmax(dim=-1).max(dim=-1)
            labels = [names[label] for label in best.tolist()]
            for word in (~seen).nonzero().flatten().tolist():
                labels[word] = UNSEEN
            for index, start, stop in zip(batch, starts, starts[1:], strict=False):
                labeled[filled[index]] = WordLabels(labels[start:stop], probabilities[start:stop].tolist())
        return labeled


def encode_marked(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    cues: Sequence[Sequence[int]],
    cue_types: Sequence[str | None],
    **kwargs: Any,
) -> tuple[BatchEncoding, list[list[int]]]:
    """Tokenize sentences with a marker before each word of their cues.

    `cues` has 1 for each word of a sentence's cue and 0 for other words; all zeros ask for the cues of the sentence.
    Only tokenizers with typed markers use `cue_types`. Returns the encoding, and for each sentence the index of each
    token's word, counted without markers, or `NO_WORD`.
    """
    has_types = hasattr(tokenizer, "cue_marker")
    marked = []
    for words, cue, cue_type in zip(sentences, cues, cue_types, strict=True):
        marker_type = cue_type if has_types and any(cue) else None
        marked.append(mark_cues(words, cue, marker_type))
    encoded = tokenizer(marked, is_split_into_words=True, **kwargs)
    return encoded, [word_indices(encoded.word_ids(row), cue) for row, cue in enumerate(cues)]


def word_logits(logits: torch.Tensor, indices: Sequence[int], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean logits (words, labels) of each word's tokens, and a mask (words,) of the words with a token.

    `logits` are (>= tokens, labels). `indices` are those of `encode_marked`, `length` is the number of words.
    """
    all_words = torch.as_tensor(indices, dtype=torch.long)
    tokens = (all_words != NO_WORD).nonzero()[:, 0]
    words = all_words[tokens]
    sums = torch.zeros(length, logits.shape[-1], dtype=torch.float64).index_add_(0, words, logits[tokens].double())
    counts = torch.bincount(words, minlength=length)
    return sums / counts.clamp(min=1)[:, None], counts > 0


def knows_cues(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return True if a tokenizer has a cue marker."""
    return CUE_MARKER in tokenizer.get_added_vocab()
