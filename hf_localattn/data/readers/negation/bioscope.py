"""Reader for BioScope: biomedical texts with cues of negation and speculation, nested in their scopes."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from datasets import Dataset

from hf_localattn.data.readers.negation.rows import Cue, Options, Sentence, UniqueNames, UnmatchedScopes, build_rows
from hf_localattn.data.readers.negation.xml_sentences import (
    attribute,
    cue_kind,
    cue_words,
    line_of,
    read_root,
    read_words,
    union,
)
from hf_localattn.data.readers.tables import PathLike

logger = logging.getLogger(__name__)

ROOT = "Annotation"


def load_bioscope(
    path: PathLike,
    cues: str = "negation",
    cue_in_scope: str = "never",
    *,
    unmatched_scopes: str = "error",
    all_sentences: bool = False,
) -> Dataset:
    """Read BioScope's XML (abstracts, full papers, clinical records) into rows of `NEGATION_FEATURES`.

    The `ref` of a `cue` is the id of its `xcope`. Cues with the same `ref` are parts of one cue (`neither … nor`), and
    form one row. Scopes may nest; an outer scope includes the words of inner scopes. A cue whose `ref` names no scope
    of its sentence has an empty scope. Words end at white space and at tags.

    If annotators joined two cues into one, the file may still have the scopes of both, so one scope has no cue. A
    scope without a cue is dropped, with a log message, if it contains a part of a joined cue. `unmatched_scopes`
    applies to all other scopes without a cue.

    Args:
        path: a file of the corpus. Its DTD is not read.
        cues: see `load_negation`.
        cue_in_scope: see `load_negation`.
        unmatched_scopes: see `load_negation`.
        all_sentences: see `load_negation`.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not in this format, or has no cues of this kind; names the line and the remedy.

    Corpus: Vincze et al. 2008, *The BioScope corpus: biomedical texts annotated for uncertainty, negation and
    their scopes*.
    """
    path, options = Path(path), Options(cues, cue_in_scope, unmatched_scopes, all_sentences)
    return build_rows(lambda unmatched: _sentences(path, unmatched), str(path), options)


def _sentences(path: Path, unmatched: UnmatchedScopes) -> Iterator[Sentence]:
    name = UniqueNames()
    for number, document in enumerate(read_root(path, ROOT, "BioScope").iter("Document"), start=1):
        document_id = (document.findtext("DocID") or "").strip() or f"document {number}"
        for sentence in document.iter("sentence"):
            sentence_id = attribute(sentence, "id", path)
            words, places = read_words(sentence)
            cues = list(_cues(sentence, places, path, unmatched))
            yield Sentence(document_id, name(f"{document_id}/{sentence_id}"), words, cues)


def _cues(sentence: Element, places: dict[Element, range], path: Path, unmatched: UnmatchedScopes) -> Iterator[Cue]:
    scopes: dict[str, list[Element]] = defaultdict(list)
    for scope in sentence.iter("xcope"):
        scopes[attribute(scope, "id", path)].append(scope)
    pieces: dict[tuple[str, str], list[Element]] = defaultdict(list)
    for cue in sentence.iter("cue"):
        pieces[attribute(cue, "ref", path), cue_kind(cue, path)].append(cue)
    joined = {piece for own in pieces.values() if len(own) > 1 for piece in own}
    named = {reference for reference, _ in pieces}
    for name in [name for name in scopes if name not in named]:
        where = f"{line_of(scopes[name][0], path)}, sentence {sentence.get('id')}"
        if any(cue in joined for scope in scopes[name] for cue in scope.iter("cue")):
            logger.info("%s: the scope %s is left over from joining cues.", where, name)
        else:
            unmatched.add(f"{where}: no cue refers to the scope {name}")
    for (reference, kind), own in pieces.items():
        yield Cue(kind, cue_words(own, places, path), union(scopes.get(reference, []), places))
