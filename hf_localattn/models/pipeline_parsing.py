"""Pipelines of SLA for texts and tokens: transformers' own, except that a batch of texts is parsed together.

transformers' pipelines tokenize one text at a time, and a spaCy pipeline is several times slower on single texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar

from transformers.pipelines.base import Pipeline
from transformers.pipelines.text_classification import TextClassificationPipeline
from transformers.pipelines.token_classification import TokenClassificationPipeline


class ParsingPipeline(Pipeline):
    """Base class of pipelines that parse their inputs in batches of `batch_size`, as they are read.

    Results are those of the stock pipeline, which is built instead if the tokenizer does not parse.
    """

    stock: ClassVar[type[Pipeline]]
    """Pipeline of transformers for the same task."""

    def __new__(cls, **parts: Any) -> Any:
        if parts and not hasattr(parts.get("tokenizer"), "parse_ahead"):  # copying gives no parts
            return cls.stock(**parts)
        return super().__new__(cls)

    def __init__(self, **parts: Any):
        parts["tokenizer"].check_parser()  # before the first text
        super().__init__(**parts)

    def get_iterator(
        self, inputs: Any, num_workers: int, batch_size: int, preprocess_params: dict[str, Any], *others: Any
    ) -> Any:
        def parse(rows: list[Any]) -> None:
            split = preprocess_params.get("is_split_into_words", False)
            self.tokenizer.parse_ahead([text for row in rows for text in texts_of(row, split)])

        if batch_size > 1:
            inputs = parsed_rows(inputs, batch_size, parse)
        return super().get_iterator(inputs, num_workers, batch_size, preprocess_params, *others)


class ParsingTextClassificationPipeline(ParsingPipeline, TextClassificationPipeline):
    """Pipeline "text-classification" of SLA."""

    stock = TextClassificationPipeline


class ParsingTokenClassificationPipeline(ParsingPipeline, TokenClassificationPipeline):
    """Pipeline "token-classification" of SLA."""

    stock = TokenClassificationPipeline


def parsed_rows(inputs: Iterable[Any], batch_size: int, parse: Callable[[list[Any]], None]) -> Iterator[Any]:
    """Yield the inputs of a pipeline. Batches of `batch_size` are read and parsed together."""
    rest = iter(inputs)
    while rows := list(islice(rest, batch_size)):
        parse(rows)
        yield from rows


def texts_of(row: Any, split: bool) -> list[str | tuple[str, ...]]:
    """Return the texts of one input: strings or, with `split`, tuples of words. Other inputs have none.

    An input is a text, a list of words, `{"text": ..., "text_pair": ...}`, or `[[text, text_pair]]`.
    """
    if isinstance(row, Mapping):
        parts = [row.get("text"), row.get("text_pair")]
    elif split or isinstance(row, str):
        parts = [row]
    else:
        parts = row[0] if isinstance(row, list) and len(row) == 1 and isinstance(row[0], list) else []
    if not split:
        return [part for part in parts if isinstance(part, str)]
    lists = [part for part in parts if isinstance(part, list | tuple)]
    return [tuple(words) for words in lists if all(isinstance(word, str) for word in words)]
