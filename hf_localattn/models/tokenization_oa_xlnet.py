"""Tokenizer of OA: a fast tokenizer that also returns the mask of the query tokens."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from transformers import BatchEncoding
from transformers.tokenization_utils_base import EncodingFast

from .configuration_local_attention import LocalAttentionConfig
from .cue_markers import ANY_MARKER, CUE_MARKER, MARKERS, TYPED_MARKERS, is_marker
from .fields_oa_xlnet import OaXLNetSettings
from .tokenization_local_attention import (
    BackboneTokenizer,
    is_batch,
    sample_indices,
    samples_of,
    set_columns,
)

_SEGMENTS = {"auto": None, "first": 0, "second": 1}

_MARKER = re.compile(ANY_MARKER)
# Includes the spaces before a marker: byte-level and SentencePiece tokenizers would encode them as a token.
_WRITTEN = re.compile(rf"(?<!\s)\s*(?:{ANY_MARKER})")
# Includes the spaces after a marker, unless it directly follows a word.
_DROPPED = re.compile(rf"(?<!\S)(?:{ANY_MARKER})\s*|{ANY_MARKER}")
# An apostrophe (straight or curly) or a hyphen inside a word does not end it. A cue that does not start with a letter
# or digit ends at the next space or marker.
_CUE = re.compile(
    rf"(?:{ANY_MARKER})(?:\s*(?:{ANY_MARKER}))*\s*(?P<word>\w+(?:['\u2019-]\w+)*|(?:(?!{ANY_MARKER})\S)+)?"
)

Offsets = tuple[int, int]


@dataclass(frozen=True, slots=True)
class AlignedText:
    """Text or list of words to encode, aligned with the given one."""

    encoded: str | Sequence[str]
    has_marker: bool = False  # in the given text, even if no word follows it
    # From the offsets and the word of a token in the given text to True for a token of a cue word.
    is_cue: Callable[[Offsets, int | None], bool] = lambda offsets, word: False
    # From offsets and word of a token in `encoded` to those in the given text. None if they are the same.
    restored: Callable[[Offsets, int | None], tuple[Offsets, int | None]] | None = None


def read_cues(text: str | Sequence[str], mode: str) -> AlignedText:
    """Find the cue words of a text and rewrite its markers.

    The word after a marker is a cue word: in a text, letters and digits with apostrophes or hyphens between them, or
    all up to the next space; in a list, where markers are separate words, the next word that is not empty. A marker at
    the end is ignored. `mode` is `cue_marker` of the tokenizer.
    """
    read: Any = _read_text if isinstance(text, str) else _read_words
    has_marker = any(map(_MARKER.search, [text] if isinstance(text, str) else text))
    return read(text, mode) if has_marker else AlignedText(text)


def _written(marker: str, mode: str, num_cues: int) -> str:
    if mode == "drop":
        return ""
    if mode == "keep":
        return CUE_MARKER
    return TYPED_MARKERS["multi" if num_cues > 1 else "single"] if marker == CUE_MARKER else marker


def _read_text(text: str, mode: str) -> AlignedText:
    cues = [match.span("word") for match in _CUE.finditer(text) if match["word"]]
    pieces: list[str] = []
    origins: list[Offsets] = []
    end = 0
    for match in (_DROPPED if mode == "drop" else _WRITTEN).finditer(text):
        marker = match[0].strip()
        written = _written(marker, mode, len(cues))
        pieces += text[end : match.start()], written
        origins += [(place, place + 1) for place in range(end, match.start())]
        origins += [(match.end() - len(marker), match.end())] * len(written)
        end = match.end()
    encoded = "".join([*pieces, text[end:]])
    origins += [(place, place + 1) for place in range(end, len(text))] + [(len(text), len(text))]

    def is_cue(offsets: Offsets, word: int | None) -> bool:
        # An empty token, such as a byte-level space with trimmed offsets, belongs to the word that starts there.
        start = offsets[0]
        stop = max(offsets[1], offsets[0] + 1)
        return any(start < end and begin < stop for begin, end in cues)

    def restored(offsets: Offsets, word: int | None) -> tuple[Offsets, int | None]:
        begin, end = offsets
        start = origins[begin][0]
        stop = origins[max(begin, end - 1)][1]
        return (start, stop if begin < end else start), word

    return AlignedText(encoded, True, is_cue, restored if encoded != text else None)


def _read_words(words: Sequence[str], mode: str) -> AlignedText:
    cues = set()
    after_marker = False
    for index, word in enumerate(words):
        if is_marker(word):
            after_marker = True
        elif _MARKER.search(word):
            raise ValueError(
                f"Word {index} ({word!r}) contains a cue marker and other characters: make it a separate word."
            )
        elif after_marker and word.strip():
            cues.add(index)
            after_marker = False
    encoded: list[str] = []
    origins: list[tuple[int, Offsets | None]] = []
    for index, word in enumerate(words):
        if not is_marker(word):
            encoded.append(word)
            origins.append((index, None))
        elif written := _written(word, mode, len(cues)):
            encoded.append(written)
            origins.append((index, (0, len(word))))

    def restored(offsets: Offsets, word: int | None) -> tuple[Offsets, int | None]:
        if word is None:
            return offsets, word
        index, whole = origins[word]
        return whole or offsets, index

    has_changed = encoded != list(words)
    return AlignedText(encoded, True, lambda offsets, word: word in cues, restored if has_changed else None)


class OaXLNetTokenizer(OaXLNetSettings, BackboneTokenizer):
    """A backbone's fast tokenizer that also returns `query_mask`, the tokens of the query for the OA models.

    `query_mask` (B, L) is 1 at the tokens of query words and 0 elsewhere. Query words are found as follows:

    * In a text with cue markers, the word after each marker is a query word, such as `not` in `I do [CUE] not know`.
      Each word of a cue has a marker. If only an affix is the cue, the marker is before the whole word. With
      `is_split_into_words=True` markers are separate words. `mark_cues` inserts them.
    * In a pair of texts without markers, one text is the query.
    * In a pair with markers, the markers decide, unless `query_segment` is "first" or "second".
    * A single text without markers has no query.

    The markers `[CUE]`, `[CUE:affix]`, `[CUE:single]` and `[CUE:multi]` are always special tokens. The model's
    embeddings must therefore have `len(tokenizer)` rows. Offsets and `word_ids()` refer to the given texts or words,
    including their markers. `from_backbone` builds this tokenizer from a backbone's tokenizer.

    Raises:
        ValueError: A setting is unknown or, in a call, a word contains a marker and other characters.

    Example:
        >>> from transformers import AutoTokenizer
        >>> from hf_localattn import OaXLNetTokenizer
        >>> from hf_localattn.resources import tiny_backbone
        >>> tokenizer = OaXLNetTokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()))
        >>> inputs = tokenizer("Mira is [CUE] not the baker.")
        >>> [token for token, is_query in zip(inputs.tokens(), inputs["query_mask"]) if is_query]
        ['not']
    """

    OWN_INPUTS: ClassVar = {"query_mask": 0}

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, own_inputs=self.OWN_INPUTS, **kwargs)
        self.add_special_tokens({"extra_special_tokens": MARKERS}, replace_extra_special_tokens=False)

    def _encode_plus(  # type: ignore[no-untyped-def]  # the base class's other arguments are passed on
        self,
        text,
        text_pair=None,
        *,
        is_split_into_words: bool = False,
        return_tensors=None,
        add_own_inputs: bool = True,
        **kwargs,
    ) -> BatchEncoding:
        LocalAttentionConfig.installed.check_texts(text, text_pair, is_split_into_words)
        encoded = super()._encode_plus(
            self._to_encode(text, is_split_into_words),
            self._to_encode(text_pair, is_split_into_words),
            is_split_into_words=is_split_into_words,
            return_tensors=return_tensors,
            **kwargs,
        )
        if not add_own_inputs or encoded.encodings is None:
            return encoded

        samples = [
            [read_cues(words, self.cue_marker) for words in sample]
            for sample in samples_of(text, text_pair, is_split_into_words)
        ]
        protected = 1 if kwargs.get("truncation_strategy") == "only_first" else 0
        columns: dict[str, list[list]] = {"query_mask": []}
        for encoding, sample in zip(encoded.encodings, sample_indices(encoded), strict=True):
            if any(reading.restored is not None for reading in samples[sample]):
                _restore(encoding, samples[sample])
            columns["query_mask"].append(self._query_mask(encoding, samples[sample], protected))
        if "offset_mapping" in encoded:
            columns["offset_mapping"] = [encoding.offsets for encoding in encoded.encodings]
        set_columns(encoded, columns, is_batch(text, is_split_into_words), return_tensors)
        return encoded

    def _query_mask(self, encoding: EncodingFast, texts: list[AlignedText], protected: int) -> list[int]:
        """Return 1 at the tokens of cue words, or of the text that is the query."""
        segment = _SEGMENTS[self.query_segment]
        named = len(texts) == 2 and segment is not None
        if any(reading.has_marker for reading in texts) and not named:
            tokens = zip(encoding.sequence_ids, encoding.offsets, encoding.word_ids, strict=True)
            mask = [int(of is not None and texts[of].is_cue(offsets, word)) for of, offsets, word in tokens]
            return _other_words(encoding, mask) if self.random_query else mask
        segment = protected if segment is None else segment
        return [int(len(texts) == 2 and of == segment) for of in encoding.sequence_ids]

    def _to_encode(self, text: Any, split: bool) -> Any:
        """Return the given texts, in the same nesting, with rewritten markers."""
        is_list_of_words = split and isinstance(text, list | tuple) and text and isinstance(text[0], str)
        if isinstance(text, str) or is_list_of_words:
            return read_cues(text, self.cue_marker).encoded
        if isinstance(text, list | tuple):
            texts = [self._to_encode(part, split) for part in text]
            return tuple(texts) if isinstance(text, tuple) else texts
        return text  # not a text: the base class raises the error


def _other_words(encoding: EncodingFast, mask: list[int]) -> list[int]:
    """Return a mask of as many other words, drawn by the text alone; without any, the query's mask."""
    words = list(zip(encoding.sequence_ids, encoding.word_ids, strict=True))
    cue = {word for word, is_query in zip(words, mask, strict=True) if is_query}
    named = zip(words, encoding.tokens, strict=True)
    others = sorted({word for word, token in named if word[0] is not None and token not in MARKERS} - cue)
    text = " ".join(token for word, token in zip(words, encoding.tokens, strict=True) if word[0] is not None)
    drawn = Random(text).sample(others, min(len(cue), len(others))) or cue
    return [int(word in drawn) for word in words]


def _restore(encoding: EncodingFast, texts: list[AlignedText]) -> None:
    """Make the offsets and words of an encoding refer to the given texts, in place.

    The fields of an encoding are read-only, but its pickled state can be changed.
    """
    state = json.loads(encoding.__getstate__())
    offsets = encoding.offsets
    words = encoding.word_ids
    for place, of in enumerate(encoding.sequence_ids):
        if of is not None and (restored := texts[of].restored) is not None:
            state["offsets"][place], state["words"][place] = restored(offsets[place], words[place])
    state["overflowing"] = []  # returned overflows are separate encodings
    encoding.__setstate__(json.dumps(state).encode())


OaXLNetTokenizer.register_for_auto_class("AutoTokenizer")
