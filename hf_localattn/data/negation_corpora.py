"""Corpora of negation and speculation as generators of sentences: BioScope, SFU reviews, *SEM 2012."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from hf_localattn.data.column_files import group_lines, read_lines
from hf_localattn.data.rows import read_text, shorten
from hf_localattn.data.xml import Element, attribute, parse_xml
from hf_localattn.models.negation_finder import CUE_KINDS

CHAPTER, NUMBER, WORD, FIRST = 0, 1, 3, 7
"""Indices of columns of *SEM 2012: chapter, sentence number, word, and the first negation."""
ANNOTATION_COLUMNS = {"lemma": 4, "pos": 5, "parse": 6}
NO_NEGATION, NOTHING = "***", "_"

# Some texts of SFU were saved as Windows-1252. Their quotation marks and dots become control characters when they are
# read as Unicode. Tokenizers drop control characters, so the cue "don't" would lose its apostrophe.
_WINDOWS_1252 = {
    code: character for code in range(0x80, 0xA0) if (character := bytes([code]).decode("cp1252", errors="ignore"))
}


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
    numbered = (f"{name}~{number}" for number in count(2))
    unique = next(one for one in chain([name], numbered) if one not in seen)
    seen.add(unique)
    return unique


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a folder of SFU, or of a file of BioScope, SFU or *SEM 2012: its content says which."""
    if path.is_dir():
        if not (files := sorted(path.rglob("*.xml"))):
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
        known = " or ".join(tags)
        raise ValueError(f"{path}, line {root.sourceline}: the root element is {root.tag!r}; it must be {known}.")
    return root


def _bioscope(root: Element, path: Path) -> Iterator[Sentence]:
    """Yield the sentences of BioScope (Vincze et al. 2008): abstracts, full papers, clinical records.

    Cues with the same `ref` are parts of one cue (`neither … nor`). A cue whose `ref` names no scope has an empty one.
    If annotators joined two cues into one, the file may still have the scopes of both: a scope without a cue is
    dropped if it contains a part of a joined cue.
    """
    names: set[str] = set()
    for number, document in enumerate(root.iter("Document"), start=1):
        document_id = (document.findtext("DocID") or "").strip() or f"document {number}"
        for sentence in document.iter("sentence"):
            sentence_id = attribute(sentence, "id", path)
            words, places = _read_words(sentence)
            scopes: dict[str, list[Element]] = defaultdict(list)
            for scope in sentence.iter("xcope"):
                scopes[attribute(scope, "id", path)].append(scope)
            pieces: dict[tuple[str, str], list[Element]] = defaultdict(list)
            for cue in sentence.iter("cue"):
                pieces[attribute(cue, "ref", path), attribute(cue, "type", path, CUE_KINDS)].append(cue)
            joined = {piece for own in pieces.values() if len(own) > 1 for piece in own}
            cued, strays = {reference for reference, _ in pieces}, []
            for reference, own in scopes.items():
                if reference not in cued and not any(cue in joined for scope in own for cue in scope.iter("cue")):
                    where = f"{path}, line {own[0].sourceline}, sentence {sentence_id}"
                    strays.append(f"{where}: no cue refers to the scope {reference}")
            cues = [
                Cue(kind, _cue_words(own, places, path), _union(scopes.get(reference, []), places))
                for (reference, kind), own in pieces.items()
            ]
            yield Sentence(document_id, unique_name(f"{document_id}/{sentence_id}", names), words, cues, strays)


def _sfu(root: Element, path: Path, document_id: str) -> Iterator[Sentence]:
    """Yield the sentences of the SFU Review Corpus (Konstantinova et al. 2012).

    A `cue` has an `ID`; an `xcope` has a `ref` whose `SRC` lists its cues. A cue without an `xcope` has an empty
    scope. Each `cue` element is a cue (`or … or` are two, with the same scopes). If a scope continues in
    the next sentence, only the part in the sentence of its cue is used.
    """
    known = {cue.get("ID") for cue in root.iter("cue")}
    for number, sentence in enumerate(root.iter("SENTENCE"), start=1):
        words, places = _read_words(sentence)
        scopes: dict[str, list[Element]] = defaultdict(list)
        strays = []
        for scope in sentence.iter("xcope"):
            references = [cue for reference in scope.findall("ref") for cue in reference.get("SRC", "").split()]
            for cue in references or ["?"]:
                if cue in known:
                    scopes[cue].append(scope)
                else:
                    where = f"{path}, line {scope.sourceline}, sentence {number}: the scope {scope.get('ID')}"
                    strays.append(f"{where} refers to the cue {cue}, which is not in the document")
        cues = []
        for cue in sentence.iter("cue"):
            own = scopes.get(attribute(cue, "ID", path), [])
            kind = attribute(cue, "type", path, CUE_KINDS)
            cues.append(Cue(kind, _cue_words([cue], places, path), _union(own, places)))
        yield Sentence(document_id, f"{document_id}/{number}", words, cues, strays)


