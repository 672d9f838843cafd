"""spaCy component that finds negated entities with a checkpoint for negation detection (see hf_localattn_spacy.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from spacy.tokens import Doc, Span, Token
from spacy.util import minibatch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from hf_localattn.models.negation_finder import Finding, NegationFinder
from hf_localattn.models.negation_text import split_sentences

SCOPES = {"negation": "negation_scope", "speculation": "speculation_scope"}
"""Token extension for each kind of cue."""


class NegationComponent:
    """Component that sets the extensions listed in docs/negation.md, in sentences of the document or split by rules.

    Args:
        model: Hub id or folder of a checkpoint trained with `run_ner.py --task negation --detect_cues`.
        name: name of the component in its pipeline.
        revision: branch, tag or commit on the Hub.
        device: device of the model, such as "cpu" or "cuda:0".
        ent_attribute: extension of entities, such as "is_negated" for programs written for medspaCy.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str = "hf_localattn_negation",
        revision: str | None = None,
        device: str = "cpu",
        ent_attribute: str = "negex",
    ):
        self.name, self.ent_attribute = name, ent_attribute
        loaded = AutoModelForTokenClassification.from_pretrained(model, revision=revision).to(device).eval()
        self.finder = NegationFinder(loaded, AutoTokenizer.from_pretrained(model, revision=revision))
        set_extensions(ent_attribute)

    def __call__(self, doc: Doc) -> Doc:
        """Annotate a document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents; the sentences of `batch_size` documents are batched together."""
        for docs in minibatch(stream, batch_size):
            parts = [self._parts(doc) for doc in docs]
            with torch.inference_mode():
                findings = iter(self.finder.find([[token.text for token in part] for own in parts for part in own]))
            for doc, own in zip(docs, parts, strict=True):
                self._annotate(doc, [describe(one, part.start) for part in own for one in next(findings)])
                yield doc

    def _parts(self, doc: Doc) -> list[Span]:
        """Return the sentences of a document, in parts that the model can take."""
        sentences = list(doc.sents) if doc.has_annotation("SENT_START") else []
        if not sentences:
            last = 0
            for offsets in split_sentences(doc.text):
                span = doc.char_span(*offsets, alignment_mode="expand")
                if last < span.end:  # a sentence may end inside a token
                    sentences.append(doc[max(span.start, last) : span.end])
                    last = span.end
        pieces = [(one, piece) for one in sentences for piece in self.finder.pieces([token.text for token in one])]
        return [one[piece.start : piece.stop] for one, piece in pieces if piece]

    def _annotate(self, doc: Doc, negations: list[dict[str, Any]]) -> None:
        doc._.negations = negations
        for kind, extension in SCOPES.items():
            scopes = {place for one in negations if one["kind"] == kind for place in one["scope"]}
            for token in doc:  # an earlier run may have marked others
                token._.set(extension, token.i in scopes)
        for entity in doc.ents:
            entity._.set(self.ent_attribute, entity._.negated)


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
    ours: list[tuple[Any, str, dict[str, Any]]] = [
        (Doc, "negations", {"default": []}),
        *((Token, extension, {"default": False}) for extension in SCOPES.values()),
        (Span, "negated", {"getter": is_negated}),
        (Span, ent_attribute, {"default": False}),
    ]
    for owner, extension, settings in ours:
        if not owner.has_extension(extension):
            owner.set_extension(extension, **settings)


def is_negated(span: Span) -> bool:
    """Return True if at least half of the tokens of a span are in the scope of negation cues outside the span."""
    inside, negated = set(range(span.start, span.end)), set()
    for one in span.doc._.negations:
        if one["kind"] == "negation" and not inside.intersection(one["cue"]):
            negated.update(inside.intersection(one["scope"]))
    return 2 * len(negated) >= len(inside) > 0
