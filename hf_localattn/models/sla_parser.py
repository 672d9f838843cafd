"""Dependency parsing of texts and of lists of words with spaCy.

Loaded pipelines and recent parses are cached in this module, for the whole process. They cannot be attributes of the
tokenizer, because `datasets` finds cached results by the tokenizer's hash, which must not change. The installed
package can also keep parses in a folder.
"""

import os
import re
from array import array
from collections.abc import Hashable, Iterable, Sequence
from itertools import compress
from typing import Any

from .configuration_local_attention import LocalAttentionConfig
from .sla_alignment import Words

MAX_CACHED_WORDS = 1_000_000
"""Largest number of words in the cache of parses, about 100 MB with their texts."""


class ParseCache(dict[Hashable, Words]):
    """Cache of parses, which forgets the oldest ones if they have more than `MAX_CACHED_WORDS` words together."""

    size = 0

    def put(self, key: Hashable, parse: Words) -> None:
        """Store a parse that is not in the cache."""
        self[key] = parse
        self.size += parse.count + 1  # a text without words takes memory, too
        while self.size > MAX_CACHED_WORDS:
            self.size -= self.pop(next(iter(self))).count + 1

    def clear(self) -> None:
        """Forget all parses."""
        super().clear()
        self.size = 0


_cache = ParseCache()
_pipelines: dict[tuple[str, bool], Any] = {}


def parse(
    texts: Sequence[str | tuple[str, ...]], parser: str, words: str = "parser", *, named_by_checkpoint: bool = False
) -> list[Words]:
    """Return the words of each text, with their heads. Texts that are in no cache go through the pipeline together.

    Texts are strings or tuples of words, which are not split further; blank words are not parsed and become roots. The
    other arguments are settings of the tokenizer.
    """
    keys = {text: (parser, named_by_checkpoint, words, text) for text in texts}
    parses = {text: _cache[key] for text, key in keys.items() if key in _cache}
    if unknown := [text for text in keys if text not in parses]:
        pipeline = load_pipeline(parser, named_by_checkpoint=named_by_checkpoint)
        store = LocalAttentionConfig.installed
        settings = words, parser, pipeline
        parses |= store.read_parses(unknown, *settings) or {}
        new = [text for text in unknown if text not in parses]
        documents = pipeline.pipe(_document(text, words, pipeline) for text in new)
        parsed = {text: _words(text, words, document, parser) for text, document in zip(new, documents, strict=True)}
        store.write_parses(parsed, *settings)
        parses |= parsed
        for text in unknown:
            _cache.put(keys[text], parses[text])
    return [parses[text] for text in texts]


def whitespace_words(text: str) -> Words:
    """Split a text at white space, without heads."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    starts = array("i", [start for start, _ in spans])
    ends = array("i", [end for _, end in spans])
    return Words(len(spans), None, starts, ends)


def load_pipeline(parser: str, *, named_by_checkpoint: bool = False) -> Any:
    """Load a spaCy pipeline once per process.

    spaCy imports any installed package by its name and loads any folder, and both may run code. The installed package
    therefore loads a pipeline that only a checkpoint names only if an installed distribution declares it. Code that
    was saved with a checkpoint is trusted, and loads it like any other.

    Raises:
        ImportError: spaCy is not installed.
        OSError: The pipeline is not installed, or not in the folder.
        ValueError: The pipeline has no dependency parser, or a checkpoint names a folder.
    """
    key = (parser, named_by_checkpoint)
    if key not in _pipelines:
        declared = LocalAttentionConfig.installed.load_parser(parser) if named_by_checkpoint else None
        pipeline = _load_given(parser) if declared is None else declared
        parses = any("token.head" in pipeline.get_pipe_meta(name).assigns for name in pipeline.pipe_names)
        if not parses:
            raise ValueError(
                f"The spaCy pipeline {parser!r} has no dependency parser (its components: "
                f"{', '.join(pipeline.pipe_names) or 'none'}). Set the tokenizer's `parser` to one that has it."
            )
        LocalAttentionConfig.installed.lighten_parser(pipeline)
        _pipelines[key] = pipeline
    return _pipelines[key]


def _load_given(parser: str) -> Any:
    try:
        return import_spacy().load(parser)
    except OSError as error:
        remedy = " The folder does not exist." if os.sep in parser else download_hint(parser)
        raise OSError(
            f"Cannot load the spaCy pipeline {parser!r}: {error} --{remedy} Set the tokenizer's `parser` to an"
            " installed pipeline, or to the folder of one (in scripts: `--local_config parser=NAME`)."
            f" {WITHOUT_PARSER}"
        ) from error


def download_hint(parser: str) -> str:
    """Return the command that installs a pipeline, if its name looks like one of spaCy's pipelines."""
    is_like_spacys = re.fullmatch(r"[a-z]{2,3}_\w+", parser)
    return f" If it is one of spaCy's, install it with `python -m spacy download {parser}`." if is_like_spacys else ""


