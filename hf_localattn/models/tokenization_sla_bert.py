"""Tokenizer of syntax-aware local attention: a fast tokenizer that also returns words and their heads."""

import os
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, ClassVar, Self

from transformers import BatchEncoding
from transformers.tokenization_utils_base import EncodingFast
from transformers.utils import logging

from .configuration_local_attention import LocalAttentionConfig
from .configuration_sla_bert import STRUCTURE
from .fields_sla_bert import SlaBertSettings
from .sla_alignment import NO_WORD, Words, align, checked_heads, shuffled
from .sla_parser import load_pipeline, parse, whitespace_words
from .tokenization_local_attention import BackboneTokenizer, is_batch, sample_indices, samples_of, set_columns

logger = logging.get_logger(__name__)

CUE_MARKERS = ("[CUE]", "[CUE:affix]", "[CUE:single]", "[CUE:multi]")
"""Markers before the words of a negation cue, which are not parsed."""

PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_")
"""Characters that the authors' code takes for punctuation marks."""


class SlaBertTokenizer(SlaBertSettings, BackboneTokenizer):
    """Fast tokenizer of a backbone that also returns the syntactic structure for SLA models.

    `from_backbone` creates it from the backbone's tokenizer. It encodes texts in the same way, and adds

    * `word_index` (B, L): the index of each token's word. The second text of a pair continues the count.
    * `dep_heads` (B, L): the position in the sequence of the first token of the word's head. All tokens of a word have
      the same head. The root of a sentence, and a word whose head was truncated, point at their own first token.

    Both are -1 at special tokens and padding. With `open_punctuation`, `word_index` is -2 - index at punctuation
    marks. SLA models tell the two texts of a pair apart by the special tokens between them. Without these
    (`add_special_tokens=False`), they treat the pair as one text. A text is parsed as a whole, before it is truncated
    or split into windows. Recent parses are cached for the whole process. The tokenizer is saved with the version of
    its parser as `parser_version`, and `from_pretrained` warns if another version is installed.

    With `is_split_into_words=True`, calls also accept known heads as `heads`, and as `heads_pair` for second texts.
    Give one list of word indices per text, counted from 0; a root is its own head. The parser is not used then.
    A cue marker such as `[CUE]` in a list of words is not parsed and not counted: it belongs to the word after it.

    Raises:
        ValueError: A setting is invalid. In calls: `heads` do not form a tree, or the text is not split into words.
            Other errors are those of `check_parser`.

    Example:
        >>> from transformers import AutoTokenizer
        >>> from hf_localattn.resources import tiny_backbone
        >>> backbone = AutoTokenizer.from_pretrained(tiny_backbone())
        >>> tokenizer = SlaBertTokenizer.from_backbone(backbone)
        >>> encoded = tokenizer(["the", "farmer", "works"], is_split_into_words=True, heads=[1, 2, 2])
        >>> encoded.tokens()
        ['[CLS]', 'the', 'farm', '##er', 'work', '##s', '[SEP]']
        >>> encoded["word_index"]
        [-1, 0, 1, 1, 2, 2, -1]
        >>> encoded["dep_heads"]
        [-1, 2, 4, 4, 4, 4, -1]
    """

    OWN_INPUTS: ClassVar = dict.fromkeys(STRUCTURE, NO_WORD)
    OWN_POSITIONS: ClassVar = ("dep_heads",)

    def __init__(self, *args: Any, parser_version: str | None = None, **kwargs: Any):
        self.parser_named_by_checkpoint = True  # to be safe, since `super().__init__` reads `parser_version`
        self._saved_version = parser_version
        parser = kwargs.get("parser", self.parser)
        if isinstance(parser, os.PathLike):
            kwargs["parser"] = os.fspath(parser)
        own_inputs = STRUCTURE if parser is not None else STRUCTURE[:1]
        super().__init__(*args, parser_version=parser_version, own_inputs=own_inputs, **kwargs)
        self.parser_named_by_checkpoint = False  # `from_pretrained` sets it

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Load a tokenizer; `parser=` replaces the spaCy pipeline that the checkpoint names."""
        is_given = "parser" in kwargs
        if is_given:
            kwargs["parser_version"] = None  # the saved version belongs to another parser
        tokenizer = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        tokenizer.parser_named_by_checkpoint = not is_given
        saved = tokenizer._saved_version
        installed = tokenizer.parser_version
        if saved != installed and saved is not None:
            logger.warning(
                "The tokenizer was saved with version %s of the parser %r, but version %s is installed. Parses may"
                " differ.",
                *(saved, tokenizer.parser, installed),
            )
        return tokenizer

    @classmethod
    def from_backbone(cls, tokenizer: Any, **settings: Any) -> Self:
        made = super().from_backbone(tokenizer, **settings)
        if "parser" in settings:
            made._saved_version = None
        else:  # same parser as in `tokenizer`: keep whether the caller or a checkpoint named it
            by_checkpoint = "parser" in tokenizer.init_kwargs
            made.parser_named_by_checkpoint = getattr(tokenizer, "parser_named_by_checkpoint", by_checkpoint)
        return made

    @property
    def parser_version(self) -> str | None:
        """Version of the installed parser; the saved version if it is not installed, or without the package."""
        if self.parser is None:
            return None
        version: str | None = LocalAttentionConfig.installed.parser_version(
            self.parser, self.parser_named_by_checkpoint
        )
        return version or self._saved_version

    def check_parser(self) -> None:
        """Load the parser, if any, before the first text needs it.

        Raises:
            ImportError: spaCy is not installed.
            OSError: The pipeline is not installed.
            ValueError: The pipeline cannot parse, or is a folder that a checkpoint, not the caller, named.
        """
        if self.parser is not None:
            load_pipeline(self.parser, named_by_checkpoint=self.parser_named_by_checkpoint)

    def parse_ahead(self, texts: Sequence[str | tuple[str, ...]]) -> None:
        """Parse texts together and cache the parses, so that the next calls with these texts need no parser.

        A spaCy pipeline parses a batch several times as fast as single texts. Without a parser nothing is done.

        Args:
            texts: Strings, or tuples of words.

        Raises:
            ValueError: A text is too long for spaCy. Others are those of `check_parser`.
        """
        if self.parser is not None:
            parse(texts, self.parser, self.words, named_by_checkpoint=self.parser_named_by_checkpoint)

    def _encode_plus(  # type: ignore[no-untyped-def]  # passes the base class's many arguments on
        self,
        text,
        text_pair=None,
        *,
        is_split_into_words: bool = False,
        return_tensors=None,
        heads=None,
        heads_pair=None,
        add_own_inputs: bool = True,
        **kwargs,
    ) -> BatchEncoding:
        if not is_split_into_words and (heads is not None or heads_pair is not None):
            raise ValueError(
                "`heads` are the heads of words, but this text is not split into words: pass lists of words and"
                " is_split_into_words=True."
            )
        encoded = super()._encode_plus(
            text, text_pair, is_split_into_words=is_split_into_words, return_tensors=return_tensors, **kwargs
        )
        if not add_own_inputs or encoded.encodings is None:
            return encoded

        batched = is_batch(text, is_split_into_words)
        if not batched:
            heads = None if heads is None else [heads]
            heads_pair = None if heads_pair is None else [heads_pair]
        samples = samples_of(text, text_pair, is_split_into_words)
        segments = self._segments(samples, is_split_into_words, heads, heads_pair)
        structure: dict[str, list[list[int]]] = {name: [] for name in STRUCTURE}
        for encoding, sample in zip(encoded.encodings, sample_indices(encoded), strict=True):
            word_ids = _words_of_tokens(encoding, samples[sample]) if is_split_into_words else None
            offsets = None if is_split_into_words else encoding.offsets
            word_index, dep_heads = align(encoding.sequence_ids, offsets, word_ids, segments[sample])
            if self.open_punctuation:
                word_index = _with_open_punctuation(word_index, encoding)
            structure["word_index"].append(word_index)
            structure["dep_heads"].append(dep_heads)
        if self.parser is None and heads is None and heads_pair is None:
            del structure["dep_heads"]
        set_columns(encoded, structure, batched, return_tensors)
        return encoded

    def _segments(
        self, samples: list[tuple], split: bool, heads: Sequence | None, heads_pair: Sequence | None
    ) -> list[list[Words]]:
        """Return the words of the one or two texts of each sample."""
        if split:
            samples = [tuple(tuple(filter(_is_word, words)) for words in sample) for sample in samples]
        if heads is not None or heads_pair is not None:
            rows = enumerate(samples)
            return [_segments_with_heads(sample, row, heads, heads_pair, len(samples)) for row, sample in rows]
        if self.parser is None:
            without = (lambda words: Words(len(words))) if split else whitespace_words
            return [[without(text) for text in sample] for sample in samples]
        texts = [text for sample in samples for text in sample]
        parses = parse(texts, self.parser, self.words, named_by_checkpoint=self.parser_named_by_checkpoint)
        if self.shuffle_trees:
            parses = [shuffled(parsed, seed=repr(text)) for parsed, text in zip(parses, texts, strict=True)]
        parsed = iter(parses)
        return [[next(parsed) for _ in sample] for sample in samples]


def _with_open_punctuation(word_index: Sequence[int], encoding: EncodingFast) -> list[int]:
    """Replace the index of a punctuation mark by -2 - index."""
    marks = (PUNCTUATION.issuperset(token.lstrip("Ġ▁") or " ") for token in encoding.tokens)
    return [-2 - word if mark and word != NO_WORD else word for word, mark in zip(word_index, marks, strict=True)]


def _is_word(word: str) -> bool:
    return word not in CUE_MARKERS


def _words_of_tokens(encoding: EncodingFast, sample: tuple) -> list[int | None]:
    """Return the index of each token's word, not counting cue markers. A marker belongs to the word after it."""
    before = [[0, *accumulate(map(_is_word, words))] for words in sample]
    indices: list[int | None] = []
    for word, text in zip(encoding.word_ids, encoding.sequence_ids, strict=True):
        if word is None or text is None:
            indices.append(None)
        else:
            indices.append(min(before[text][word], before[text][-1] - 1))
    return indices


def _segments_with_heads(
    sample: tuple, row: int, heads: Sequence | None, heads_pair: Sequence | None, count: int
) -> list[Words]:
    arguments = {"heads": heads, "heads_pair": heads_pair}
    segments = []
    for (name, lists), words in zip(arguments.items(), sample, strict=False):
        if lists is None:
            raise ValueError(f"`{name}` is missing: give heads for both texts of a pair, or for neither.")
        if len(lists) != count:
            raise ValueError(f"`{name}` has {len(lists)} lists for a batch of {count}: give one list per row.")
        segments.append(checked_heads(lists[row], words, f"`{name}` of row {row}"))
    if heads_pair is not None and len(sample) == 1:
        raise ValueError("`heads_pair` are the heads of second texts, but there are none: leave it out.")
    return segments


SlaBertTokenizer.register_for_auto_class("AutoTokenizer")
