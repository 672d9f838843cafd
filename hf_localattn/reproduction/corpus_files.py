"""Where a recipe's data are: on the Hub, in a folder of this machine, or among the samples that ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_localattn.reproduction.recipes import Corpus
from hf_localattn.resources import FOLDER as RESOURCES
from hf_localattn.training.text_classification import GLUE

SAMPLES = "samples"
"""Stands for the few rows that ship with the package, in place of a folder."""

SUFFIXES = ("", ".jsonl", ".json", ".csv", ".tsv", ".txt", ".conll", ".conllu", ".xml")


def corpus_arguments(
    corpus: Corpus, splits: Sequence[str], where: str | None, optional: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what tells a script to read the splits of a corpus.

    Args:
        corpus: of the recipe.
        splits: among "train", "validation" and "test".
        where: a folder, `SAMPLES`, or None for the Hub.
        optional: splits that are read if they are there.

    Raises:
        ValueError: it cannot be had there; says where it can.
    """
    if where is None:
        if corpus.hub is None:
            raise ValueError(
                f"{corpus.title} cannot be loaded from the Hub. Get it from {corpus.source} (licence:"
                f" {corpus.licence}) and give its folder, --data {corpus.name}=FOLDER, with"
                f" {_expected(corpus, splits)}: {corpus.format}"
            )
        # GLUE's tasks are called by their names alone.
        named = {} if corpus.hub == GLUE else {"dataset_name": corpus.hub, "dataset_config_name": corpus.config}
        return {**named, **corpus.arguments, **corpus.hub_arguments}
    files = sample_files(corpus) if where == SAMPLES else folder_files(corpus, splits, Path(where), optional)
    own = {**corpus.arguments, **(corpus.sample_arguments if where == SAMPLES else corpus.file_arguments)}
    if where != SAMPLES:
        own = {name: str(Path(where, value)) if name.endswith("_file") else value for name, value in own.items()}
    wanted = [split for split in (*splits, *optional) if split in files]
    return {**{f"{split}_file": str(files[split]) for split in wanted}, **own}


def sample_files(corpus: Corpus) -> dict[str, Path]:
    """Return the files of the shipped sample, by split."""
    return {split: RESOURCES / file for split, file in corpus.sample.items()}


def folder_files(corpus: Corpus, splits: Sequence[str], folder: Path, optional: Sequence[str] = ()) -> dict[str, Path]:
    """Return the files of a corpus in a folder, by split.

    Raises:
        FileNotFoundError: there is no such folder, or a split is not in it.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"--data {corpus.name}={folder}: there is no such folder.")
    found = {split: _find(folder, corpus.files.get(split, (split,))) for split in (*splits, *optional)}
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
        " or ".join("its own files" if stem == "." else f"{stem}.*" for stem in corpus.files.get(split, (split,)))
        for split in splits
    )


def described(where: str | None, corpora: Mapping[str, Corpus], name: str) -> str:
    """Return in a word where the data of a corpus are from, without a path of this machine."""
    if where is None:
        corpus = corpora[name]
        return f"the Hub: {corpus.hub}" + (f" ({corpus.config})" if corpus.config else "")
    return "the samples of this package" if where == SAMPLES else "local files"
