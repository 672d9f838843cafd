"""The tokenizer of orthogonal attention: any fast one, with the tokens that are the query."""

import json
from typing import Any, ClassVar

from transformers import BatchEncoding
from transformers.tokenization_utils_base import EncodingFast

from .oa_cues import MARKER_MODES, MARKERS, CuedText, CuedWords, read_cues
from .tokenization_local_attention import (
    BackboneTokenizer,
    check_texts,
    is_batch,
    sample_numbers,
    samples_of,
    set_columns,
)

_SEGMENTS = {"auto": None, "first": 0, "second": 1}


class OaXLNetTokenizer(BackboneTokenizer):
    """A backbone's fast tokenizer that adds which tokens are the query that the OA models ask about.

    `query_mask` (B, L) is 1 at all tokens of all query words, and 0 at others, special tokens and pads.

    * The word after a cue marker is a query word: in `I do [CUE] not know` it is `not`. Cues of several words have a
      marker before each; a cue that is an affix has it before the whole word. In words that the caller has split
      (`is_split_into_words=True`) markers are words of their own. `mark_cues` puts them there.
    * In a pair of texts without any marker one whole text is the query.
    * A text without any marker has no query.
    * In a pair with markers these decide, unless `query_segment` names a text.

    The markers `[CUE]`, `[CUE:affix]`, `[CUE:single]` and `[CUE:multi]` are special tokens, whatever the settings, so
    the model's embeddings must have `len(tokenizer)` rows. Offsets, `word_ids()` and what is made of them refer to the
    texts or words as given, with their markers. Made from a backbone's tokenizer by `from_backbone`.

    Args:
        cue_marker: "keep" (the paper's Augment): each marker is one token, `[CUE]`; "drop" (Normal): the text is
            encoded as it is without markers; "typed": a plain marker becomes `[CUE:single]` in a text of one cue word
            and `[CUE:multi]` in one of several, others stay.
        query_segment: which text of a pair is the query: "first"; "second"; or "auto", in a pair without markers the
            one that truncation protects, so that it is the question: the second with `truncation="only_first"`,
            otherwise the first.

    Raises:
        ValueError: a setting is none of these; in calls: a given word holds a marker and something else.
    """

    SETTINGS: ClassVar = ("cue_marker", "query_segment")
    OWN_INPUTS: ClassVar = {"query_mask": 0}

    def __init__(self, *args: Any, cue_marker: str = "keep", query_segment: str = "auto", **kwargs: Any):
        if cue_marker not in MARKER_MODES:
            raise ValueError(f"`cue_marker` is {cue_marker!r}; choose one of {', '.join(map(repr, MARKER_MODES))}.")
        if query_segment not in tuple(_SEGMENTS):
            raise ValueError(f"`query_segment` is {query_segment!r}; choose one of {', '.join(map(repr, _SEGMENTS))}.")
        self.cue_marker = cue_marker
        self.query_segment = query_segment
        super().__init__(
            *args, cue_marker=cue_marker, query_segment=query_segment, own_inputs=self.OWN_INPUTS, **kwargs
        )
        self.add_special_tokens({"extra_special_tokens": MARKERS}, replace_extra_special_tokens=False)

    def _encode_plus(  # type: ignore[no-untyped-def]  # the base's many arguments are passed on as they come
        self,
        text,
        text_pair=None,
        *,
        is_split_into_words: bool = False,
        return_tensors=None,
        add_own_inputs: bool = True,
        **kwargs,
    ) -> BatchEncoding:
        check_texts(text, text_pair, is_split_into_words)
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
            [read_cues(one, self.cue_marker) for one in sample]
            for sample in samples_of(text, text_pair, is_split_into_words)
        ]
        protected = 1 if kwargs.get("truncation_strategy") == "only_first" else 0
        rows = [samples[sample] for sample in sample_numbers(encoded)]
        for encoding, texts in zip(encoded.encodings, rows, strict=True):
            if any(one.origins is not None for one in texts):
                _restore(encoding, texts)
        columns: dict[str, list[list]] = {
            "query_mask": [
                self._query_mask(encoding, texts, protected)
                for encoding, texts in zip(encoded.encodings, rows, strict=True)
            ]
        }
        if "offset_mapping" in encoded:
            columns["offset_mapping"] = [encoding.offsets for encoding in encoded.encodings]
        set_columns(encoded, columns, is_batch(text, is_split_into_words), return_tensors)
        return encoded

    def _query_mask(self, encoding: EncodingFast, texts: list[CuedText | CuedWords], protected: int) -> list[int]:
        """1 at the tokens of cue words, or of the one text of a pair that is the query."""
        segment = _SEGMENTS[self.query_segment]
        named = len(texts) == 2 and segment is not None
        if any(one.has_marker for one in texts) and not named:
            tokens = zip(encoding.sequence_ids, encoding.offsets, encoding.word_ids, strict=True)
            return [int(of is not None and texts[of].is_cue(offsets, word)) for of, offsets, word in tokens]
        segment = protected if segment is None else segment
        return [int(len(texts) == 2 and of == segment) for of in encoding.sequence_ids]

    def _to_encode(self, text: Any, split: bool) -> Any:
        """Return the given texts, in the same shape, with markers as they are to be encoded."""
        if isinstance(text, str) or (split and isinstance(text, list | tuple) and text and isinstance(text[0], str)):
            return read_cues(text, self.cue_marker).encoded
        if isinstance(text, list | tuple):
            texts = [self._to_encode(one, split) for one in text]
            return tuple(texts) if isinstance(text, tuple) else texts
        return text  # no text: the base says so


def _restore(encoding: EncodingFast, texts: list[CuedText | CuedWords]) -> None:
    """Let an encoding refer to the texts or words as given, in place.

    Its fields cannot be set one by one; what it is pickled as can.
    """
    state = json.loads(encoding.__getstate__())
    offsets, words = encoding.offsets, encoding.word_ids
    for place, of in enumerate(encoding.sequence_ids):
        if of is not None:
            state["offsets"][place], state["words"][place] = texts[of].restored(offsets[place], words[place])
    state["overflowing"] = []  # those that the call returns are encodings of their own, and others nobody reads
    encoding.__setstate__(json.dumps(state).encode())


OaXLNetTokenizer.register_for_auto_class("AutoTokenizer")
