"""The tokenizer of syntax-aware local attention: any fast one, with the word of each token and the word's head."""

import os
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar

from transformers import BatchEncoding, PreTrainedTokenizerFast

from .dependency_parser import WORDS, load_pipeline, parse, whitespace_words
from .word_alignment import NO_WORD, STRUCTURE, Words, align, checked_heads

# Settings that say where a tokenizer was loaded from, or which padding and truncation its file had baked in: calls
# settle these by themselves.
_NOT_CARRIED_OVER = {
    *("vocab_file", "merges_file", "tokenizer_file", "special_tokens_map_file", "added_tokens_decoder", "auto_map"),
    *("vocab", "merges", "tokenizer_object", "is_local", "local_files_only", "add_bos_token", "add_eos_token"),
    *("max_length", "stride", "truncation_strategy", "pad_to_multiple_of"),
}

_CARRIED_OVER = (
    *("name_or_path", "model_max_length", "padding_side", "truncation_side", "model_input_names", "chat_template"),
    *("clean_up_tokenization_spaces", "split_special_tokens"),
)

_warned: dict[str, bool] = {}


class SlaBertTokenizer(PreTrainedTokenizerFast):
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
        words: whose words a text has: "parser", the pipeline's own tokens, which also serves languages without
            spaces; or "whitespace", as in the paper (appendix A.1). Without a parser white space splits in either
            case. Words that the caller has split stay as given.

    Raises:
        ValueError: `words` is neither; in calls: heads that are no tree or for text that is not split.
        ImportError, OSError: in calls: spaCy or the pipeline is not installed.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("parser", "words")
    """The arguments that other tokenizers do not have."""

    def __init__(
        self,
        *args: Any,
        parser: str | os.PathLike[str] | None = "en_core_web_sm",
        words: str = "parser",
        **kwargs: Any,
    ):
        if words not in WORDS:
            raise ValueError(f"`words` is {words!r}; choose one of {', '.join(map(repr, WORDS))}.")
        if parser is not None and not isinstance(parser, str | os.PathLike):
            raise ValueError(f"`parser` is {parser!r}; give the name or the folder of a spaCy pipeline, or None.")
        self.parser = None if parser is None else os.fspath(parser)
        self.words = words
        names = kwargs.pop("model_input_names", self.model_input_names)
        kwargs["model_input_names"] = [name for name in names if name not in STRUCTURE] + list(
            STRUCTURE if parser is not None else STRUCTURE[:1]
        )
        super().__init__(*args, parser=self.parser, words=words, **kwargs)
        self._forget_call()

    @classmethod
    def from_backbone(cls, tokenizer: PreTrainedTokenizerFast, **settings: Any) -> "SlaBertTokenizer":
        """Wrap a copy of a backbone's tokenizer, which encodes the same.

        Args:
            tokenizer: a fast one. One of this class keeps its settings where none are given.
            **settings: `parser` and `words`.

        Raises:
            ValueError: the tokenizer is a slow one, or a setting is unknown.
        """
        if unknown := [name for name in settings if name not in cls.SETTINGS]:
            raise ValueError(f"{cls.__name__} has no setting {unknown[0]!r}; it has {', '.join(cls.SETTINGS)}.")
        if isinstance(tokenizer, str | os.PathLike):
            raise ValueError(f"Give a tokenizer, not its name: AutoTokenizer.from_pretrained({str(tokenizer)!r}).")
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(
                f"{type(tokenizer).__name__} is a slow tokenizer, which does not say where in the text its tokens are."
                " Load the backbone's fast one (AutoTokenizer does where there is a tokenizer.json)."
            )
        # What it was made from, and above that what may have been changed since.
        fields = {name: value for name, value in tokenizer.init_kwargs.items() if name not in _NOT_CARRIED_OVER}
        fields |= {name: getattr(tokenizer, name) for name in _CARRIED_OVER}
        fields["extra_special_tokens"] = list(tokenizer._extra_special_tokens)
        fields["model_specific_special_tokens"] = {}
        for name, token in tokenizer._special_tokens_map.items():
            own = name not in cls.SPECIAL_TOKENS_ATTRIBUTES
            (fields["model_specific_special_tokens"] if own else fields)[name] = token
        fields = {name: value for name, value in fields.items() if value not in (None, [], {})}
        backend = deepcopy(tokenizer.backend_tokenizer)
        backend.no_truncation()  # the traces of calls, which would become settings
        backend.no_padding()
        return cls(tokenizer_object=backend, **(fields | settings))

    @classmethod
    def convert_to_native_format(cls, **kwargs: Any) -> dict[str, Any]:
        # Not taken apart and built anew, as the backbones' own classes do it: only the file knows what it all holds.
        return kwargs if kwargs.get("tokenizer_file") else super().convert_to_native_format(**kwargs)

    @property
    def deprecation_warnings(self) -> dict[str, bool]:
        """The warnings given already, by whichever tokenizer of the process."""
        return _warned

    @deprecation_warnings.setter
    def deprecation_warnings(self, value: dict[str, bool]) -> None:
        """Not kept here: a warning would change the tokenizer's hash, and `datasets` forget what it has computed."""

    def check_parser(self) -> None:
        """Load the parser, if there is one, as the first text would.

        Raises:
            ImportError, OSError, ValueError: it is not installed, or cannot parse.
        """
        if self.parser is not None:
            load_pipeline(self.parser)

    def tokenize(self, *args: Any, **kwargs: Any) -> list[str]:
        return super().tokenize(*args, **kwargs, add_structure=False)

    def encode(self, *args: Any, **kwargs: Any) -> list[int]:
        return super().encode(*args, **kwargs, add_structure=False)

    def _encode_plus(  # type: ignore[no-untyped-def]  # the base's many arguments are passed on as they come
        self,
        text,
        text_pair=None,
        *,
        is_split_into_words: bool = False,
        return_tensors=None,
        return_overflowing_tokens: bool = False,
        heads=None,
        heads_pair=None,
        add_structure: bool = True,
        **kwargs,
    ) -> BatchEncoding:
        if not is_split_into_words and (heads is not None or heads_pair is not None):
            raise ValueError(
                "`heads` are the heads of words, and this text is not split into words: pass lists of words and"
                " is_split_into_words=True."
            )
        try:
            encoded = super()._encode_plus(
                text,
                text_pair,
                is_split_into_words=is_split_into_words,
                return_tensors=return_tensors,
                return_overflowing_tokens=return_overflowing_tokens,
                **kwargs,
            )
        finally:
            self._forget_call()
        if not add_structure or encoded.encodings is None:
            return encoded

        if is_split_into_words:
            batched = bool(text) and isinstance(text[0], (list, tuple))
        else:
            batched = isinstance(text, (list, tuple))
        if not batched:
            text = [text]
            text_pair = [text_pair] if text_pair else None
            heads, heads_pair = (None if one is None else [one] for one in (heads, heads_pair))
        samples = _samples(text, text_pair, is_split_into_words)
        segments = self._segments(samples, is_split_into_words, heads, heads_pair)
        of_sample = encoded["overflow_to_sample_mapping"] if return_overflowing_tokens else range(len(samples))
        rows = [
            align(
                encoding.sequence_ids,
                None if is_split_into_words else encoding.offsets,
                encoding.word_ids if is_split_into_words else None,
                segments[int(sample)],
            )
            for encoding, sample in zip(encoded.encodings, of_sample, strict=True)
        ]
        structure = dict(zip(STRUCTURE, map(list, zip(*rows, strict=True)), strict=True))
        if self.parser is None and heads is None and heads_pair is None:
            del structure["dep_heads"]
        if not batched and return_tensors is None and not return_overflowing_tokens:
            structure = {name: values[0] for name, values in structure.items()}
        # In place: the encodings behind `word_ids()` and the like stay.
        encoded.update(BatchEncoding(structure, tensor_type=return_tensors))
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
        parsed = iter(parse([text for sample in samples for text in sample], self.parser, self.words))
        return [[next(parsed) for _ in sample] for sample in samples]

    def _pad(self, encoded_inputs: Any, *args: Any, padding_side: str | None = None, **kwargs: Any) -> Any:
        name = self.model_input_names[0]
        length = len(encoded_inputs[name])
        padded = super()._pad(encoded_inputs, *args, padding_side=padding_side, **kwargs)
        added = len(padded[name]) - length
        left = added if (padding_side or self.padding_side) == "left" else 0
        for key, shift in zip(STRUCTURE, (0, left), strict=True):
            if added and key in padded:
                values = [value + shift if value != NO_WORD else value for value in padded[key]]
                padded[key] = [NO_WORD] * left + values + [NO_WORD] * (added - left)
        return padded

    def _forget_call(self) -> None:
        """Take back what a call has set in the backend, which would change the tokenizer's hash as well."""
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()


def _samples(text: Sequence, text_pair: Sequence | None, split: bool) -> list[tuple]:
    """The one or two texts of each row of a batch: strings, or tuples of words."""
    single = (lambda one: not one or isinstance(one[0], str)) if split else (lambda one: isinstance(one, str))
    if text_pair is not None:
        samples = list(zip(text, text_pair, strict=True))
    else:
        samples = [(one,) if single(one) else tuple(one) for one in text]
    return [tuple(tuple(one) for one in sample) for sample in samples] if split else samples


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
