"""spaCy component that finds negated entities (see hf_localattn_spacy.py)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from spacy.tokens import Doc, Span, Token
from spacy.util import minibatch

from hf_localattn.models.negation_conventions import check_convention
from hf_localattn.models.negation_finder import Finding, NegationFinder
from hf_localattn.models.negation_reading import Reading
from hf_localattn.models.negation_text import split_sentences
from hf_localattn.negation.texts import load_labeler
from hf_localattn.resources.english import OTHER_LANGUAGE, is_english

logger = logging.getLogger(__name__)


class NegationComponent:
    """Component that sets the extensions listed in docs/negation.md, in sentences of the document or split by rules.

    Args:
        model (*optional*): Hub id or folder of a checkpoint trained with `run_ner.py --task negation --detect_cues`.
            Defaults to the package's own model.
        name: Name of the component in its pipeline.
        revision: Branch, tag or commit on the Hub.
        device: Device of the model, such as "cpu" or "cuda:0".
        convention: What counts as a cue and as its scope, one of `CONVENTIONS`.
        ent_attribute: Extension of entities, such as "is_negated" for programs written for medspaCy.
        chunk_prefix: If True, an entity that holds its cue ("no headache") is negated, too.

    Raises:
        ValueError: The checkpoint is not for negation detection, or the convention is unknown.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        name: str = "hf_localattn_negation",
        revision: str | None = None,
        device: str = "cpu",
        convention: str = "notes",
        ent_attribute: str = "negex",
        chunk_prefix: bool = True,
    ):
        check_convention(convention)
        self.name = name
        self.convention = convention
        self.ent_attribute = ent_attribute
        self.chunk_prefix = chunk_prefix
        self.finder = NegationFinder(load_labeler(model, device=device, revision=revision))
        self.is_english_only = model is None
        set_extensions(ent_attribute)

    def __call__(self, doc: Doc) -> Doc:
        """Annotate a document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents; the sentences of `batch_size` documents are batched together."""
        for docs in minibatch(stream, batch_size):
            sentences = [(index, part) for index, doc in enumerate(docs) for part in self._parts(doc)]
            words = [[token.text for token in part] for _, part in sentences]
            findings = self.finder.find(words, Reading(self.convention))
            negations: list[list[dict[str, Any]]] = [[] for _ in docs]
            for (index, part), of_sentence in zip(sentences, findings, strict=True):
                negations[index] += [describe(finding, part.start) for finding in of_sentence]
            for doc, of_doc in zip(docs, negations, strict=True):
                self._annotate(doc, of_doc)
                yield doc

    def _parts(self, doc: Doc) -> Iterator[Span]:
        """Yield the sentences of a document, in parts that the model can take."""
        if self.is_english_only and not is_english(doc.text):
            logger.warning(OTHER_LANGUAGE)
            self.is_english_only = False  # one warning is enough
        for sentence in doc.sents if doc.has_annotation("SENT_START") else sentences_by_rules(doc):
            for piece in self.finder.labeler.pieces([token.text for token in sentence], 160):
                if piece:
                    yield sentence[piece.start : piece.stop]

    def _annotate(self, doc: Doc, negations: list[dict[str, Any]]) -> None:
        doc._.negations = negations
        has_speculation = "speculation" in self.finder.kinds
        for entity in doc.ents:
            negation = cue_of(entity, "negation", within=self.chunk_prefix)
            entity._.set(self.ent_attribute, negation is not None)
            entity._.uncertain = cue_of(entity, "speculation") is not None if has_speculation else None
            # A document is saved with its extensions, so they are numbers.
            entity._.negation_cue_tokens = negation["cue"] if negation else None


def sentences_by_rules(doc: Doc) -> Iterator[Span]:
    """Yield the sentences of a document without any. A sentence may end inside a token."""
    last = 0
    for offsets in split_sentences(doc.text):
        span = doc.char_span(*offsets, alignment_mode="expand")
        if last < span.end:
            yield doc[max(span.start, last) : span.end]
            last = span.end


def describe(finding: Finding, start: int) -> dict[str, Any]:
    """Return a finding, whose indices count from token `start`, with token indices of the document."""
    return {
        "cue": [start + word for word in finding.cue.words],
        "kind": finding.cue.kind,
        "type": finding.cue.type,
        "score": finding.score,
        "scope": [start + word for word, inside in enumerate(finding.scope) if inside],
        "scope_score": finding.scope_score,
    }


def set_extensions(ent_attribute: str) -> None:
    """Define the extensions, unless they exist, such as those of another component."""
    extensions: list[tuple[Any, str, dict[str, Any]]] = [
        (Doc, "negations", {"default": []}),
        (Token, "negation_scope", {"getter": lambda token: in_scope(token, "negation")}),
        (Token, "speculation_scope", {"getter": lambda token: in_scope(token, "speculation")}),
        (Span, "negated", {"getter": lambda span: cue_of(span, "negation") is not None}),
        (Span, "negation_cue_tokens", {"default": None}),
        (Span, "negation_cue", {"getter": negation_cue}),
        (Span, "uncertain", {"default": None}),
        (Span, ent_attribute, {"default": False}),
    ]
    for owner, extension, settings in extensions:
        if not owner.has_extension(extension):
            owner.set_extension(extension, **settings)


def in_scope(token: Token, kind: str) -> bool:
    """Return True if a token is in the scope of a cue of a kind."""
    return any(token.i in negation["scope"] for negation in token.doc._.negations if negation["kind"] == kind)


def cue_of(span: Span, kind: str, *, within: bool = False) -> dict[str, Any] | None:
    """Return the item of `doc._.negations` whose scope has a span; None without any.

    At least half of the span's tokens are in the scope of cues outside the span. If `within` is True, it may also be
    at least half of its other tokens in the scope of a cue in the span ("no headache"), unless the cue is an affix.
    """
    tokens = set(range(span.start, span.end))
    of_kind = [negation for negation in span.doc._.negations if negation["kind"] == kind]
    outside = [negation for negation in of_kind if tokens.isdisjoint(negation["cue"])]
    in_scope = set[int]().union(*(negation["scope"] for negation in outside))
    if tokens and 2 * len(tokens & in_scope) >= len(tokens):
        return max(outside, key=lambda negation: len(tokens.intersection(negation["scope"])))
    for negation in of_kind if within else ():
        if negation["type"] == "affix" or not tokens.issuperset(negation["cue"]):
            continue
        others = tokens.difference(negation["cue"])
        if others and 2 * len(others.intersection(negation["scope"])) >= len(others):
            return negation
    return None


def negation_cue(span: Span) -> Span | None:
    """Return the cue that negates an entity; of a cue with gaps ("neither ... nor") the part nearest to it."""
    if (tokens := span._.negation_cue_tokens) is None:
        return None
    nearest = min(tokens, key=lambda token: min(abs(token - span.start), abs(token - span.end + 1)))
    start = end = nearest
    while start - 1 in tokens:
        start -= 1
    while end + 1 in tokens:
        end += 1
    return span.doc[start : end + 1]
