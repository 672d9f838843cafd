"""Corpora of the tables, from the Hub, a local folder, or the samples of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from hf_localattn.resources import FOLDER as RESOURCES
from hf_localattn.settings.data import GLUE

FOLDER = Path(__file__).parent
"""Folder of corpora.yaml and the tables."""

SPLITS = {"train": ("train",), "validation": ("validation", "dev"), "test": ("test",)}
"""Splits, each with the default names of its file."""

SAMPLES = "samples"
"""Value that stands for the sample rows of this package, in place of a folder."""

SUFFIXES = ("", ".jsonl", ".json", ".csv", ".tsv", ".txt", ".conll", ".conllu", ".xml")


class Entry(BaseModel):
    """An entry of a file: a mapping whose values have exactly the annotated types. Its `name` is its key."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = ""


class Corpus(Entry):
    """A corpus on the Hub or in local files, with its title, the URL of its source, its license and its format.

    Attributes:
        files: Further names of each split's file in a folder of the corpus, in addition to the names in `SPLITS`,
            with or without a suffix. "." is the folder itself.
        sample: Sample file of each split in the same format, relative to the folder of `hf_localattn.resources`.
        hub: Hub id. By default, the corpus is only read from files.
        config: Configuration name on the Hub.
        arguments: Arguments of the script to read the corpus.
    """

    title: str
    source: str
    license: str
    format: str
    files: dict[str, list[str] | None] = {}
    sample: dict[str, str] = {}
    hub: str | None = None
    config: str | None = None
    arguments: dict[str, Any] = {}

    def place(self, folder: str | None) -> str:
        """Describe where the rows are read, without local paths. `folder` is as in `corpus_arguments`."""
        if folder == SAMPLES:
            return "the samples of this package"
        if folder is not None:
            return "local files"
        config = f" ({self.config})" if self.config else ""
        return f"the Hub: {self.hub}{config}"


def named(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Add to each entry of a file its key as `name`. A text stands for an entry with a metric alone."""
    contents = {}
    for name, entry in entries.items():
        content = {"metric": entry} if isinstance(entry, str) else entry
        contents[name] = {"name": name, **content}
    return contents


@cache
def load_corpora() -> dict[str, Corpus]:
    """Return all corpora by name."""
    content = yaml.safe_load((FOLDER / "corpora.yaml").read_text(encoding="utf-8"))
    return {name: Corpus.model_validate(entry) for name, entry in named(content).items()}


def corpus_arguments(
    corpus: Corpus,
    splits: Sequence[str],
    folder: str | None,
    optional: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the data arguments of a script for the splits of a corpus.

    Args:
        corpus: The corpus.
        splits: Splits out of "train", "validation" and "test".
        folder: Folder of the corpus, `SAMPLES`, or None for the Hub.
        optional: Further splits, read only if they exist.

    Raises:
        ValueError: The corpus is not on the Hub. The message names its source.
        FileNotFoundError: The folder or the file of a split does not exist.
    """
    if folder is None and corpus.hub is None:
        raise ValueError(
            f"{corpus.title} cannot be loaded from the Hub. Get it from {corpus.source} (license: {corpus.license})"
            f" and give its folder, --data {corpus.name}=FOLDER, with {_expected(corpus, splits)}"
        )
    if folder is None and corpus.hub == GLUE:  # --task_name is enough
        return dict(corpus.arguments)
    if folder is None:
        return {"dataset_name": corpus.hub, "dataset_config_name": corpus.config, **corpus.arguments}
    files = {}
    for split in dict.fromkeys((*splits, *optional)):
        path = _file_of(corpus, split, folder)
        if path is not None:
            files[f"{split}_file"] = str(path)
        elif split in splits:
            problem = f" lacks the {split} data" if Path(folder).is_dir() else ": there is no such folder"
            raise FileNotFoundError(
                f"--data {corpus.name}={folder}{problem}. It should hold {_expected(corpus, splits)}"
            )
    return {**files, **corpus.arguments}


def _names(corpus: Corpus, split: str) -> list[str]:
    return [*SPLITS[split], *(corpus.files.get(split) or ())]


def _expected(corpus: Corpus, splits: Sequence[str]) -> str:
    """Describe the files of a corpus."""
    files = []
    for split in splits:
        files.append(" or ".join(f"{name}.*" for name in _names(corpus, split) if name != "."))
    return f"{', '.join(files)}: {corpus.format}"


def _file_of(corpus: Corpus, split: str, folder: str) -> Path | None:
    """Return the file of a split, or None if it does not exist."""
    if folder == SAMPLES:
        return RESOURCES / corpus.sample[split]
    for name in _names(corpus, split):
        for suffix in SUFFIXES:
            path = Path(folder, f"{name}{suffix}")
            if path.exists():
                return path
    return None