def _read_words(sentence: Element) -> tuple[list[str], dict[Element, range]]:
    """Return the words of a sentence, which end at white space and tags, and their range inside each element."""
    words: list[str] = []
    places: dict[Element, range] = {}

    def visit(element: Element) -> None:
        first = len(words)
        words.extend((element.text or "").translate(_WINDOWS_1252).split())
        for child in element:
            visit(child)
            words.extend((child.tail or "").translate(_WINDOWS_1252).split())
        places[element] = range(first, len(words))

    visit(sentence)
    return words, places


def _union(elements: Iterable[Element], places: dict[Element, range]) -> set[int]:
    return {place for element in elements for place in places[element]}


def _cue_words(pieces: list[Element], places: dict[Element, range], path: Path) -> set[int]:
    if not (words := _union(pieces, places)):
        raise ValueError(f"{path}, line {pieces[0].sourceline}: a cue has no words.")
    return words


def _starsem(path: Path) -> Iterator[Sentence]:
    r"""Yield the sentences of *SEM 2012 (Morante and Blanco 2012, *\*SEM 2012 Shared Task*).

    A cue that is only a part of its word is an affix. The rest of the word may be in the scope (cue `in`, scope
    `frequent` of `infrequent`); the word then belongs to both. Negated events are dropped.
    """
    names: set[str] = set()
    # only tabs separate columns: words may contain other white space
    lines = ((number, line.split("\t") if line.strip(" \t") else []) for number, line in read_lines(path))
    for sentence in group_lines(lines):
        first_line, first = sentence[0]
        for line, columns in sentence:
            _check_columns(f"{path}, line {line}", columns, first, first_line)
        chapter, number_of_sentence = first[: NUMBER + 1]
        cues, strays = [], []
        for number, column in enumerate(range(FIRST, len(first) - 1, 3), start=1):
            texts = {place: columns[column] for place, (_, columns) in enumerate(sentence)}
            cue = {place: text for place, text in texts.items() if text != NOTHING}
            for place, text in cue.items():
                line, columns = sentence[place]
                if not text or text not in columns[WORD]:
                    raise ValueError(
                        f"{path}, line {line}: the cue {shorten(text)} is not a part of {shorten(columns[WORD])}."
                    )
            pairs = ((place, columns[column + 1]) for place, (_, columns) in enumerate(sentence))
            scope = {place: text for place, text in pairs if text != NOTHING}
            if cue:
                affixes = {place: text for place, text in cue.items() if text != sentence[place][1][WORD]}
                cues.append(Cue("negation", list(cue), scope, affixes, scope))
            else:
                where = f"{path}, line {first_line}, sentence {chapter} {number_of_sentence}"
                strays.append(f"{where}: negation {number} has no cue")
        tokens, *others = (
            [columns[place] for _, columns in sentence] for place in (WORD, *ANNOTATION_COLUMNS.values())
        )
        annotations = dict(zip(ANNOTATION_COLUMNS, others, strict=True))
        sentence_id = unique_name(f"{chapter}/{number_of_sentence}", names)
        yield Sentence(chapter, sentence_id, tokens, cues, strays, annotations)


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
        first, negations = rows[0], [row for row in rows if any(row["cue_text"])]
        number = first["sentence_id"].removeprefix(f"{first['document_id']}/")
        for place, word in enumerate(first["tokens"]):
            annotations = [first[name][place] if first[name] else NOTHING for name in ANNOTATION_COLUMNS]
            cells = [cell for row in negations for cell in (row["cue_text"][place], row["scope_text"][place], "")]
            columns = [first["document_id"], number, str(place), word, *annotations, *(cells or [NO_NEGATION])]
            lines.append("\t".join(column.translate(spaces) or NOTHING for column in columns))
        lines.append("")
    return "".join(f"{line}\n" for line in lines)
