"""Base class of the families' tokenizers: a backbone's fast tokenizer with further inputs for each token."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Self

from transformers import BatchEncoding, PreTrainedTokenizerFast

from .tokenizer_checks import check_file, check_settings, check_tokenizer, is_backends

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


class BackboneTokenizer(PreTrainedTokenizerFast):
    """A backbone's fast tokenizer with inputs of its own, one value for each token.

    A subclass computes them in `_encode_plus`, unless `add_own_inputs` is False there: ids and tokens alone do not
    need them. It stays equal to itself: no call changes its hash, so that `datasets` finds what it has computed.

    Args:
        own_inputs: the names of those of `OWN_INPUTS` that its calls give.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ()
    """The arguments that other tokenizers do not have."""

    OWN_INPUTS: ClassVar[dict[str, int]] = {}
    """The inputs that other tokenizers do not give, with their value at pads."""

    OWN_POSITIONS: ClassVar[tuple[str, ...]] = ()
    """Those of them whose values are positions of tokens, which padding on the left moves."""

    def __init__(self, *args: Any, own_inputs: Iterable[str] = (), **kwargs: Any):
        names = kwargs.pop("model_input_names", self.model_input_names)
        kwargs["model_input_names"] = [name for name in names if name not in self.OWN_INPUTS] + list(own_inputs)
        super().__init__(*args, **kwargs)
        splitter = self._tokenizer.pre_tokenizer
        if "add_prefix_space" in kwargs and hasattr(splitter, "add_prefix_space"):
            # The base class only remembers it; those of byte-level backbones (RoBERTa) heed it.
            splitter.add_prefix_space = self.add_prefix_space
        self._forget_call()

    @classmethod
    def from_backbone(cls, tokenizer: PreTrainedTokenizerFast, **settings: Any) -> Self:
        """Wrap a copy of a backbone's tokenizer, which encodes the same.

        Args:
            tokenizer: a fast one. One of this class keeps its settings where none are given.
            **settings: those of `SETTINGS`.

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
        if hasattr(backend.pre_tokenizer, "add_prefix_space"):  # what it does, whatever it was made from
            fields["add_prefix_space"] = backend.pre_tokenizer.add_prefix_space
        backend.no_truncation()  # the traces of calls, which would become settings
        backend.no_padding()
        return cls(tokenizer_object=backend, **(fields | settings))

    @classmethod
    def convert_to_native_format(cls, **kwargs: Any) -> dict[str, Any]:
        # Not taken apart and built anew, as the backbones' own classes do it: only the file knows what it all holds.
        return kwargs if kwargs.get("tokenizer_file") else super().convert_to_native_format(**kwargs)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As transformers' own.

        Raises:
            ValueError: the files name others, are no tokenizer's, or have patterns that could take a text for ever
                (tokenizer_checks.py).
            OSError: they cannot be fetched.
        """
        try:
            tokenizer = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except (ValueError, OSError, ImportError):
            raise
        except BaseException as error:  # of any class: values of a wrong type can break every line of the base classes
            if not is_backends(error):
                raise
            raise ValueError(
                f"The tokenizer files of {str(pretrained_model_name_or_path)!r} cannot be read: "
                f"{type(error).__name__}: {error}"
            ) from error
        check_tokenizer(tokenizer.backend_tokenizer)
        return tokenizer

    @classmethod
    def _from_pretrained(cls, resolved_vocab_files: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if path := resolved_vocab_files.get("tokenizer_config_file"):
            check_settings(path)
        if path := resolved_vocab_files.get("tokenizer_file"):
            check_file(path)
        return super()._from_pretrained(resolved_vocab_files, *args, **kwargs)

    @property
    def deprecation_warnings(self) -> dict[str, bool]:
        """The warnings given already, by whichever tokenizer of the process."""
        return _warned

    @deprecation_warnings.setter
    def deprecation_warnings(self, value: dict[str, bool]) -> None:
        """Not kept here: a warning would change the tokenizer's hash, and `datasets` forget what it has computed."""

    def tokenize(self, *args: Any, **kwargs: Any) -> list[str]:
        return super().tokenize(*args, **kwargs, add_own_inputs=False)

    def encode(self, *args: Any, **kwargs: Any) -> list[int]:
        return super().encode(*args, **kwargs, add_own_inputs=False)

    def _encode_plus(self, text: Any, text_pair: Any = None, **kwargs: Any) -> BatchEncoding:
        check_texts(text, text_pair, kwargs.get("is_split_into_words", False))
        try:
            return super()._encode_plus(text, text_pair, **kwargs)
        except BaseException as error:
            # The backend's errors have no type of their own, and some of them pass for none.
            if type(error) is not Exception and type(error).__name__ != "PanicException":
                raise
            remedy = "Give another `truncation`, `max_length` or `stride`."
            raise ValueError(f"`text` cannot be encoded: {error}. {remedy}") from error
        finally:
            self._forget_call()

    def _pad(self, encoded_inputs: Any, *args: Any, padding_side: str | None = None, **kwargs: Any) -> Any:
        name = self.model_input_names[0]
        length = len(encoded_inputs[name])
        padded = super()._pad(encoded_inputs, *args, padding_side=padding_side, **kwargs)
        added = len(padded[name]) - length
        left = added if (padding_side or self.padding_side) == "left" else 0
        for key, pad in self.OWN_INPUTS.items():
            if added and key in padded:
                shift = left if key in self.OWN_POSITIONS else 0
                values = [value + shift if value != pad else value for value in padded[key]]
                padded[key] = [pad] * left + values + [pad] * (added - left)
        return padded

    def _forget_call(self) -> None:
        """Take back what a call has set in the backend, which would change the tokenizer's hash as well."""
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()


def check_texts(text: Any, text_pair: Any, split: bool) -> None:
    """Raise `ValueError` for arguments of a call that are no text, pair or batch; it names the row.

    Args:
        text, text_pair: what is to be encoded.
        split: whether texts are lists of words.
    """
    batched = is_batch(text, split)
    if batched and not text:
        raise ValueError("`text` is an empty batch: give one text at least.")
    if batched and text_pair is not None and (not is_batch(text_pair, split) or len(text_pair) != len(text)):
        raise ValueError(f"`text` is a batch of {len(text)}: `text_pair` must be a batch of as many.")
    for name, given in (("text", text), ("text_pair", text_pair)):
        if given is None and name == "text_pair":
            continue
        for row, one in enumerate(given if batched else [given]):
            is_pair = batched and text_pair is None and not _is_text(one, split)
            parts = one if is_pair and isinstance(one, list | tuple) and len(one) == 2 else [one]
            if not all(_is_text(part, split) for part in parts):
                kind = "a list of words" if split else "a text"
                where = f"`{name}`, row {row}," if batched else f"`{name}`"
                raise ValueError(f"{where} must be {kind}, of whole characters; found {str(one)[:60]!r}.")


def _is_text(one: Any, split: bool) -> bool:
    words = one if split and isinstance(one, list | tuple) else [None if split else one]
    return all(isinstance(word, str) and (word.isascii() or _HALF.search(word) is None) for word in words)


# Half of a pair of UTF-16, which json can hold: it has no UTF-8, and so no backend takes it.
_HALF = re.compile("[\ud800-\udfff]")


def is_batch(text: Any, split: bool) -> bool:
    """Return True if the first argument of a call is a batch; with `split` its texts are lists of words."""
    if not isinstance(text, list | tuple):
        return False
    return not split or (bool(text) and isinstance(text[0], list | tuple))


def samples_of(text: Any, text_pair: Any, split: bool) -> list[tuple]:
    """The one or two texts of each row of a call: strings, or tuples of words."""
    if not is_batch(text, split):
        text = [text]
        text_pair = [text_pair] if text_pair else None
    single = (lambda one: not one or isinstance(one[0], str)) if split else (lambda one: isinstance(one, str))
    if text_pair is not None:
        samples = list(zip(text, text_pair, strict=True))
    else:
        samples = [(one,) if single(one) else tuple(one) for one in text]
    return [tuple(tuple(one) for one in sample) for sample in samples] if split else samples


def sample_numbers(encoded: BatchEncoding) -> Iterable[int]:
    """Return for each encoded row the number of the sample that it is a window of."""
    windows = encoded.get("overflow_to_sample_mapping")
    return range(len(encoded.encodings)) if windows is None else map(int, windows)


def set_columns(
    encoded: BatchEncoding, columns: Mapping[str, Sequence[Sequence]], batched: bool, return_tensors: Any
) -> None:
    """Add values of each token to encoded texts, in the shape that the call's other values have.

    Args:
        encoded: changed in place: the encodings behind `word_ids()` and the like stay.
        columns: by name, one row of values for each row of `encoded`.
        batched: whether the call had a batch.
        return_tensors: as in the call.
    """
    if not batched and return_tensors is None and "overflow_to_sample_mapping" not in encoded:
        values = {name: rows[0] for name, rows in columns.items()}
    else:
        values = dict(columns)
    encoded.update(BatchEncoding(values, tensor_type=return_tensors))
