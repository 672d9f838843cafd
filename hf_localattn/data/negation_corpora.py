"""Corpora of negation and speculation as generators of sentences: BioScope, SFU reviews, *SEM 2012."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from hf_localattn.data.column_files import Line, group_lines, read_lines
from hf_localattn.data.rows import read_text
from hf_localattn.data.xml import Element, attribute, parse_xml
from hf_localattn.errors import shorten
from hf_localattn.models.negation_labels import CUE_KINDS

NUMBER = 1
WORD = 3
FIRST = 7
"""Indices of columns of *SEM 2012: sentence number (after the chapter), word, and the first negation."""
ANNOTATION_COLUMNS = {"lemma": 4, "pos": 5, "parse": 6}
NO_NEGATION = "***"
NOTHING = "_"


def _windows_1252_controls() -> dict[int, str]:
    """Return the characters of Windows-1252 for the control characters that have their codes in Unicode."""
    codes = range(0x80, 0xA0)
    characters = {code: bytes([code]).decode("cp1252", errors="ignore") for code in codes}
    return {code: character for code, character in characters.items() if character}


# Some texts of SFU were saved as Windows-1252. Their quotation marks and dots become control characters when they are
# read as Unicode. Tokenizers drop control characters, so the cue "don't" would lose its apostrophe.
_WINDOWS_1252 = _windows_1252_controls()


@dataclass(frozen=True)
class Cue:
    """A cue of a kind and its scope (None if unknown), as indices of words in the sentence, counted from 0.

    `affixes` has the characters of the cue in each word that contains it as an affix, `scope_texts` the annotated
    characters of the scope in its words.
    """

    kind: str
    words: Collection[int]
    scope: Collection[int] | None
    affixes: Mapping[int, str] = field(default_factory=dict)
    scope_texts: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, its cues of all kinds, and its annotations (`lemma`, `pos`, `parse`).

    `strays` says for each scope without a cue where it is.
    """

    document_id: str
    sentence_id: str
    tokens: list[str]
    cues: list[Cue]
    strays: list[str] = field(default_factory=list)
    annotations: Mapping[str, list[str]] = field(default_factory=dict)


