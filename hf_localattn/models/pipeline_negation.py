"""The pipeline "negation": cues and their scopes in raw text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset
from transformers.pipelines.base import ChunkPipeline

from .cue_labels import affix_offsets
from .cue_markers import MARKERS
from .negation_finder import Finding, NegationFinder
from .text_splitting import Offsets, join_over_blanks, split_sentences, split_words


@dataclass(frozen=True)
class Piece:
    """A sentence, or a part of a sentence that is too long for the model.

    Attributes:
        words: its words.
        offsets: characters [start, end) of each word in the text.
        sentence: characters of the whole sentence.
    """

    words: list[str]
    offsets: list[Offsets]
    sentence: Offsets


class NegationPipeline(ChunkPipeline):
    """Cues of negation or speculation in raw text, and the words in the scope of each.

    A batch has `batch_size` sentences. The cues of a batch are found in one forward pass, then their scopes in one or
    more.

    Raises:
        ValueError: the model does not find cues and scopes, or the tokenizer has no cue markers.

    Example:
        >>> from transformers import AutoTokenizer, pipeline
        >>> from hf_localattn import OaXLNetForTokenClassification, OaXLNetTokenizer
        >>> from hf_localattn.resources import tiny_backbone
        >>> tokenizer = OaXLNetTokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()))
        >>> labels = dict(enumerate(["O", "SCOPE", "negation:affix", "negation:single", "negation:multi"]))
        >>> model = OaXLNetForTokenClassification.from_backbone(tiny_backbone(), id2label=labels)  # untrained
        >>> _ = model.resize_token_embeddings(len(tokenizer))
        >>> finder = pipeline("negation", model=model, tokenizer=tokenizer)
        >>> for found in finder("He neither spoke nor moved."):
        ...     assert set(found) == {"cue", "kind", "type", "score", "scope", "scope_score", "sentence"}
    """

    _load_tokenizer = True
    _load_feature_extractor = False
    _load_image_processor = False
    _load_processor = False
    default_input_names = "text"

    def __init__(self, model: Any, tokenizer: Any, **kwargs: Any):
        self.finder = NegationFinder(model, tokenizer)
        super().__init__(model=model, tokenizer=tokenizer, **kwargs)

    def __call__(self, inputs: Any, **settings: Any) -> Any:
        """Find the cues in one or more texts, and their scopes.

        Args:
            inputs (str, list or iterator): a text; a list of texts; or an iterator, which is read lazily.
            **settings: the following settings.
            split_lines (bool, *optional*, defaults to False): if True, a sentence also ends at each line break, as in
                clinical notes and lists.
            batch_size (int, *optional*, defaults to 1): sentences per batch.
            num_workers (int, *optional*, defaults to 0): processes that split and tokenize.

        Returns:
            For each text a list of dicts, one for each cue, in the order of the text:

            * `cue`: the parts of the cue, a list of dicts with `text`, `start` and `end` (characters of the text). An
              affix is a part of its word.
            * `kind`: "negation" or "speculation"; `type`: "affix", "single" or "multi".
            * `score`: mean probability of the labels of the cue's words.
            * `scope`: the spans of the scope, in the same form as the cue. A scope may be empty or have gaps.
            * `scope_score`: mean probability of the predicted labels of the sentence's words.
            * `sentence`: dict with `start` and `end`.

        Raises:
            ValueError: an input is not a text, or has a cue marker.
            TypeError: a setting is unknown.
        """
        if isinstance(inputs, Dataset):  # such as transformers' `KeyDataset`
            return super().__call__(inputs, **settings)
        if not isinstance(inputs, str | Iterable) or isinstance(inputs, bytes | dict):
            raise ValueError(f"The input is {inputs!r}; give a text, a list of texts or an iterator over texts.")
        if isinstance(inputs, Sequence) and not isinstance(inputs, str):
            inputs = list(inputs)  # tuples, and columns of data sets
            if not inputs:
                return []
        elif not isinstance(inputs, str):
            inputs = (text for text in inputs)  # the base class reads only generators one by one
        return super().__call__(inputs, **settings)

    def _sanitize_parameters(
        self,
        *,
        split_lines: bool | None = None,
        local_files_only: bool | None = None,  # `pipeline(...)` passes it on
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return ({} if split_lines is None else {"split_lines": split_lines}), {}, {}

    def preprocess(self, text: Any, split_lines: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the sentences of a text, in pieces that the model can take."""
        if not isinstance(text, str):
            raise ValueError(f"The input is {text!r}; it must be a text.")
        if marker := next((marker for marker in MARKERS if marker in text), None):
            raise ValueError(
                f"The text has the cue marker {marker}: give raw text, or use `find_scope` for known cues."
            )
        pieces = [piece for sentence in split_sentences(text, split_lines) for piece in self._pieces(text, sentence)]
        pieces = pieces or [Piece([], [], (0, 0))]  # the base class needs one
        for number, piece in enumerate(pieces, start=1):
            yield {"text": text, "piece": piece, "is_last": number == len(pieces)}

    def _pieces(self, text: str, sentence: Offsets) -> Iterator[Piece]:
        start, end = sentence
        offsets = [(start + begin, start + stop) for begin, stop in split_words(text[start:end])]
        words = [text[begin:stop] for begin, stop in offsets]
        for place in self.finder.pieces(words):
            within = slice(place.start, place.stop)
            yield Piece(words[within], offsets[within], sentence)

    def _forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        # The base class makes lists of the inputs of a batch, but not of a single piece.
        batched = isinstance(inputs["is_last"], list)
        pieces: list[Piece] = inputs["piece"] if batched else [inputs["piece"]]
        found = self.finder.find([piece.words for piece in pieces])
        return {**inputs, "found": found if batched else found[0]}

    def postprocess(self, outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the cues of a text, in its order."""
        return [_describe(output["text"], output["piece"], one) for output in outputs for one in output["found"]]


def _describe(text: str, piece: Piece, found: Finding) -> dict[str, Any]:
    """Return one result."""
    cue = found.cue
    parts = [piece.offsets[word] for word in cue.words]
    inside = [offsets for offsets, is_inside in zip(piece.offsets, found.scope.words, strict=True) if is_inside]
    if cue.type == "affix":
        (start, end), (word,) = affix_offsets(piece.words[cue.words[0]]), parts
        parts = [(word[0] + start, word[0] + end)]
        # the rest of the word may be in the scope of its affix
        rests = [(word[0], parts[0][0]), (parts[0][1], word[1])]
        inside = [rest for one in inside for rest in (rests if one == word else [one]) if rest[0] < rest[1]]
    return {
        "cue": [_span(text, *part) for part in parts],
        "kind": cue.kind,
        "type": cue.type,
        "score": found.score,
        "scope": [_span(text, *span) for span in join_over_blanks(text, inside)],
        "scope_score": found.scope.score,
        "sentence": dict(zip(("start", "end"), piece.sentence, strict=True)),
    }


def _span(text: str, start: int, end: int) -> dict[str, Any]:
    return {"text": text[start:end], "start": start, "end": end}
