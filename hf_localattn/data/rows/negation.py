"""One reader for all corpora of negation, which tells them apart by themselves."""

from __future__ import annotations

import os
from pathlib import Path

from datasets import Dataset

from hf_localattn.data.readers.negation import bioscope, sfu
from hf_localattn.data.readers.negation.rows import Options
from hf_localattn.data.readers.negation.starsem import load_starsem
from hf_localattn.data.readers.tables import read_text
from hf_localattn.data.readers.xml_files import parse_xml
from hf_localattn.data.rows.negation_records import RECORD_SUFFIXES, load_records

_BY_ROOT = {bioscope.ROOT: bioscope.load_bioscope, sfu.ROOT: sfu.load_sfu}


def load_negation(
    path: str | os.PathLike[str],
    cues: str = "negation",
    cue_in_scope: str = "never",
    *,
    stray_scopes: str = "error",
    require_scopes: bool = True,
) -> Dataset:
    """Read any corpus of negation or speculation into rows of `NEGATION_FEATURES`, one for each cue of each sentence.

    Args:
        path: the SFU corpus (a folder, or one of its files), BioScope's XML, .json or .jsonl with rows in the form of
            `NEGATION_FEATURES`, or else a file of *SEM 2012.
        cues: "negation" or "speculation"; rows in .json files do not say what theirs are, and are all taken.
        cue_in_scope: "never": a row's own cue words are 0 in `scope`, but for affixes; "corpus": as annotated.
        stray_scopes: whether a scope without its cue is an "error", or to "skip" with a warning.
        require_scopes: whether rows without `scope` in .json files are an error; if not, theirs is empty.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ValueError: it cannot be used; names the place and the remedy.
    """
    path = Path(path)
    Options(cues, cue_in_scope, stray_scopes)
    if path.is_dir():
        return sfu.load_sfu(path, cues, cue_in_scope, stray_scopes=stray_scopes)
    if path.suffix in RECORD_SUFFIXES:
        return load_records(path, cue_in_scope, require_scopes=require_scopes)
    text = read_text(path)
    if path.suffix != ".xml" and not text.lstrip().startswith("<"):
        return load_starsem(path, cues, cue_in_scope, stray_scopes=stray_scopes)
    root = parse_xml(text, str(path))
    if root.tag not in _BY_ROOT:
        raise ValueError(
            f"{path}, line {root.line}: the root element {root.tag!r} is of no known corpus; BioScope has"
            f" {bioscope.ROOT!r} there, and the SFU corpus {sfu.ROOT!r}."
        )
    return _BY_ROOT[root.tag](path, cues, cue_in_scope, stray_scopes=stray_scopes)