def unique_name(name: str, seen: set[str]) -> str:
    """Return a name that is not among those seen, with a number if it repeats one, and add it to them."""
    unique = name
    for repetition in count(2):
        if unique not in seen:
            break
        unique = f"{name}~{repetition}"
    seen.add(unique)
    return unique


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a folder of SFU, or of a file of BioScope, SFU or *SEM 2012: its content says which."""
    if path.is_dir():
        files = sorted(path.rglob("*.xml"))
        if not files:
            raise ValueError(f"{path}: there is no .xml file in this folder or below it.")
        for file in files:
            yield from _sfu(_read_root(file, "DOCUMENT"), file, file.relative_to(path).as_posix())
    elif path.suffix != ".xml" and not read_text(path).lstrip().startswith("<"):
        yield from _starsem(path)
    else:
        root = _read_root(path, "Annotation", "DOCUMENT")  # of BioScope and SFU
        yield from _sfu(root, path, path.name) if root.tag == "DOCUMENT" else _bioscope(root, path)


def _read_root(path: Path, *tags: str) -> Element:
    root = parse_xml(read_text(path), path, doctype="Annotation")
    if root.tag not in tags:
        expected = " or ".join(tags)
        raise ValueError(f"{path}, line {root.sourceline}: the root element is {root.tag!r}; it must be {expected}.")
    return root


def _bioscope(root: Element, path: Path) -> Iterator[Sentence]:
    """Yield the sentences of BioScope (Vincze et al. 2008): abstracts, full papers, clinical records.

    Cues with the same `ref` are parts of one cue (`neither … nor`). A cue whose `ref` names no scope has an empty one.
    If annotators joined two cues into one, the file may still have the scopes of both: a scope without a cue is
    dropped if it contains a part of a joined cue.
    """
    sentence_ids: set[str] = set()
    for index, document in enumerate(root.iter("Document"), start=1):
        document_id = (document.findtext("DocID") or "").strip() or f"document {index}"
        for element in document.iter("sentence"):
            name = attribute(element, "id", path)
            sentence_id = unique_name(f"{document_id}/{name}", sentence_ids)
            words, spans = _read_words(element)
            cues, strays = _bioscope_cues(element, spans, path)
            yield Sentence(document_id, sentence_id, words, cues, strays)


def _bioscope_cues(sentence: Element, spans: Mapping[Element, range], path: Path) -> tuple[list[Cue], list[str]]:
    """Return the cues of a sentence, and the place of each scope without a cue."""
    scopes: dict[str, list[Element]] = defaultdict(list)
    for scope in sentence.iter("xcope"):
        scopes[attribute(scope, "id", path)].append(scope)
    pieces: dict[tuple[str, str], list[Element]] = defaultdict(list)
    for piece in sentence.iter("cue"):
        reference = attribute(piece, "ref", path)
        cue_kind = attribute(piece, "type", path, CUE_KINDS)
        pieces[reference, cue_kind].append(piece)
    cues = []
    for (reference, cue_kind), elements in pieces.items():
        scope_words = _union(scopes.get(reference, []), spans)
        cues.append(Cue(cue_kind, _cue_words(elements, spans, path), scope_words))
    references = {reference for reference, _ in pieces}
    joined = set(chain.from_iterable(elements for elements in pieces.values() if len(elements) > 1))
    strays = []
    for reference, elements in scopes.items():
        inner_cues = chain.from_iterable(scope.iter("cue") for scope in elements)
        if reference not in references and joined.isdisjoint(inner_cues):
            where = f"{path}, line {elements[0].sourceline}, sentence {sentence.get('id').strip()}"
            strays.append(f"{where}: no cue refers to the scope {reference}")
    return cues, strays


def _sfu(root: Element, path: Path, document_id: str) -> Iterator[Sentence]:
    """Yield the sentences of the SFU Review Corpus (Konstantinova et al. 2012).

    A `cue` has an `ID`; an `xcope` has a `ref` whose `SRC` lists its cues. A cue without an `xcope` has an empty
    scope. Each `cue` element is a cue (`or … or` are two, with the same scopes). If a scope continues in
    the next sentence, only the part in the sentence of its cue is used.
    """
    cue_ids = {cue.get("ID") for cue in root.iter("cue")}
    for index, sentence in enumerate(root.iter("SENTENCE"), start=1):
        words, spans = _read_words(sentence)
        scopes: dict[str, list[Element]] = defaultdict(list)
        strays = []
        for scope in sentence.iter("xcope"):
            for cue_id in _referenced_cues(scope) or ["?"]:
                if cue_id in cue_ids:
                    scopes[cue_id].append(scope)
                else:
                    where = f"{path}, line {scope.sourceline}, sentence {index}: the scope {scope.get('ID')}"
                    strays.append(f"{where} refers to the cue {cue_id}, which is not in the document")
        cues = []
        for cue in sentence.iter("cue"):
            cue_scopes = scopes.get(attribute(cue, "ID", path), [])
            cue_kind = attribute(cue, "type", path, CUE_KINDS)
            cues.append(Cue(cue_kind, _cue_words([cue], spans, path), _union(cue_scopes, spans)))
        yield Sentence(document_id, f"{document_id}/{index}", words, cues, strays)


def _referenced_cues(scope: Element) -> list[str]:
    cue_ids: list[str] = []
    for reference in scope.findall("ref"):
        cue_ids += reference.get("SRC", "").split()
    return cue_ids


def _read_words(sentence: Element) -> tuple[list[str], dict[Element, range]]:
    """Return the words of a sentence, which end at white space and tags, and their range inside each element."""
    words: list[str] = []
    spans: dict[Element, range] = {}

    def visit(element: Element) -> None:
        first = len(words)
        words.extend((element.text or "").translate(_WINDOWS_1252).split())
        for child in element:
            visit(child)
            words.extend((child.tail or "").translate(_WINDOWS_1252).split())
        spans[element] = range(first, len(words))

    visit(sentence)
    return words, spans


def _union(elements: Iterable[Element], spans: Mapping[Element, range]) -> set[int]:
    return set(chain.from_iterable(spans[element] for element in elements))


def _cue_words(pieces: list[Element], spans: Mapping[Element, range], path: Path) -> set[int]:
    words = _union(pieces, spans)
    if not words:
        raise ValueError(f"{path}, line {pieces[0].sourceline}: a cue has no words.")
    return words


def _starsem(path: Path) -> Iterator[Sentence]:
    r"""Yield the sentences of *SEM 2012 (Morante and Blanco 2012, *\*SEM 2012 Shared Task*).

    A cue that is only a part of its word is an affix. The rest of the word may be in the scope (cue `in`, scope
    `frequent` of `infrequent`); the word then belongs to both. Negated events are dropped.
    """
    sentence_ids: set[str] = set()
    lines: list[Line] = []
    for line_number, text in read_lines(path):
        # only tabs separate columns: words may contain other white space
        lines.append((line_number, text.split("\t") if text.strip(" \t") else []))
    for sentence in group_lines(lines):
        first_line, first = sentence[0]
        for line, columns in sentence:
            _check_columns(f"{path}, line {line}", columns, first, first_line)
        chapter, sentence_number = first[: NUMBER + 1]
        sentence_id = unique_name(f"{chapter}/{sentence_number}", sentence_ids)
        where = f"{path}, line {first_line}, sentence {chapter} {sentence_number}"
        cues = []
        strays = []
        for index, column in enumerate(range(FIRST, len(first) - 1, 3), start=1):
            cue = _starsem_cue(sentence, column, path)
            if cue is None:
                strays.append(f"{where}: negation {index} has no cue")
            else:
                cues.append(cue)
        tokens = [columns[WORD] for _, columns in sentence]
        annotations = {}
        for name, column in ANNOTATION_COLUMNS.items():
            annotations[name] = [columns[column] for _, columns in sentence]
        yield Sentence(chapter, sentence_id, tokens, cues, strays, annotations)


def _starsem_cue(sentence: Sequence[Line], column: int, path: Path) -> Cue | None:
    """Return the cue in a column, with the scope in the next one; None if the column has no cue."""
    cue: dict[int, str] = {}
    affixes: dict[int, str] = {}
    scope: dict[int, str] = {}
    for index, (line, columns) in enumerate(sentence):
        word = columns[WORD]
        cue_text = columns[column]
        scope_text = columns[column + 1]
        if scope_text != NOTHING:
            scope[index] = scope_text
        if cue_text == NOTHING:
            continue
        if not cue_text or cue_text not in word:
            raise ValueError(f"{path}, line {line}: the cue {shorten(cue_text)} is not a part of {shorten(word)}.")
        cue[index] = cue_text
        if cue_text != word:
            affixes[index] = cue_text
    return Cue("negation", list(cue), scope, affixes, scope) if cue else None


def _check_columns(where: str, columns: list[str], first: list[str], first_line: int) -> None:
    width = len(first)
    if len(columns) != width or columns[: NUMBER + 1] != first[: NUMBER + 1]:
        names = " ".join(first[: NUMBER + 1])
        raise ValueError(
            f"{where}: is not of sentence {names}, which begins in line {first_line} and has {width} columns; separate"
            " sentences by blank lines."
        )
    if width <= FIRST or ((width - FIRST) % 3 and columns[FIRST:] != [NO_NEGATION]):
        raise ValueError(
            f"{where}: {width} columns; expected tabs between seven columns, then {NO_NEGATION} or three for each"
            " negation (cue, scope, event)."
        )
    if not columns[WORD].strip(" "):
        raise ValueError(f"{where}: the word, in the fourth column, is empty.")


def format_starsem(sentences: Iterable[Sequence[Mapping[str, Any]]]) -> str:
    """Return the text of sentences in the columns of *SEM 2012, which `load_negation` and the task's program read.

    Events and missing annotations are `_`. Tabs and line breaks in words become spaces. `sentences` are the rows of
    each sentence, as `group_sentences` returns them.
    """
    spaces = str.maketrans(dict.fromkeys("\t\r\n", " "))
    lines = []
    for rows in sentences:
        first = rows[0]
        negations = [row for row in rows if any(row["cue_text"])]
        sentence_number = first["sentence_id"].removeprefix(f"{first['document_id']}/")
        for index, word in enumerate(first["tokens"]):
            cells = [first["document_id"], sentence_number, str(index), word]
            for name in ANNOTATION_COLUMNS:
                cells.append(first[name][index] if first[name] else NOTHING)
            for row in negations:
                cells += [row["cue_text"][index], row["scope_text"][index], NOTHING]
            if not negations:
                cells.append(NO_NEGATION)
            lines.append("\t".join(cell.translate(spaces) or NOTHING for cell in cells))
        lines.append("")
    return "".join(f"{line}\n" for line in lines)