WITHOUT_PARSER = (
    'To do without a parser, load the model with `local_attention="window"` (in pipelines:'
    ' `model_kwargs={"local_attention": "window"}`), and its tokenizer with `AutoTokenizer.from_pretrained(CHECKPOINT,'
    " parser=None)`."
)


def import_spacy() -> Any:
    """Import spaCy, with the remedy in the error if it is not installed."""
    try:
        import spacy
    except ImportError as error:
        raise ImportError(
            "Syntax-aware local attention parses texts with spaCy, which is not installed: pip install spacy."
            f" {WITHOUT_PARSER}"
        ) from error
    return spacy


def _document(text: str | tuple[str, ...], words: str, pipeline: Any) -> Any:
    """Return the input of `pipeline.pipe`: a text that the pipeline splits, or a document with fixed words."""
    if isinstance(text, str) and words == "parser":
        return text
    fixed = text.split() if isinstance(text, str) else [word for word in text if word.strip()]
    return import_spacy().tokens.Doc(pipeline.vocab, words=fixed)


def _words(text: str | tuple[str, ...], words: str, document: Any, parser: str) -> Words:
    """Convert a parsed document to `Words`."""
    columns = document.to_array(["IDX", "LENGTH", "HEAD", "IS_SPACE"]).view("int64").T
    starts, lengths, heads, blank = columns.tolist()
    heads = [word + head for word, head in enumerate(heads)]  # heads in spaCy are relative; a root's is 0
    if not isinstance(text, str):
        parsed = [index for index, word in enumerate(text) if word.strip()]
        heads_in_text = list(range(len(text)))  # blank words are roots
        for index, head in zip(parsed, heads, strict=True):
            heads_in_text[index] = parsed[head]
        return Words(len(text), array("i", heads_in_text))
    if words == "whitespace":
        split = whitespace_words(text)
        return Words(split.count, array("i", heads), split.starts, split.ends)
    if document.text != text:
        raise ValueError(
            f"The tokenizer of the spaCy pipeline {parser!r} changes the text ({text[:40]!r} became"
            f" {document.text[:40]!r}), so its words cannot be found in the text. Use another `parser`, or"
            " words='whitespace'."
        )
    if any(blank):
        heads = _without(blank, heads)
        kept = [not is_blank for is_blank in blank]
        starts = list(compress(starts, kept))
        lengths = list(compress(lengths, kept))
    ends = (start + length for start, length in zip(starts, lengths, strict=True))
    return Words(len(heads), array("i", heads), array("i", starts), array("i", ends))


def _without(out: Sequence[int], heads: Sequence[int]) -> list[int]:
    """Remove the tokens marked in `out` and renumber heads; their dependents are attached to their heads."""
    kept = [token for token, gone in enumerate(out) if not gone]
    word_of = {token: word for word, token in enumerate(kept)}

    def climb(token: int) -> Iterable[int]:
        while heads[token] != token:
            token = heads[token]
            yield token

    return [word_of[next((head for head in climb(token) if not out[head]), token)] for token in kept]
