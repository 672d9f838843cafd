"""Dependency parses of texts and of given words, by spaCy.

Loaded pipelines and recent parses are kept in this module, for the whole process, and not on the tokenizer, which has
to stay small and equal to itself: `datasets` recognizes what it has computed before by the tokenizer's hash.
"""

import json
import os
import re
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from transformers.utils import TRANSFORMERS_DYNAMIC_MODULE_NAME

from .sla_alignment import Words

WORDS = ("parser", "whitespace")
"""Whose words a text has: the pipeline's own tokens, or what stands between white space."""

MAX_CACHED_WORDS = 1_000_000
"""Most words of the parses that this process keeps: about 100 MB with their texts."""

COMES_WITH_CHECKPOINT = __name__.partition(".")[0] == TRANSFORMERS_DYNAMIC_MODULE_NAME
"""True in the copy of this file that a checkpoint brings along, which runs only with `trust_remote_code=True`."""

ENTRY_POINTS = "spacy_models"
"""The group of entry points by which an installed distribution declares a spaCy pipeline."""

# They write what no parser reads, unless it was built to; any other component before the parser may matter to it.
_NEEDLESS = {
    *("tagger", "morphologizer", "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "textcat"),
    *("ner", "beam_ner", "entity_ruler", "entity_linker", "span_ruler", "spancat", "spancat_singlelabel"),
    *("textcat_multilabel", "span_finder", "span_cleaner"),
}
_WRITTEN_BY_THEM = ("TAG", "POS", "MORPH", "LEMMA", "ENT_TYPE", "ENT_IOB")


class ParseCache:
    """The parses used last, as many as have `capacity` words together."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.size = 0
        self._parses: OrderedDict[Hashable, Words] = OrderedDict()

    def __len__(self) -> int:
        return len(self._parses)

    def get(self, key: Hashable) -> Words | None:
        """Return the value kept under a key; None if it is no longer there."""
        parse = self._parses.pop(key, None)
        if parse is not None:
            self._parses[key] = parse
        return parse

    def put(self, key: Hashable, parse: Words) -> None:
        """Keep a parse, and forget those that were not used for the longest time where it gets too many."""
        replaced = self._parses.pop(key, None)
        self.size += _size(parse) - (_size(replaced) if replaced else 0)
        self._parses[key] = parse
        while self.size > self.capacity:
            _, forgotten = self._parses.popitem(last=False)
            self.size -= _size(forgotten)

    def clear(self) -> None:
        """Forget all."""
        self._parses.clear()
        self.size = 0


def _size(parse: Words) -> int:
    return parse.number + 1  # a text without words takes room, too


_cache = ParseCache(MAX_CACHED_WORDS)
_pipelines: dict[tuple[str, bool], Any] = {}


def parse(
    texts: Sequence[str | tuple[str, ...]], parser: str, words: str = "parser", *, named_by_checkpoint: bool = False
) -> list[Words]:
    """Parse texts, all that are not known yet in one go.

    Args:
        texts: each a string, or a tuple of words, which stay as they are; those that are empty or white space are not
            shown to the parser and become roots.
        parser: name or folder of a spaCy pipeline with a dependency parser.
        words: how a string is split, one of `WORDS`.
        named_by_checkpoint: as in `load_pipeline`.

    Raises:
        ImportError: spaCy is not installed.
        OSError: the pipeline is not installed, or not in the folder.
        ValueError: it cannot parse, a text is too long for it, or a checkpoint names a folder.
    """
    source = _source(parser, named_by_checkpoint)
    parses: dict[str | tuple[str, ...], Words] = {}
    unknown = []
    for text in dict.fromkeys(texts):
        parsed = _cache.get((source, words, text))
        if parsed is None:
            unknown.append(text)
        else:
            parses[text] = parsed
    if unknown:
        pipeline = load_pipeline(parser, named_by_checkpoint=named_by_checkpoint)
        for text in unknown:
            _check_length(text, pipeline)
        documents = pipeline.pipe(_document(text, words, pipeline) for text in unknown)
        for text, document in zip(unknown, documents, strict=True):
            parses[text] = _words(text, words, document, parser)
            _cache.put((source, words, text), parses[text])
    return [parses[text] for text in texts]


def whitespace_words(text: str) -> Words:
    """The words of a text that is not parsed: what stands between white space."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    return Words(len(spans), None, array("i", [start for start, _ in spans]), array("i", [end for _, end in spans]))


def load_pipeline(parser: str, *, named_by_checkpoint: bool = False) -> Any:
    """Load a spaCy pipeline once in this process, with no more components than its dependency parser needs.

    spaCy imports any installed package whose name it is given, and loads any folder. Both may run code, so what a
    checkpoint alone names is loaded only if an installed distribution declares it as a pipeline.

    Args:
        parser: name or folder.
        named_by_checkpoint: True if the name comes from a checkpoint and not from the caller. It makes no difference
            in code that came with the checkpoint: that code could load anything by itself.

    Raises:
        ImportError: spaCy is not installed.
        OSError: the pipeline is not installed, or not in the folder.
        ValueError: it has no dependency parser, or a checkpoint names a folder.
    """
    source = _source(parser, named_by_checkpoint)
    if source not in _pipelines:
        pipeline = _load_declared(parser) if source[1] else _load_given(parser)
        for name in _needless_components(pipeline, parser):
            pipeline.remove_pipe(name)
        _pipelines[source] = pipeline
    return _pipelines[source]


def pipeline_version(parser: str, *, named_by_checkpoint: bool = False) -> str | None:
    """Return the version of a pipeline without importing it; None if it is not installed, or a folder without one.

    Args:
        parser, named_by_checkpoint: as in `load_pipeline`.
    """
    declared = _declaration(parser)
    if declared is not None:
        return declared.dist.version if declared.dist else None
    if _source(parser, named_by_checkpoint)[1]:
        return None
    try:
        version = json.loads(Path(parser, "meta.json").read_text(encoding="utf-8")).get("version")
    except (OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) else None


def _source(parser: str, named_by_checkpoint: bool) -> tuple[str, bool]:
    """Return what a pipeline is cached under: its name, and whether that has to be a declared one."""
    return parser, named_by_checkpoint and not COMES_WITH_CHECKPOINT


def _declaration(parser: str) -> EntryPoint | None:
    """Return the entry point by which an installed distribution declares a pipeline. It imports nothing."""
    return next(iter(entry_points(group=ENTRY_POINTS, name=parser)), None)


def _load_declared(parser: str) -> Any:
    declared = _declaration(parser)
    if declared is None and not re.fullmatch(r"\w+", parser):
        raise ValueError(
            f"The checkpoint names the parser {parser!r}, which is not the name of an installed spaCy pipeline. A"
            f" folder that only a checkpoint names is not loaded, as it may run code. {_BY_CALLER}"
        )
    if declared is None:
        raise OSError(
            f"The checkpoint names the parser {parser!r}, which no installed distribution declares as a spaCy"
            f" pipeline (entry points of the group {ENTRY_POINTS!r}).{_download(parser)} {_BY_CALLER}"
        )
    _spacy()
    try:
        return declared.load().load()
    except (ImportError, AttributeError) as error:
        raise OSError(
            f"The distribution that declares the spaCy pipeline {parser!r} is broken ({error}): install it again."
        ) from error


def _load_given(parser: str) -> Any:
    try:
        return _spacy().load(parser)
    except OSError as error:
        remedy = " There is no such folder." if os.sep in parser else _download(parser)
        raise OSError(
            f"Cannot load the spaCy pipeline {parser!r}: {error} --{remedy} Let the tokenizer's `parser` name an"
            " installed pipeline or the folder of one (in scripts `--local_config parser=NAME`)."
        ) from error


def _download(parser: str) -> str:
    """Return how to install a pipeline whose name has the form of spaCy's own."""
    is_like_spacys = re.fullmatch(r"[a-z]{2,3}_\w+", parser)
    return f" If it is one of spaCy's, install it with `python -m spacy download {parser}`." if is_like_spacys else ""


_BY_CALLER = (
    "To use another one, or a folder that you trust, name it yourself:"
    " `AutoTokenizer.from_pretrained(CHECKPOINT, parser=NAME_OR_FOLDER)`, in scripts `--local_config"
    " parser=NAME_OR_FOLDER`, in `hf-localattn inspect` `--config parser=NAME_OR_FOLDER`."
)


def _spacy() -> Any:
    try:
        import spacy
    except ImportError as error:
        raise ImportError(
            "Syntax-aware local attention parses texts with spaCy, which is not installed: pip install spacy"
        ) from error
    return spacy


def _needless_components(pipeline: Any, parser: str) -> list[str]:
    names = pipeline.pipe_names
    written = {name: pipeline.get_pipe_meta(name).assigns for name in names}
    parsing = [name for name in names if "token.head" in written[name] or "token.dep" in written[name]]
    if not parsing:
        raise ValueError(
            f"The spaCy pipeline {parser!r} has no dependency parser (its components: {', '.join(names) or 'none'})."
            " Let the tokenizer's `parser` name one that has."
        )
    upto = names[: names.index(parsing[-1]) + 1]
    factory = {name: pipeline.get_pipe_meta(name).factory for name in upto}
    # An embedding layer names the attributes that it reads in its configuration.
    read = repr([pipeline.get_pipe_config(name) for name in upto if factory[name] not in _NEEDLESS])
    tagged = any(repr(attribute) in read for attribute in _WRITTEN_BY_THEM)
    needed: set[str] = set()
    for name in reversed(upto):
        listeners = getattr(pipeline.get_pipe(name), "listening_components", None)  # of layers that others share
        if (tagged or factory[name] not in _NEEDLESS) and (listeners is None or needed & set(listeners)):
            needed.add(name)
    return [name for name in reversed(names) if name not in needed]


def _check_length(text: str | tuple[str, ...], pipeline: Any) -> None:
    length = len(text) if isinstance(text, str) else sum(map(len, text)) + len(text)
    if length > pipeline.max_length:
        start = " ".join(text)[:40] if isinstance(text, tuple) else text[:40]
        raise ValueError(
            f"A text of {length:,} characters ({start!r}...) is too long to parse: spaCy takes up to"
            f" {pipeline.max_length:,}, for its parser needs up to 1 GB of memory for every 100,000. Split the text."
        )


def _document(text: str | tuple[str, ...], words: str, pipeline: Any) -> Any:
    """Return the input of `pipeline.pipe`: a text that it splits itself, or words as given."""
    if isinstance(text, str) and words == "parser":
        return text
    settled = text.split() if isinstance(text, str) else [word for word in text if not _is_blank(word)]
    return _spacy().tokens.Doc(pipeline.vocab, words=settled)


def _is_blank(word: str) -> bool:
    return not word or word.isspace()


def _words(text: str | tuple[str, ...], words: str, document: Any, parser: str) -> Words:
    """Reduce a parse to what is kept of it."""
    starts, lengths, heads, blank = document.to_array(["IDX", "LENGTH", "HEAD", "IS_SPACE"]).view("int64").T.tolist()
    heads = [word + head for word, head in enumerate(heads)]  # spaCy's are relative, the root's is 0
    if not isinstance(text, str):
        kept = [number for number, word in enumerate(text) if not _is_blank(word)]
        given = list(range(len(text)))
        for number, head in zip(kept, heads, strict=True):
            given[number] = kept[head]
        return Words(len(text), array("i", given))
    if words == "whitespace":
        split = whitespace_words(text)
        return Words(split.number, array("i", heads), split.starts, split.ends)
    if document.text != text:
        raise ValueError(
            f"The tokenizer of the spaCy pipeline {parser!r} changes the text ({text[:40]!r} became"
            f" {document.text[:40]!r}), so that its words cannot be found in it. Take another `parser`, or"
            " words='whitespace'."
        )
    if any(blank):
        heads = _without(blank, heads)
        starts, lengths = (
            [one for one, out in zip(ones, blank, strict=True) if not out] for ones in (starts, lengths)
        )
    ends = (start + length for start, length in zip(starts, lengths, strict=True))
    return Words(len(heads), array("i", heads), array("i", starts), array("i", ends))


def _without(out: Sequence[int], heads: Sequence[int]) -> list[int]:
    """Heads numbered without the tokens that are `out`, which hand their dependents on to their own heads."""
    kept = [token for token, gone in enumerate(out) if not gone]
    number = {token: word for word, token in enumerate(kept)}

    def climb(token: int) -> Iterable[int]:
        while heads[token] != token:
            token = heads[token]
            yield token

    return [number[next((head for head in climb(token) if not out[head]), token)] for token in kept]
