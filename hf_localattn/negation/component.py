"""spaCy component that finds negated entities (see hf_localattn_spacy.py).

What it finds is kept at the characters of cues, tokens and entities, relative to each other. It therefore survives
what spaCy does to documents: merged tokens, slices, joined documents, files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from spacy.tokens import Doc, Span, Token
from spacy.util import minibatch

from hf_localattn.models.negation_reading import Reading
from hf_localattn.negation.decisions import Calibration, decide_phrase
from hf_localattn.negation.texts import Finder, load_labeler

CUES = "negation_found"
"""Name of the findings at a character of a document: a list of them at the first one of their cues."""

MARKS = "negation_marks"
"""Name of what a token refers to: findings whose scope it is in, by the way to their first character and an index."""

DECIDING = "negation_deciding"
"""Name of what an entity refers to: the finding that negates it."""


class NegationComponent:
    """Component that sets the extensions listed in docs/negation.md.

    Args:
        model (*optional*): Hub id or folder of a checkpoint trained with `run_ner.py --task negation --detect_cues`,
            or a folder that `hf-localattn export` has written. Defaults to the package's own model.
        name: Name of the component in its pipeline.
        revision: Branch, tag or commit on the Hub.
        device: Device of the model, such as "cpu" or "cuda:0".
        ent_attribute: Extension of entities, such as "is_negated" for programs written for medspaCy.
        chunk_prefix: If True, an entity that holds its cue ("no headache") is negated, too.
        **settings: How texts are read: the arguments of `Reading`. The convention is "notes" by default.

    Raises:
        ValueError: The checkpoint is not for negation detection, a setting has an unknown value, or the name of an
            extension is taken.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        name: str = "hf_localattn_negation",
        revision: str | None = None,
        device: str = "cpu",
        ent_attribute: str = "negex",
        chunk_prefix: bool = True,
        **settings: Any,
    ):
        reading = Reading.of(**{"convention": "notes", **settings})
        set_extensions(ent_attribute)
        self.name = name
        self.ent_attribute = ent_attribute
        self.chunk_prefix = chunk_prefix
        labeler = load_labeler(model, device=device, revision=revision)
        self.finder = Finder(labeler, reading, english=model is None)
        self.calibration = Calibration.load() if model is None else Calibration()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        set_extensions(self.ent_attribute)  # in another process

    def __call__(self, doc: Doc) -> Doc:
        """Annotate a document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents; the sentences of `batch_size` documents are read together."""
        for docs in minibatch(stream, batch_size):
            names = [f"The document {doc.text[:20]!r}" for doc in docs]
            findings_of_docs = self.finder.read([doc.text for doc in docs], names, [_sentences(doc) for doc in docs])
            for doc, findings in zip(docs, findings_of_docs, strict=True):
                self._annotate(doc, findings)
                yield doc

    def _annotate(self, doc: Doc, findings: list[dict[str, Any]]) -> None:
        _forget(doc)
        places = _keep(doc, findings)
        has_speculation = "speculation" in self.finder.finder.kinds
        findings.sort(key=lambda finding: finding["sentence"]["start"])
        starts = [finding["sentence"]["start"] for finding in findings]
        for entity in doc.ents:
            near = findings[_first_of_sentence(starts, entity.start_char) : bisect_left(starts, entity.end_char)]
            phrase = (entity.text, entity.start_char, near)
            decision = decide_phrase(*phrase, "negation", self.chunk_prefix, self.calibration)
            entity._.set(self.ent_attribute, decision.negated)
            entity._.negation_score = decision.score
            if decision.cue is not None:
                place, index = places[id(decision.cue)]
                doc.user_data[_key(DECIDING, entity.start_char, entity.end_char)] = [place - entity.start_char, index]
            if has_speculation:
                entity._.uncertain = decide_phrase(*phrase, "speculation", False, self.calibration).negated


def _sentences(doc: Doc) -> list[tuple[int, int]] | None:
    """Return the characters of a document's sentences; None without any."""
    if not doc.has_annotation("SENT_START"):
        return None
    return [(sentence.start_char, sentence.end_char) for sentence in doc.sents]


