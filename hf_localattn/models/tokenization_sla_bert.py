"""The tokenizer of syntax-aware local attention: any fast one, with the word of each token and the word's head."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from transformers import BatchEncoding
from transformers.utils import logging

from .sla_alignment import NO_WORD, STRUCTURE, Words, align, checked_heads
from .sla_parser import WORDS, load_pipeline, parse, pipeline_version, whitespace_words
from .tokenization_local_attention import BackboneTokenizer, is_batch, sample_numbers, samples_of, set_columns

logger = logging.get_logger(__name__)

DEFAULT_PARSER = "en_core_web_sm"
"""The spaCy pipeline that parses if none is named."""


class SlaBertTokenizer(BackboneTokenizer):
    """A backbone's fast tokenizer that adds the syntactic structure which the SLA models read.

    It encodes as the backbone's tokenizer does, and adds

    * `word_index` (B, L): the number of each token's word, counting on through the second text of a pair;
    * `dep_heads` (B, L): the position in the sequence of the first token of the word's head, the same for all tokens
      of a word. The root of a sentence, and a word whose head was cut off, have their own first token.

    Both are -1 at special tokens and pads. Special tokens are what tells the texts of a pair apart: without them
    (`add_special_tokens=False`) a pair counts as one text. A text is parsed whole, before it is cut or split into
    windows; recent parses are kept for the whole process. Made from a backbone's tokenizer by `from_backbone`.

    Calls take two more arguments, for `is_split_into_words=True`: `heads`, and for the second texts `heads_pair`, are
    ready-made heads, one list of word numbers (a batch: a list of these), counted from 0, the root with its own
    number. Then nothing is parsed, and no `parser` is needed.

    Args:
        parser: name or folder of the spaCy pipeline that parses, loaded when the first text needs it. It is saved
            as it is with the tokenizer, so a checkpoint for the Hub should name a pipeline that others can install,
            and no private folder. `None`: there are no `dep_heads`, which `local_attention="window"` does not need.
            A parser that only a checkpoint names has to be one that an installed distribution declares (entry points
            of the group `spacy_models`); pass `parser=` to `from_pretrained` for any other, such as a folder.
        words: whose words a text has: "parser", the pipeline's own tokens, which also serves languages without
            spaces; or "whitespace", as in the paper (appendix A.1). Without a parser white space splits in either
            case. Words that the caller has split stay as given.
        parser_version: version of the parser with which the tokenizer was saved. `from_pretrained` warns if another
            one is installed.

    Raises:
        ValueError: `words` is neither, or `parser` is not a name; in calls: heads that are no tree or for text that
            is not split, or a parser that the checkpoint may not name.
        ImportError, OSError: in calls: spaCy or the pipeline is not installed.
    """

    SETTINGS: ClassVar = ("parser", "words")
    OWN_INPUTS: ClassVar = dict.fromkeys(STRUCTURE, NO_WORD)
    OWN_POSITIONS: ClassVar = ("dep_heads",)

    def __init__(
        self,
        *args: Any,
        parser: str | os.PathLike[str] | None = DEFAULT_PARSER,
        words: str = "parser",
        parser_version: str | None = None,
        **kwargs: Any,
    ):
        if words not in WORDS:
            raise ValueError(f"`words` is {words!r}; choose one of {', '.join(map(repr, WORDS))}.")
        if parser is not None:
            parser = os.fspath(parser) if isinstance(parser, str | os.PathLike) else parser
            if not isinstance(parser, str) or not parser.strip() or not parser.isprintable():
                raise ValueError(f"`parser` is {parser!r}; give the name or the folder of a spaCy pipeline, or None.")
        if not isinstance(parser_version, str | None):
            raise ValueError(f"`parser_version` is {parser_version!r}; it must be text, or None.")
        self.parser: str | None = parser
        self.words = words
        self.parser_named_by_checkpoint = True  # until it is known: transformers asks for `parser_version` below
        self._saved_version = parser_version
        own = STRUCTURE if parser is not None else STRUCTURE[:1]
        super().__init__(*args, parser=parser, words=words, parser_version=parser_version, own_inputs=own, **kwargs)
        self.parser_named_by_checkpoint = False  # but by the caller, unless `from_pretrained` says otherwise

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As transformers' own; `parser=` names the spaCy pipeline in place of the checkpoint."""
        is_given = "parser" in kwargs
        if is_given:
            kwargs["parser_version"] = None  # of the checkpoint's
        tokenizer = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        tokenizer.parser_named_by_checkpoint = not is_given
        saved, found = tokenizer._saved_version, tokenizer.parser_version
        if saved != found and saved is not None:
            logger.warning(
                "The tokenizer was saved with version %s of the parser %r, and version %s is installed: its parses may"
                " differ.",
                *(saved, tokenizer.parser, found),
            )
        return tokenizer

    @classmethod
    def from_backbone(cls, tokenizer: Any, **settings: Any) -> Self:
        made = super().from_backbone(tokenizer, **settings)
        if "parser" in settings:
            made._saved_version = None
        else:  # whoever has named it for the other one has named it for this one
            by_checkpoint = "parser" in tokenizer.init_kwargs
            made.parser_named_by_checkpoint = getattr(tokenizer, "parser_named_by_checkpoint", by_checkpoint)
        return made

    @property
    def parser_version(self) -> str | None:
        """Version of the parser that is installed; where it is not, the one with which the tokenizer was saved."""
        if self.parser is None:
            return None
        found = pipeline_version(self.parser, named_by_checkpoint=self.parser_named_by_checkpoint)
        return found or self._saved_version

    def check_parser(self) -> None:
        """Load the parser, if there is one, as the first text would.

        Raises:
            ImportError, OSError, ValueError: it is not installed, cannot parse, or the checkpoint may not name it.
        """
        if self.parser is not None:
            load_pipeline(self.parser, named_by_checkpoint=self.parser_named_by_checkpoint)

    def _encode_plus(  # type: ignore[no-untyped-def]  # the base's many arguments are passed on as they come
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
                "`heads` are the heads of words, and this text is not split into words: pass lists of words and"
                " is_split_into_words=True."
            )
        encoded = super()._encode_plus(
            text, text_pair, is_split_into_words=is_split_into_words, return_tensors=return_tensors, **kwargs
        )
        if not add_own_inputs or encoded.encodings is None:
            return encoded

        batched = is_batch(text, is_split_into_words)
        if not batched:
            heads, heads_pair = (None if one is None else [one] for one in (heads, heads_pair))
        samples = samples_of(text, text_pair, is_split_into_words)
        segments = self._segments(samples, is_split_into_words, heads, heads_pair)
        rows = [
            align(
                encoding.sequence_ids,
                None if is_split_into_words else encoding.offsets,
                encoding.word_ids if is_split_into_words else None,
                segments[sample],
            )
            for encoding, sample in zip(encoded.encodings, sample_numbers(encoded), strict=True)
        ]
        structure = dict(zip(STRUCTURE, map(list, zip(*rows, strict=True)), strict=True))
        if self.parser is None and heads is None and heads_pair is None:
            del structure["dep_heads"]
        set_columns(encoded, structure, batched, return_tensors)
        return encoded

    def _segments(
        self, samples: list[tuple], split: bool, heads: Sequence | None, heads_pair: Sequence | None
    ) -> list[list[Words]]:
        """The words of the one or two texts of each sample."""
        if heads is not None or heads_pair is not None:
            rows = enumerate(samples)
            return [_segments_with_heads(sample, row, heads, heads_pair, len(samples)) for row, sample in rows]
        if self.parser is None:
            without = (lambda words: Words(len(words))) if split else whitespace_words
            return [[without(text) for text in sample] for sample in samples]
        texts = [text for sample in samples for text in sample]
        parses = parse(texts, self.parser, self.words, named_by_checkpoint=self.parser_named_by_checkpoint)
        parsed = iter(parses)
        return [[next(parsed) for _ in sample] for sample in samples]


def _segments_with_heads(
    sample: tuple, row: int, heads: Sequence | None, heads_pair: Sequence | None, number: int
) -> list[Words]:
    given = {"heads": heads, "heads_pair": heads_pair}
    segments = []
    for (name, lists), words in zip(given.items(), sample, strict=False):
        if lists is None:
            raise ValueError(f"`{name}` is missing: give the heads of both texts of a pair, or of none.")
        if len(lists) != number:
            raise ValueError(f"`{name}` has {len(lists)} lists for a batch of {number}: give one for each.")
        segments.append(checked_heads(lists[row], words, f"`{name}` of row {row}"))
    if heads_pair is not None and len(sample) == 1:
        raise ValueError("`heads_pair` are the heads of second texts, and there are none.")
    return segments


SlaBertTokenizer.register_for_auto_class("AutoTokenizer")
