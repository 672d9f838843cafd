"""Hostile checkpoints: for each its name, the calls that load it, the change, and how that must end."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from hf_localattn.hub import init_checkpoint
from tests.hostile.writing import CODE, Change, content, write_outside

SAMPLES = {
    "cool": ("cool", "tiny", {"conv_filters": 5}),
    "sla": ("sla-bert", "tiny", {"parser": None}),
    "oa": ("oa-xlnet", "tiny", {}),
    "sam": ("sam-roberta", "tiny", {"bilstm_hidden_size": 8, "tam_max_length": 32}),
    "bart": ("cool", "tiny-bart", {"conv_filters": 5}),
}
"""Harmless checkpoints: family, backbone, settings. Every case is one of them with one thing changed."""

CONTROLS = {
    "cool": "config own_config plain_tokenizer checked_tokenizer own_model classifier model card push inspect",
    "sla": "sla_tokenizer checked_tokenizer model",
    "oa": "oa_tokenizer checked_tokenizer model",
    "sam": "model",
    "bart": "generator",
}
"""The calls that load them, and have to: functions of loaders.py."""


LOADS = None
"""In place of a pattern: it loads, and the hostile part has no effect."""


@dataclass(frozen=True)
class Stock:
    """transformers ends it with an error of another class, before any code of this package is asked."""

    error: str


@dataclass(frozen=True)
class Case:
    """A hostile checkpoint.

    Attributes:
        name: of its folder.
        sample: the harmless checkpoint that it is made of.
        loads: the calls. The last one ends as said; those before it do too, or do no harm.
        change: makes it hostile.
        ends: the pattern of a `ValueError` or `OSError`, `LOADS` or a `Stock` error.
    """

    name: str
    sample: str
    loads: tuple[str, ...]
    change: Change
    ends: str | Stock | None


def group(sample: str, loads: str, rows: dict[str, tuple]) -> list[Case]:
    """Return cases that are loaded by the same calls. `rows` has change and end by name."""
    return [Case(name, sample, tuple(loads.split()), *row) for name, row in rows.items()]


def write_samples(root: Path) -> dict[str, Path]:
    """Write the harmless checkpoints, and beside each what its hostile ones would reach for; return their folders."""
    samples = {}
    for name, (family, backbone, settings) in SAMPLES.items():
        samples[name] = init_checkpoint(family, backbone, root / name / "harmless", **settings)
        write_outside(root / name / "outside", samples[name])
        os.link(samples[name] / "model.safetensors", root / name / "blob")
        # All code in the hostile ones would end the program that runs it.
        shutil.copytree(samples[name], root / name / "armed", copy_function=os.link)
        for path in (root / name / "armed").glob("*.py"):
            content(path.name, CODE)(path.parent, path.parent)
    return samples


def write(case: Case, root: Path) -> tuple[Path, Path]:
    """Write a case beside its harmless checkpoint; return its folder, and the one that nothing may touch."""
    folder, outside = root / case.sample / case.name, root / case.sample / "outside"
    shutil.copytree(root / case.sample / "armed", folder, copy_function=os.link)
    case.change(folder, outside)
    return folder, outside