def _first_of_sentence(starts: list[int], place: int) -> int:
    """Return the index of the first finding in the last sentence that begins at a character or before it."""
    last = bisect_right(starts, place)
    return bisect_left(starts, starts[last - 1]) if last else 0


def _key(name: str, start: int, end: int | None = None) -> tuple[str, str, int, int | None]:
    """Return a key of `Doc.user_data` as spaCy has for extensions of tokens and spans, whose characters it updates."""
    return ("._.", name, start, end)


def _forget(doc: Doc) -> None:
    """Remove what an earlier run has found."""
    for key in [key for key in doc.user_data if key[0] == "._." and key[1] in (CUES, MARKS, DECIDING)]:
        del doc.user_data[key]


def _keep(doc: Doc, findings: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    """Keep findings in a document. Return where each is: the first character of its cue, and its index there."""
    places: dict[int, tuple[int, int]] = {}
    tokens = _Tokens(doc)
    for finding in findings:
        place = finding["cue"][0]["start"]
        kept = doc.user_data.setdefault(_key(CUES, place), [])
        places[id(finding)] = (place, len(kept))
        spans = {
            name: [[span["start"] - place, span["end"] - place] for span in finding[name]] for name in ("cue", "scope")
        }
        kept.append({name: finding[name] for name in ("kind", "type", "score", "scope_score")} | spans)
        kept[-1]["words"] = [span["text"] for span in finding["cue"]]
        for span in finding["scope"]:
            for token in tokens.between(span["start"], span["end"]):
                start = tokens.starts[token]
                doc.user_data.setdefault(_key(MARKS, start), []).append([place - start, len(kept) - 1])
    return places


class _Tokens:
    """The tokens of a document by their characters."""

    def __init__(self, doc: Doc):
        self.starts = [token.idx for token in doc]
        self.ends = [token.idx + len(token) for token in doc]

    def between(self, start: int, end: int) -> range:
        """Return the indices of the tokens that have one of the characters."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end))

    def of(self, spans: Iterable[list[int]], place: int) -> list[int]:
        """Return the indices of the tokens of spans, which count from a character."""
        return sorted({token for start, end in spans for token in self.between(place + start, place + end)})


def set_extensions(ent_attribute: str) -> None:
    """Define the extensions; `ValueError` if another component has one of these names."""
    extensions: list[tuple[Any, str, Any, Any]] = [  # owner, name, default, getter
        (Doc, "negations", None, negations),
        (Token, "negation_scope", None, in_negation),
        (Token, "speculation_scope", None, in_speculation),
        (Span, "negated", None, is_negated),
        (Span, "negation_cue", None, negation_cue),
        (Span, "negation_cue_tokens", None, negation_cue_tokens),
        (Span, "negation_score", None, None),
        (Span, "uncertain", None, None),
        (Span, ent_attribute, None, None),
    ]
    for owner, name, default, getter in extensions:
        if owner.has_extension(name) and owner.get_extension(name) != (default, None, getter, None):
            remedy = "choose another `ent_attribute`" if name == ent_attribute else "remove that component"
            raise ValueError(f"The extension {name!r} of {owner.__name__} belongs to another component: {remedy}.")
    for owner, name, default, getter in extensions:
        if not owner.has_extension(name):
            owner.set_extension(name, **({"default": default} if getter is None else {"getter": getter}))


def negations(doc: Doc) -> list[dict[str, Any]]:
    """Return the cues of a document, each with the indices of the tokens of its cue and of its scope."""
    tokens = _Tokens(doc)
    described = []
    for place in sorted(key[2] for key in doc.user_data if key[0] == "._." and key[1] == CUES):
        for finding in doc.user_data[_key(CUES, place)]:
            spans = {name: tokens.of(finding[name], place) for name in ("cue", "scope")}
            if _is_cue(doc, spans["cue"], finding):
                described.append({name: finding[name] for name in finding if name != "words"} | spans)
    return described


def _findings_of(doc: Doc, start: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield the findings that tokens with some characters refer to, with the characters of the document."""
    seen: set[tuple[int, int]] = set()
    for character in range(start, end):  # a merged token refers to those of its parts
        for distance, index in doc.user_data.get(_key(MARKS, character), ()):
            place = character + distance
            if (place, index) not in seen:
                seen.add((place, index))
                finding = doc.user_data[_key(CUES, place)][index]
                spans = {
                    name: [{"start": place + begin, "end": place + stop} for begin, stop in finding[name]]
                    for name in ("cue", "scope")
                }
                yield {**finding, **spans, "sentence": {"start": start, "end": end}}


def _in_scope(token: Token, kind: str) -> bool:
    findings = _findings_of(token.doc, token.idx, token.idx + len(token))
    return any(finding["kind"] == kind for finding in findings)


def in_negation(token: Token) -> bool:
    """Return True if a token is in the scope of a negation cue."""
    return _in_scope(token, "negation")


def in_speculation(token: Token) -> bool:
    """Return True if a token is in the scope of a speculation cue."""
    return _in_scope(token, "speculation")


def is_negated(span: Span) -> bool:
    """Return True if at least half of a span is in the scope of negation cues outside it."""
    findings = _findings_of(span.doc, span.start_char, span.end_char)
    return decide_phrase(span.text, span.start_char, findings, "negation", False, Calibration()).negated


def negation_cue_tokens(span: Span) -> list[int] | None:
    """Return the indices of the tokens of the cue that negates an entity; None if it is not negated."""
    reference = span.doc.user_data.get(_key(DECIDING, span.start_char, span.end_char))
    if reference is None:
        return None
    place = span.start_char + reference[0]
    finding = span.doc.user_data[_key(CUES, place)][reference[1]]
    length = span.doc[-1].idx + len(span.doc[-1])
    tokens: set[int] = set()
    for start, end in finding["cue"]:
        if place + end > 0 and place + start < length:  # a slice may be without it
            part = span.doc.char_span(max(place + start, 0), min(place + end, length), alignment_mode="expand")
            tokens.update(range(part.start, part.end))
    return sorted(tokens) if _is_cue(span.doc, tokens, finding) else []


def _is_cue(doc: Doc, tokens: Iterable[int], finding: dict[str, Any]) -> bool:
    """Return False for a cue that was cut off: its place is outside the document, or in another one joined to it."""
    text = "".join("".join(doc[token].text.split()) for token in sorted(tokens))
    return any("".join(word.split()) in text for word in finding["words"])


def negation_cue(span: Span) -> Span | None:
    """Return the cue that negates an entity; of a cue with gaps ("neither ... nor") the part nearest to it."""
    tokens = negation_cue_tokens(span)
    if not tokens:
        return None
    nearest = min(tokens, key=lambda token: min(abs(token - span.start), abs(token - span.end + 1)))
    start = end = nearest
    while start - 1 in tokens:
        start -= 1
    while end + 1 in tokens:
        end += 1
    return span.doc[start : end + 1]


def displacy_spans(doc: Doc) -> dict[str, Any]:
    """Return the cues and scopes of a document for `spacy.displacy.render(..., style="span", manual=True)`.

    Example:
        >>> import spacy
        >>> from hf_localattn.negation.component import displacy_spans
        >>> nlp = spacy.blank("en")
        >>> _ = nlp.add_pipe("hf_localattn_negation")
        >>> spans = displacy_spans(nlp("No fever."))
        >>> html = spacy.displacy.render(spans, style="span", manual=True, jupyter=False)
    """
    spans: list[dict[str, Any]] = []
    for negation in doc._.negations:
        for name, label in (("cue", negation["kind"].upper()), ("scope", "SCOPE")):
            for index in negation[name]:
                if index - 1 in negation[name]:
                    spans[-1]["end_token"] = index + 1
                else:
                    spans.append({"start_token": index, "end_token": index + 1, "label": label})
    return {"text": doc.text, "spans": spans, "tokens": [token.text for token in doc]}
