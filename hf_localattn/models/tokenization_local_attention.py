"""Base class of the families' tokenizers: a backbone's fast tokenizer that returns additional inputs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from transformers import BatchEncoding, PreTrainedTokenizerFast

from .configuration_local_attention import LocalAttentionConfig
from .fields import Settings, check_types, field_types

_warned: dict[str, bool] = {}


class BackboneTokenizer(Settings, PreTrainedTokenizerFast):
    """Fast tokenizer of a backbone that returns additional inputs, one value per token.

    A subclass computes those of `OWN_INPUTS` that `own_inputs` names in `_encode_plus`, unless its argument
    `add_own_inputs` is False. Calls do not change the tokenizer's hash, a part of the cache keys of `datasets`.
    """

    SETTINGS: ClassVar[dict[str, Any]] = {}
    """Types of the arguments that other tokenizers do not have, by name: the annotated attributes of a `Settings`."""

    OWN_INPUTS: ClassVar[dict[str, int]] = {}
    """Names of the additional inputs, with their values at padding."""

    OWN_POSITIONS: ClassVar[tuple[str, ...]] = ()
    """Names of the additional inputs whose values are positions of tokens. Padding on the left shifts them."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        tokenizer_class: Any = cls  # which mypy takes for unhashable
        cls.SETTINGS = field_types(tokenizer_class)

    def __init__(self, *args: Any, own_inputs: Iterable[str] = (), **kwargs: Any):
        for name in self.SETTINGS:
            value = kwargs.setdefault(name, getattr(type(self), name))
            setattr(self, name, value)
        check_types(self, self.SETTINGS)
        names = kwargs.pop("model_input_names", self.model_input_names)
        kwargs["model_input_names"] = [name for name in names if name not in self.OWN_INPUTS] + list(own_inputs)
        super().__init__(*args, **kwargs)
        splitter = self.backend_tokenizer.pre_tokenizer
        if "add_prefix_space" in kwargs and hasattr(splitter, "add_prefix_space"):
            # The base class does not apply it, but the tokenizers of byte-level backbones (RoBERTa) do.
            splitter.add_prefix_space = self.add_prefix_space
        self._forget_call()

    @classmethod
    def from_backbone(cls, tokenizer: PreTrainedTokenizerFast, **settings: Any) -> Self:
        """Create a tokenizer that encodes like a backbone's tokenizer.

        Args:
            tokenizer: A fast tokenizer, which is copied. If it is of this class, its settings are the defaults.
            **settings: Values for names in `SETTINGS`.

        Raises:
            ImportError: The class comes from a checkpoint and not from the package.
            ValueError: The tokenizer is slow, or a setting is unknown.
        """
        return LocalAttentionConfig.installed.build_tokenizer(cls, tokenizer, **settings)

    @classmethod
    def convert_to_native_format(cls, **kwargs: Any) -> dict[str, Any]:
        # The backbones' classes rebuild the tokenizer from its parts and may lose some. The file has all parts.
        return kwargs if kwargs.get("tokenizer_file") else super().convert_to_native_format(**kwargs)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Load a tokenizer as in transformers."""
        LocalAttentionConfig.installed.check_checkpoint(pretrained_model_name_or_path, kwargs)
        return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    @property
    def deprecation_warnings(self) -> dict[str, bool]:
        """Warnings that any tokenizer of the process has already given."""
        return _warned

    @deprecation_warnings.setter
    def deprecation_warnings(self, value: dict[str, bool]) -> None:
        """Ignore the value, since it would change the tokenizer's hash and invalidate the cache of `datasets`."""

    def tokenize(self, *args: Any, **kwargs: Any) -> list[str]:
        return super().tokenize(*args, **kwargs, add_own_inputs=False)

    def encode(self, *args: Any, **kwargs: Any) -> list[int]:
        return super().encode(*args, **kwargs, add_own_inputs=False)

    def _encode_plus(self, text: Any, text_pair: Any = None, **kwargs: Any) -> BatchEncoding:
        LocalAttentionConfig.installed.check_texts(text, text_pair, kwargs.get("is_split_into_words", False))
        try:
            return super()._encode_plus(text, text_pair, **kwargs)
        except Exception as error:
            if type(error) is not Exception:  # the backend's errors, such as a text too short to truncate
                raise
            raise ValueError(f"`text` cannot be encoded: {error}.") from error
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
        """Reset what a call sets in the backend, since it would change the tokenizer's hash."""
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()


def is_batch(text: Any, split: bool) -> bool:
    """Return True if the first argument of a call is a batch. With `split`, its texts are lists of words."""
    if not isinstance(text, list | tuple):
        return False
    return not split or (bool(text) and isinstance(text[0], list | tuple))


def samples_of(text: Any, text_pair: Any, split: bool) -> list[tuple]:
    """Return the one or two texts of each row of a call, as strings or as tuples of words."""
    if not is_batch(text, split):
        text = [text]
        text_pair = [text_pair] if text_pair else None
    if text_pair is not None:
        samples = list(zip(text, text_pair, strict=True))
    elif split:
        samples = [(row,) if not row or isinstance(row[0], str) else tuple(row) for row in text]
    else:
        samples = [(row,) if isinstance(row, str) else tuple(row) for row in text]
    return [tuple(map(tuple, sample)) for sample in samples] if split else samples


def sample_indices(encoded: BatchEncoding) -> Iterable[int]:
    """Return the sample index of each encoded row."""
    windows = encoded.get("overflow_to_sample_mapping")
    return range(len(encoded.encodings)) if windows is None else map(int, windows)


def set_columns(
    encoded: BatchEncoding, columns: Mapping[str, Sequence[Sequence]], batched: bool, return_tensors: Any
) -> None:
    """Add columns of values, one row for each encoded text, as lists or tensors like the other columns.

    `encoded` is changed in place, since `word_ids()` reads its encodings.
    """
    if not batched and return_tensors is None and "overflow_to_sample_mapping" not in encoded:
        columns = {name: rows[0] for name, rows in columns.items()}
    encoded.update(BatchEncoding(dict(columns), tensor_type=return_tensors))
