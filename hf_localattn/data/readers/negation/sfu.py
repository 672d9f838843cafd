"""Reader for the SFU Review Corpus: reviews with cues of negation and speculation, and their scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from datasets import Dataset

from hf_localattn.data.readers.negation.rows import Cue, Options, Sentence, UnmatchedScopes, build_rows
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

ROOT = "DOCUMENT"


def load_sfu(
    path: PathLike,
    cues: str = "negation",
    cue_in_scope: str = "never",
    *,
    unmatched_scopes: str = "error",
    all_sentences: bool = False,
) -> Dataset:
    """Read the SFU Review Corpus, annotated for negation and speculation, into rows of `NEGATION_FEATURES`.

    A `cue` has an `ID`; an `xcope` has a `ref` whose `SRC` lists its cues. A cue without an `xcope` has an empty
    scope. Each `cue` element is a separate cue (`or … or` are two, with the same scopes), so a cue has several words
    only inside one element (`do n't`). If a scope continues in the next sentence, the row has only the part in
    the sentence of its cue.

    Args:
        path: folder of the corpus, or a single file. The .xml files of a folder are read in the order of their paths.
            The id of a document is its path in the folder.
        cues: see `load_negation`.
        cue_in_scope: see `load_negation`. The published corpus has few cue words in scopes.
        unmatched_scopes: see `load_negation`. The published corpus has 69 scopes whose cue is not in their document.
        all_sentences: see `load_negation`.

    Raises:
        FileNotFoundError: the file or folder does not exist.
        ValueError: the corpus is not in this format, or has no cues of this kind; names the file, line and remedy.

    Corpus: Konstantinova et al. 2012, *A review corpus annotated for negation, speculation and their scope*.
    """
    path, options = Path(path), Options(cues, cue_in_scope, unmatched_scopes, all_sentences)
    files = sorted(path.rglob("*.xml")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path}: there is no .xml file in this folder or below it.")
    folder = path if path.is_dir() else path.parent
    return build_rows(
        lambda unmatched: (sentence for file in files for sentence in _sentences(file, folder, unmatched)),
        str(path),
        options,
    )


def _sentences(path: Path, folder: Path, unmatched: UnmatchedScopes) -> Iterator[Sentence]:
    root = read_root(path, ROOT, "the SFU corpus")
    document_id = path.relative_to(folder).as_posix()
    known = {cue.get("ID") for cue in root.iter("cue")}
    for number, sentence in enumerate(root.iter("SENTENCE"), start=1):
        words, places = read_words(sentence)
        scopes = _scopes(sentence, f"sentence {number}", known, path, unmatched)
        cues = list(_cues(sentence, scopes, places, path))
        yield Sentence(document_id, f"{document_id}/{number}", words, cues)


def _scopes(
    sentence: Element, name: str, known: set[str | None], path: Path, unmatched: UnmatchedScopes
) -> dict[str, list[Element]]:
    """Return the scopes of this sentence by cue id. The cue may be in another sentence of the document."""
    scopes: dict[str, list[Element]] = defaultdict(list)
    for scope in sentence.iter("xcope"):
        where = f"{line_of(scope, path)}, {name}: the scope {scope.get('ID')}"
        references = [cue for reference in scope.findall("ref") for cue in reference.get("SRC", "").split()]
        if not references:
            unmatched.add(f"{where} refers to no cue")
        for cue in references:
            if cue in known:
                scopes[cue].append(scope)
            else:
                unmatched.add(f"{where} refers to the cue {cue}, which is not in the document")
    return scopes


def _cues(
    sentence: Element, scopes: dict[str, list[Element]], places: dict[Element, range], path: Path
) -> Iterator[Cue]:
    for cue in sentence.iter("cue"):
        own = scopes.get(attribute(cue, "ID", path), [])
        yield Cue(cue_kind(cue, path), cue_words([cue], places, path), union(own, places))
