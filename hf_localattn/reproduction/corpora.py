"""The corpora of the tables, and where they are: on the Hub, in a folder of this machine, or among the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import field_validator, model_validator

from hf_localattn.reproduction.entries import Entry, Settings, check_known, name_entries, read_yaml, validate
from hf_localattn.resources import FOLDER as RESOURCES
from hf_localattn.tasks.text_classification import GLUE

FOLDER = Path(str(files("hf_localattn.reproduction")))
"""Holds corpora.yaml and the tables."""

SPLITS = {"train": ("train",), "validation": ("validation", "dev"), "test": ("test",)}
"""The splits, each with the default names of its file."""

SAMPLES = "samples"
"""Stands for the few rows that ship with the package, in place of a folder."""

SUFFIXES = ("", ".jsonl", ".json", ".csv", ".tsv", ".txt", ".conll", ".conllu", ".xml")


class Corpus(Entry):
    """Data, on the Hub or as local files.

    Attributes:
        name, title: the key in corpora.yaml, and the name for people.
        source: an address where people get it.
        license: the license, in the words of its source.
        format: the form that files must have.
        files: names that the file of each split may have in a folder of the corpus: with any suffix that the
            script reads, or a whole name; "." is the folder itself. Names of `SPLITS` need not be listed.
        sample: a file for each split in the same format, below the folder of `hf_localattn.resources`.
        hub, config: id and configuration on the Hub. Without them the corpus is read from files only.
        arguments: arguments with which the script reads it, from the Hub, files or sample.
        hub_arguments, file_arguments, sample_arguments: further ones for one of these. A file that `file_arguments`
            name is in the corpus's folder.
    """

    name: str = ""
    title: str
    source: str
    license: str
    format: str
    files: dict[str, list[str] | None] = {}
    sample: dict[str, str] = {}
    hub: str | None = None
    config: str | None = None
    arguments: Settings = {}
    hub_arguments: Settings = {}
    file_arguments: Settings = {}
    sample_arguments: Settings = {}

    @field_validator("files", "sample")
    @classmethod
    def _check_splits(cls, content: dict[str, Any]) -> dict[str, Any]:
        check_known(content, SPLITS)
        return content

    @model_validator(mode="after")
    def _compare_splits(self) -> Corpus:
        if list(self.files) != list(self.sample):
            raise ValueError(f"files are of {', '.join(self.files)}, but samples of {', '.join(self.sample)}.")
        return self

    def stems(self, split: str) -> list[str]:
        """Return the names that the file of a split may have, without a suffix."""
        return [*SPLITS[split], *(self.files.get(split) or ())]


@cache
def load_corpora() -> dict[str, Corpus]:
    """Return all corpora by name."""
    where = "corpora.yaml"
    content = read_yaml(FOLDER / where)
    corpora = {name: validate(Corpus, own, f"{where}, {name}") for name, own in content.items()}
    name_entries(corpora)
    return corpora


def corpus_arguments(
    corpus: Corpus, splits: Sequence[str], where: str | None, optional: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the arguments with which a script reads the splits of a corpus.

    Args:
        corpus: the corpus.
        splits: names out of "train", "validation" and "test".
        where: a folder, `SAMPLES`, or None for the Hub.
        optional: splits that are read if they are there.

    Raises:
        ValueError: the corpus is not there; says where it can be had.
    """
    if where is None:
        if corpus.hub is None:
            raise ValueError(
                f"{corpus.title} cannot be loaded from the Hub. Get it from {corpus.source} (license:"
                f" {corpus.license}) and give its folder, --data {corpus.name}=FOLDER, with"
                f" {_expected(corpus, splits)}: {corpus.format}"
            )
        # GLUE's tasks are called by their names alone.
        named = {} if corpus.hub == GLUE else {"dataset_name": corpus.hub, "dataset_config_name": corpus.config}
        return {**named, **corpus.arguments, **corpus.hub_arguments}
    if where == SAMPLES:
        found = {split: RESOURCES / file for split, file in corpus.sample.items()}
        own = {**corpus.arguments, **corpus.sample_arguments}
    else:
        found = _folder_files(corpus, splits, Path(where), optional)
        own = {
            name: str(Path(where, value)) if name.endswith("_file") else value
            for name, value in {**corpus.arguments, **corpus.file_arguments}.items()
        }
    wanted = [split for split in (*splits, *optional) if split in found]
    return {**{f"{split}_file": str(found[split]) for split in wanted}, **own}


def describe_source(where: str | None, corpora: Mapping[str, Corpus], name: str) -> str:
    """Return the origin of a corpus's data, without a path of this machine."""
    if where is None:
        corpus = corpora[name]
        return f"the Hub: {corpus.hub}" + (f" ({corpus.config})" if corpus.config else "")
    return "the samples of this package" if where == SAMPLES else "local files"


def _folder_files(
    corpus: Corpus, splits: Sequence[str], folder: Path, optional: Sequence[str] = ()
) -> dict[str, Path]:
    """Return the files of a corpus in a folder, by split.

    Raises:
        FileNotFoundError: there is no such folder, or a split is not in it.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"--data {corpus.name}={folder}: there is no such folder.")
    found = {split: _find(folder, corpus.stems(split)) for split in (*splits, *optional)}
    if missing := [split for split in splits if found[split] is None]:
        raise FileNotFoundError(
            f"--data {corpus.name}={folder} lacks the {' and '.join(missing)} data: it should hold"
            f" {_expected(corpus, missing)}. {corpus.format}"
        )
    return {split: path for split, path in found.items() if path is not None}


def _find(folder: Path, stems: Sequence[str]) -> Path | None:
    candidates = (folder / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES)
    return next((path for path in candidates if path.exists()), None)


def _expected(corpus: Corpus, splits: Sequence[str]) -> str:
    return ", ".join(
        " or ".join("its own files" if stem == "." else f"{stem}.*" for stem in corpus.stems(split))
        for split in splits
    )
