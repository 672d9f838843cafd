"""Reader for the *SEM 2012 shared task (stories by Conan Doyle), with three columns per negation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datasets import Dataset

from hf_localattn.data.readers.column_files import Line, read_lines, split_sentences
from hf_localattn.data.readers.negation.rows import Cue, Options, Sentence, UniqueNames, UnmatchedScopes, build_rows
from hf_localattn.data.readers.tables import PathLike, shorten

CHAPTER, NUMBER, WORD, FIRST = 0, 1, 3, 7
"""Column indices: chapter, sentence number, word, and the first negation."""
ANNOTATION_COLUMNS = {"lemma": 4, "pos": 5, "parse": 6}

NO_NEGATION = "***"
NOTHING = "_"
COLUMNS = "expected tabs between seven columns, then *** or three for each negation (cue, scope, event)"


def load_starsem(
    path: PathLike,
    cues: str = "negation",
    cue_in_scope: str = "never",
    *,
    unmatched_scopes: str = "error",
    all_sentences: bool = False,
) -> Dataset:
    r"""Read a file of the *SEM 2012 shared task (CD-SCO) into rows of `NEGATION_FEATURES`.

    A cue that is only a part of its word is an affix. The rest of the word may be in the scope (cue `in`, scope
    `frequent` of `infrequent`); the word then belongs to cue and scope. Negated events are dropped.

    Args:
        path: a UTF-8 file with the original columns and any extension.
        cues: `"negation"`, the only kind in this corpus, or `"both"`.
        cue_in_scope: see `load_negation`. In the published files no cue word is in its scope.
        unmatched_scopes: see `load_negation`.
        all_sentences: see `load_negation`.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not in this format. The message names the line and a remedy.

    Format: Morante and Blanco 2012, *\*SEM 2012 Shared Task: Resolving the Scope and Focus of Negation*.
    """
    path, options = Path(path), Options(cues, cue_in_scope, unmatched_scopes, all_sentences)
    if cues == "speculation":
        raise ValueError(f"{path}: *SEM 2012 has cues of negation only; got cues={cues!r}.")
    return build_rows(lambda unmatched: _sentences(path, unmatched), str(path), options)


def _sentences(path: Path, unmatched: UnmatchedScopes) -> Iterator[Sentence]:
    name = UniqueNames()
    # only tabs separate columns: words may contain other white space
    lines = ((number, line.split("\t") if line.strip(" \t") else []) for number, line in read_lines(path))
    for sentence in split_sentences(lines):
        chapter, sentence_number = _check_columns(sentence, path)
        words = [columns[WORD] for _, columns in sentence]
        cues = list(_cues(sentence, path, unmatched))
        annotations = {
            column: [columns[place] for _, columns in sentence] for column, place in ANNOTATION_COLUMNS.items()
        }
        yield Sentence(chapter, name(f"{chapter}/{sentence_number}"), words, cues, annotations)


def _check_columns(sentence: list[Line], path: Path) -> list[str]:
    """Check the columns of a sentence, and return its chapter and number."""
    first_line, first = sentence[0]
    width = len(first)
    for line, columns in sentence:
        where = f"{path}, line {line}"
        if len(columns) != width:
            raise ValueError(
                f"{where}: {len(columns)} columns, but {width} in line {first_line}, where the sentence begins;"
                " separate sentences by blank lines."
            )
        if width <= FIRST or (width > FIRST + 1 and (width - FIRST) % 3):
            raise ValueError(f"{where}: {width} columns; {COLUMNS}.")
        if width == FIRST + 1 and columns[FIRST] != NO_NEGATION:
            raise ValueError(f"{where}: the eighth and last column has {shorten(columns[FIRST])}; {COLUMNS}.")
        if columns[: NUMBER + 1] != first[: NUMBER + 1]:
            raise ValueError(
                f"{where}: sentence {' '.join(columns[: NUMBER + 1])} begins within {' '.join(first[: NUMBER + 1])};"
                " separate sentences by blank lines."
            )
        if not columns[WORD].strip(" "):
            raise ValueError(f"{where}: the word, in the fourth column, is empty.")
    return first[: NUMBER + 1]


def _cues(sentence: list[Line], path: Path, unmatched: UnmatchedScopes) -> Iterator[Cue]:
    first_line, first = sentence[0]
    for number, column in enumerate(range(FIRST, len(first) - 1, 3), start=1):
        words, affixes, scope = [], dict[int, str](), dict[int, str]()
        for place, (line, columns) in enumerate(sentence):
            cue, word = columns[column], columns[WORD]
            if columns[column + 1] != NOTHING:
                scope[place] = columns[column + 1]
            if cue == NOTHING:
                continue
            if not cue or cue not in word:
                raise ValueError(f"{path}, line {line}: the cue {shorten(cue)} is not a part of {shorten(word)}.")
            words.append(place)
            if cue != word:
                affixes[place] = cue
        if words:
            yield Cue("negation", words, scope, affixes, scope)
        else:
            unmatched.add(
                f"{path}, line {first_line}, sentence {' '.join(first[: NUMBER + 1])}: negation {number} has no cue"
            )
